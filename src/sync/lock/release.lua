-- Frees the lock if this owner has it, and wakes the waiter whose turn it is.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  field: the owner's
--   ARGV[2]  channel
--
-- Sent by lk__lock_release(target, field).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: nil, not the owner · integer: freed, so many subscribers heard of it, or, below zero,
-- -1 less the subscribers, who heard nothing: the one whose turn it is was told.
-- Works under memory pressure: HDEL and PUBLISH are never refused for it. The field is the hash's
-- only one, so the key goes with it.
-- A user who may not publish frees it all the same, and then nobody is said to have heard.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
local lock, says = KEYS[1], '0'
if string.byte(ARGV[1], -1) == 101 then
	return false -- "mode" or ":write", of a read/write lock, which would be left as nobody's
end
local held = redis.call('HDEL', lock, ARGV[1]) == 1
if not held then
	redis.pcall('PUBLISH', ARGV[2], says)
	return false
end
--include "turns.lua" gives turns, TAKEN
--include "nobody_waits.lua"
--include "give_turn.lua" gives give_turn
return give_turn(ARGV[2], says)
