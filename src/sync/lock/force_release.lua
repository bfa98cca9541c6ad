-- Frees the lock whoever has it, and wakes the waiters.
--
--   KEYS[1]  the lock's hash
--   ARGV[1]  channel; empty where nobody listens
--
-- Answers: 1 freed, 0 there was none. A key of another type is left alone (WRONGTYPE).
if redis.call('HLEN', KEYS[1]) == 0 then
	return 0
end
redis.call('DEL', KEYS[1])
if ARGV[1] ~= '' then
	redis.call('PUBLISH', ARGV[1], '0')
end
return 1
