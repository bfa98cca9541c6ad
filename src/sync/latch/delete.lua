-- Removes the count: the latch is open, and may be set anew.
--
--   KEYS[1]  key: the count
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  ttl_ms (not read)
--
-- Sent by lk__latch_delete(change).
-- Answers: 1 removed, 0 there was none · status "LATE <server us>". A key of another type is left
-- alone (WRONGTYPE).
-- Safe to send twice: a repetition finds its record, and removes no count that was set since.
-- Replicas must have what it did.
-- Java's own message for it is "1", which leaves its waiters asleep; "0" wakes them.
--include "change.lua" gives now, kept
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and
	(kind ~= 'string' or
	not string.find(redis.call('GETRANGE', KEYS[1], '0', '20'), '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
end
local removed = redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], removed, 'PX', kept)
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
if removed == 1 then
	redis.pcall('PUBLISH', ARGV[2], '1')
	redis.pcall('PUBLISH', ARGV[2], '0')
end
return removed
