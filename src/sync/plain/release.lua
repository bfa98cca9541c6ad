-- Frees the plain lock if it has this token, and wakes the waiter whose turn it is.
--
--   KEYS[1]  key: the lock's string
--   ARGV[1]  field: the token
--   ARGV[2]  channel
--   ARGV[3] … ARGV[6]  notify: what wakes another library's waiters, or nothing: "publish" or
--            "push"; its channel or list; its message; how long a list stays, ms
--
-- Sent by lk__plain_release(target, field).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot; the list, which in a
-- cluster is pushed only where this node has it.
-- Answers: nil, another token or none · integer: freed, so many subscribers heard of it, or, below
-- zero, -1 less the subscribers, who heard nothing: the one whose turn it is was told.
-- Works under memory pressure. A user who may not publish frees the lock all the same: the others
-- look again by themselves.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
local lock, says = KEYS[1], '0'
-- No more of it than tells whether it is this token: a stranger's string may be large.
local held = redis.pcall('GETRANGE', KEYS[1], '0', '255') == ARGV[1]
if not held then
	redis.pcall('PUBLISH', ARGV[2], says)
	return false
end
redis.call('DEL', lock)
--include "turns.lua" gives turns, TAKEN
if not ARGV[3] then
	--include "nobody_waits.lua"
end
--include "wake.lua" gives wake
--include "give_turn.lua" gives give_turn
local listening = give_turn(ARGV[2], says)
local told = wake(ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return listening < 0 and listening - told or listening + told
