-- How a request for a lease begins: it is refused if its arguments are bad or if it comes late.
--
--   ARGV[2]  lease, ms
--   ARGV[3]  deadline of this request, server time in us: it must not run late
--
-- Gives: lease, time
local lease, deadline = ARGV[2], tonumber(ARGV[3])
lease = string.find(lease, '^%d+$') and lease + 0 or 0
-- "inf" and "nan" are numbers, too.
if lease < 1 or lease > 31536000000 or not deadline or deadline * 0 ~= 0 then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
--include "unfit.lua"
local time = redis.call('TIME')
if (time[1] + 1) * 1000000 > deadline then -- its last second has begun
	local now = time[1] * 1000000 + time[2]
	--include "late.lua"
end
