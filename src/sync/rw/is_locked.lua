-- Whether anybody has one side of the lock.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  side: read or write
--
-- Sent by lk__rw_is_locked(target).
-- Answers: 1 or 0. Under a writer the read side is held if the writer reads as well.
local mode = redis.call('HGET', KEYS[1], 'mode')
local reads = mode == 'write' and ARGV[1] == 'read' and redis.call('HLEN', KEYS[1]) > 2
return (mode == ARGV[1] or reads) and 1 or 0
