-- Takes the lock for one owner, unless another has it.
--
--   KEYS[1]  the lock's hash
--   ARGV[1]  owner field
--   ARGV[2]  lease, ms
--   ARGV[3]  deadline of this request, server time in us: it must not run late
--
-- Answers: nil granted · integer: held by another, its PTTL · status "LATE <server us>".
-- Refused: a key that is something else than a lock (WRONGTYPE).
-- Safe to send twice: a repetition finds its own field and renews the lease.
local lease, deadline = tonumber(ARGV[2]), tonumber(ARGV[3])
if not string.find(ARGV[2], '^%d+$') or lease < 1 or lease > 31536000000 or not deadline then
	return redis.error_reply('LOCKKEEPER bad lease or deadline')
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
if redis.call('EXISTS', KEYS[1]) == 1 then
	local own = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
	if type(own) == 'table' then
		if not string.find(own.err, 'WRONGTYPE') then
			return own
		end
		local kind = redis.call('TYPE', KEYS[1]).ok
		return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a lock')
	end
	if own == 0 then
		if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
			local why = 'the key is a read/write lock, not a lock'
			return redis.error_reply('WRONGTYPE ' .. why)
		end
		return redis.call('PTTL', KEYS[1])
	end
else
	redis.call('HSET', KEYS[1], ARGV[1], 1)
end
local answer = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(answer) == 'table' then
	-- A refused PEXPIRE (ACL) must not leave a lock without a time to live.
	redis.call('HDEL', KEYS[1], ARGV[1])
	return answer
end
return false
