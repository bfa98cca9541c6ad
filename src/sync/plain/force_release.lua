-- Frees the plain lock whoever has it, and wakes the waiter whose turn it is.
--
--   KEYS[1]  key: the lock's string
--   ARGV[1]  channel
--   ARGV[2] … ARGV[5]  notify: what wakes another library's waiters, or nothing: "publish" or
--            "push"; its channel or list; its message; how long a list stays, ms
--
-- Sent by lk__plain_force(target).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot; the list, which in a
-- cluster is pushed only where this node has it.
-- Answers: 1 freed, 0 there was none. A key of another type is left alone (WRONGTYPE).
--include "wake.lua" gives wake
local lock = KEYS[1]
--include "turns.lua" gives turns, TAKEN
--include "give_turn.lua" gives give_turn
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return 0
end
if kind ~= 'string' then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a plain lock')
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1] .. ':broken', '') -- for those who watch it
give_turn(ARGV[1], '0')
wake(ARGV[2], ARGV[3], ARGV[4], ARGV[5])
return 1
