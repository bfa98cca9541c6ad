-- Frees one side whoever has it, and wakes the waiters. The other side is left alone, unless it is
-- held by the same owner: a writer's own reads go with the write side.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  side: read or write
--   ARGV[2]  channel
--   ARGV[3]  message: "0" for the read side, "1" for the write side
--
-- Sent by lk__rw_force(target).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: 1 freed, 0 nobody has that side. A key of another type is left alone (WRONGTYPE).
local lock = KEYS[1]
--include "turns.lua" gives turns, TAKEN
--include "give_turn.lua" gives give_turn
if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[1] then
	return 0
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[2] .. ':broken', '') -- for those who watch it
give_turn(ARGV[2], ARGV[3], true)
return 1
