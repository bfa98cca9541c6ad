-- Frees the plain lock if it has this token, and wakes those waiters who listen.
--
--   KEYS[1]  the lock's string
--   ARGV[1]  token
--   ARGV[2]  channel
--   ARGV[3]  what wakes another library's waiters, or nothing: "publish" or "push"
--   ARGV[4]  its channel or list
--   ARGV[5]  its message
--   ARGV[6]  how long a list stays, ms
--
-- Answers: nil, another token or none · integer: freed, so many subscribers heard of it.
-- Works under memory pressure. A user who may not publish frees the lock all the same: the others
-- look again by themselves.
-- Who finds nothing to release writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
-- Keys beside KEYS: the list, which in a cluster is pushed only where this node has it.
--include "wake.lua" gives wake
local held = redis.pcall('GET', KEYS[1]) == ARGV[1]
if held then
	redis.call('DEL', KEYS[1])
end
local listeners = redis.pcall('PUBLISH', ARGV[2], '0')
if not held then
	return false
end
local told = wake(ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return (type(listeners) == 'number' and listeners or 0) + told
