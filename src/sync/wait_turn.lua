-- Puts a waiter in the order of turns: with its time one that waits, with TAKEN one that has the
-- lock and needs no turn any more. A user who may not set the order's time to live (ACL) gets no
-- place in it.
--
-- `how` is 1 where the lock is free and the waiter wants only a place. Returns for how long, in ms,
-- it leaves the lock to others: to those before it, until it is told, but not for long, since they
-- may have left or stand back themselves; 0, if there may be only such as have no turn.
--
-- `how` is 2 where the slot is on its way here: the order is still at the other node, and a second
-- one here would stop the move (BUSYKEY). So nobody gets a place until the slot has come.
--
-- Needs: lock
-- Gives: wait_turn, turns, TAKEN
--include "turns.lua" gives turns, TAKEN
local function wait_turn(id, since, kept, how)
	if how == '2' then
		return 0
	end
	redis.pcall('ZADD', turns, since, id)
	local ttl = redis.pcall('PTTL', turns)
	if type(ttl) ~= 'number' or ttl < tonumber(kept) and
		type(redis.pcall('PEXPIRE', turns, kept)) ~= 'number' then
		redis.pcall('ZREM', turns, id)
	end
	local first = how == '1' and redis.pcall('ZRANGE', turns, '0', '0')[1]
	return first and first ~= id and 250 or 0
end
