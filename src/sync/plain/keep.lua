-- Gives the plain lock up if it has this token, and keeps it from others for a time: under a token
-- that is nobody's. Those waiters who listen are woken once, to see until when.
--
--   KEYS[1]  key: the lock's string
--   ARGV[1]  keep_ms: for how long, ms
--   ARGV[2]  field: the token
--   ARGV[3]  channel
--   ARGV[4]  kept: token that is nobody's
--
-- Sent by lk__plain_keep(target, field, keep_ms).
-- Answers: nil, another token or none · integer: kept, so many subscribers heard of it.
-- Works under memory pressure: the first write is a PEXPIRE. Safe to send twice: a repetition finds
-- nobody's token, and writes what is left of the time.
-- Replicas must have what it did.
--include "keep.lua" gives keep_ms
local token = redis.pcall('GETRANGE', KEYS[1], '0', math.max(#ARGV[2], #ARGV[4]))
if token == ARGV[2] then
	local keep = string.format('%.0f', keep_ms)
	redis.call('PEXPIRE', KEYS[1], keep)
	redis.call('SET', KEYS[1], ARGV[4], 'PX', keep)
elseif token == ARGV[4] then
	redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
else
	return false
end
local listeners = redis.pcall('PUBLISH', ARGV[3], '0')
return type(listeners) == 'number' and listeners or 0
