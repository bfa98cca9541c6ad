-- Gives the fair lock up if this owner has it, and keeps it from others for a time: under a field
-- that is nobody's. The next in the queue is woken once, to see until when.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  redisson_lock_queue:{key}: a list: owner fields that wait, the next one first
--   ARGV[1]  keep_ms: for how long, ms
--   ARGV[2]  field: the owner's
--   ARGV[3]  channel: the waiter with a field F listens on "<this>:F"
--   ARGV[4]  kept: field that is nobody's
--
-- Sent by lk__fair_keep(target, field, keep_ms).
-- Answers: nil, not the owner · integer: kept, so many subscribers heard of it.
-- Works under memory pressure: the first write is a HDEL. Safe to send twice: a repetition finds
-- nobody's field, and writes what is left of the time.
-- Replicas must have what it did.
--include "keep_hash.lua" gives keep_hash
local kept = keep_hash(ARGV[2], ARGV[4])
if kept ~= true then
	return kept
end
local head = redis.call('LINDEX', KEYS[2], '0')
local listeners = head and redis.pcall('PUBLISH', ARGV[3] .. ':' .. head, '0')
return type(listeners) == 'number' and listeners or 0
