-- Puts a waiter in the order of turns. take_turn: it has the lock, and needs none any more.
-- leave_to_turns: puts it there though the lock is free, and says for how long, in ms, it leaves
-- that to others: until it is told, if others have a turn; 0, if there may be only such as have
-- none.
--
-- Gives: wait_turn, take_turn, leave_to_turns
--include "turns.lua" gives turns_of, TAKEN
local function wait_turn(id, since, kept)
	local turns = turns_of(KEYS[1])
	redis.pcall('ZADD', turns, since, id)
	local ttl = redis.pcall('PTTL', turns)
	if type(ttl) == 'number' and ttl < tonumber(kept) then
		redis.pcall('PEXPIRE', turns, kept)
	end
end
local function take_turn(id, kept)
	wait_turn(id, TAKEN, kept)
end
local function leave_to_turns(id, since, kept)
	wait_turn(id, since, kept)
	local count = redis.pcall('ZCARD', turns_of(KEYS[1]))
	return type(count) == 'number' and count > 1 and 60000 or 0
end
