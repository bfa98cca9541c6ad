-- Gives the lock up if this owner has it, and keeps it from others for a time: under a field that
-- is nobody's. Waiters are woken once, to see until when.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  keep_ms: for how long, ms
--   ARGV[2]  field: the owner's
--   ARGV[3]  channel: empty where nobody listens
--   ARGV[4]  kept: field that is nobody's
--
-- Sent by lk__lock_keep(target, field, keep_ms).
-- Answers: nil, not the owner · integer: kept, so many subscribers heard of it.
-- Works under memory pressure: the first write is a HDEL. Safe to send twice: a repetition finds
-- nobody's field, and writes what is left of the time.
-- Replicas must have what it did.
--include "keep_hash.lua" gives keep_hash
local kept = keep_hash(ARGV[2], ARGV[4])
if kept ~= true then
	return kept
end
local listeners = ARGV[3] ~= '' and redis.pcall('PUBLISH', ARGV[3], '0')
return type(listeners) == 'number' and listeners or 0
