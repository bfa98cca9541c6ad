-- Gives a permit a new lease, from now.
--
--   KEYS[1]  the permits in use
--   ARGV[1]  id
--   ARGV[2]  lease, ms
--
-- Answers: 1 done, 0 not in use, or expired.
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local lease = tonumber(ARGV[2])
if not lease or lease < 1 or lease > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad lease')
end
local expiry = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not expiry or tonumber(expiry) <= now then
	return 0
end
-- First a write that is allowed when memory is short: no id is empty.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + lease), ARGV[1])
return 1
