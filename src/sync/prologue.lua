-- How a request for a lease begins: it is refused if its arguments are bad or if it comes late.
--
--   ARGV[2]  lease, ms
--   ARGV[3]  deadline of this request, server time in us: it must not run late
--
-- Gives: lease, now
local lease, deadline = tonumber(ARGV[2]), tonumber(ARGV[3])
if not string.find(ARGV[2], '^%d+$') or lease < 1 or lease > 31536000000 or not deadline then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
--include "time.lua" gives now
--include "late.lua"
