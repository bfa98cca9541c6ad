-- Frees the plain lock if it has this token, and wakes those waiters who listen.
--
--   KEYS[1]  the lock's string
--   ARGV[1]  token
--   ARGV[2]  channel
--
-- Answers: nil, another token or none · integer: freed, so many subscribers heard of it.
-- Works under memory pressure. A user who may not publish frees the lock all the same: the others
-- look again by themselves.
-- Who finds nothing to release writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
local held = redis.pcall('GET', KEYS[1]) == ARGV[1]
if held then
	redis.call('DEL', KEYS[1])
end
local listeners = redis.pcall('PUBLISH', ARGV[2], '0')
if not held then
	return false
end
return type(listeners) == 'number' and listeners or 0
