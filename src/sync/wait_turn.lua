-- Puts a client in the order of turns, or takes it out, since it has the lock.
--
-- Gives: wait_turn
--include "turns.lua" gives turns
local function wait_turn(id, since)
	if since == '' then
		redis.pcall('ZREM', turns, id)
	else
		redis.pcall('ZADD', turns, since, id)
		redis.pcall('PEXPIRE', turns, '6000')
	end
end
