-- Removes a semaphore, whatever its keys are; nobody is told.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   KEYS[4]  permits_in_use: of a permit semaphore; else there is no such key
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel (not read)
--   ARGV[3]  ttl_ms (not read)
--
-- Sent by lk__semaphore_delete(change).
-- Answers: integer 1 removed, 0 there was none · status "LATE <server us>".
-- Safe to send twice: a repetition finds its record, and removes nothing that was made since.
-- Replicas must have what it did.
--include "change.lua" gives now, kept
local removed = redis.call('DEL', KEYS[1], KEYS[4] or KEYS[1]) > 0 and 1 or 0
redis.call('SET', KEYS[2], removed, 'PX', kept)
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
return removed
