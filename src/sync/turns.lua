-- Those who wait for a lock, in the order in which they began to.
--
--   turns   the name of a sorted set: id → since when it waits, server time in us; TAKEN: it was
--           told of its turn, or has the lock, and may still listen. Each puts itself there again
--           whenever it looks (look_again_ms); the set is gone when none does.
--
-- The set's name is made of the lock's, and is in its slot. It is not one of KEYS: a user who may
-- not touch it has the lock all the same, and is woken by each release, as Java is.
--
-- Needs: lock
-- Gives: turns, TAKEN
local TAKEN = '9000000000000000'
local turns = string.find(lock, '{', 1, true) and 'lockkeeper_turns:' .. lock
	or 'lockkeeper_turns:{' .. lock .. '}'
