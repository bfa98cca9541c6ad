-- Gives a permit a new lease, from now.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   KEYS[4]  in_use: the permits
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel (not read)
--   ARGV[3]  id: 32 hexadecimal digits
--   ARGV[4]  lease_ms
--   ARGV[5]  ttl_ms (not read)
--
-- Sent by lk__permits_update(change).
-- Answers: integer 1 done, 0 not in use, or expired · status "LATE <server us>".
-- Safe to send twice: a repetition finds its record, and does not undo what a later request did.
-- Replicas must have what it did.
local lease = tonumber(ARGV[4])
if not string.find(ARGV[4], '^%d+$') or lease < 1 or lease > 31536000000 or
	#ARGV[3] ~= 32 or string.find(ARGV[3], '[^0-9a-f]') then
	return redis.error_reply('LOCKKEEPER bad lease or id')
end
--include "change.lua" gives now, kept
local id = string.gsub(ARGV[3], '..', function(hex)
	return string.char(tonumber(hex, 16))
end)
local in_use, now_ms = KEYS[4], math.floor(now / 1000)
--include "last_permits.lua" gives make_last
local expiry = redis.call('ZSCORE', KEYS[4], id)
if not expiry or tonumber(expiry) <= now_ms then
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	return 0
end
-- First a write that is allowed when memory is short: no id is empty.
redis.call('ZREM', KEYS[4], '')
redis.call('SET', KEYS[2], '1', 'PX', kept)
redis.call('ZADD', KEYS[4], 'XX', string.format('%.0f', now_ms + lease), id)
make_last(0)
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
return 1
