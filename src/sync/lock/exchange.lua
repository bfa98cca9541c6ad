-- Passes the lock from one owner of a client to the next in one step: nobody else is woken.
--
--   KEYS[1]  the lock's hash
--   ARGV[1]  owner field that gives
--   ARGV[2]  owner field that takes
--   ARGV[3]  lease of the taker, ms
--   ARGV[4]  deadline of this request, server time in us
--   ARGV[5]  channel; empty where nobody listens
--
-- Answers: nil granted · integer -3: the giver does not own it (nothing was done) · status
-- "LATE <server us>" (nothing was done) · status "FREED <reason>": given up, but not taken.
-- Safe to send twice. It releases first; when the taking is refused it is a plain release.
local lease, deadline = tonumber(ARGV[3]), tonumber(ARGV[4])
if not string.find(ARGV[3], '^%d+$') or lease < 1 or lease > 31536000000 or not deadline then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
local function freed(why)
	if ARGV[5] ~= '' then
		redis.call('PUBLISH', ARGV[5], '0')
	end
	return redis.status_reply('FREED ' .. why)
end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
	if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
		return -3
	end
else
	local taken = redis.pcall('HSET', KEYS[1], ARGV[2], 1)
	if type(taken) == 'table' then
		return freed(taken.err)
	end
end
local answer = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
if type(answer) == 'table' then
	redis.call('HDEL', KEYS[1], ARGV[2])
	return freed(answer.err)
end
return false
