-- Frees the plain lock if it has this token, and wakes those waiters who listen.
--
--   KEYS[1]  the lock's string
--   ARGV[1]  token
--   ARGV[2]  channel
--
-- Answers: nil, another token or none · integer: freed, so many subscribers heard of it.
-- Works under memory pressure. A user who may not publish frees the lock all the same: the others
-- look again by themselves.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
	return false
end
redis.call('DEL', KEYS[1])
local listeners = redis.pcall('PUBLISH', ARGV[2], '0')
return type(listeners) == 'number' and listeners or 0
