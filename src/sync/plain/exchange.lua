-- Passes the plain lock from one token of a client to the next in one step: nobody else is woken.
--
--   KEYS[1]  the lock's string
--   ARGV[1]  token that gives
--   ARGV[2]  token that takes
--   ARGV[3]  lease of the taker, ms
--   ARGV[4]  deadline of this request, server time in us
--   ARGV[5]  channel
--
-- Answers: nil granted · integer -3: the giver does not have it (nothing was done) · status
-- "LATE <server us>" (nothing was done) · status "FREED <reason>": given up, but not taken.
-- Safe to send twice. When the taking is refused it is a plain release.
local lease, deadline = tonumber(ARGV[3]), tonumber(ARGV[4])
if not string.find(ARGV[3], '^%d+$') or lease < 1 or lease > 31536000000 or not deadline then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] then
	local taken = redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
	if taken.err then
		redis.call('DEL', KEYS[1])
		redis.pcall('PUBLISH', ARGV[5], '0')
		return redis.status_reply('FREED ' .. taken.err)
	end
	return false
end
if held ~= ARGV[2] then
	return -3
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return false
