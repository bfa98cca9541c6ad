-- How a request for a lease begins: it is refused if its arguments are bad or if it comes late.
--
--   ARGV[2]  lease, ms
--   ARGV[3]  deadline of this request, server time in us: it must not run late
--
-- Gives: lease, now
local bad = not string.find(ARGV[2] .. '@' .. ARGV[3], '^%d+@%d+$')
local lease, deadline = bad and 0 or ARGV[2] + 0, bad and 0 or ARGV[3] + 0
if lease < 1 or lease > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
--include "time.lua" gives now
--include "late.lua"
