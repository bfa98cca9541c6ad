-- The clients that wait for a lock, in the order in which they began to.
--
--   turns    a sorted set: id of a client → since when it waits, server time in us. Each puts
--            itself there again whenever it looks (look_again_ms); it is gone 6 s after the last.
--
-- The set's name is made of the lock's, and is in its slot. It is not one of KEYS: a user who may
-- not touch it has the lock all the same, and is woken by each release, as Java is.
--
-- Gives: turns
local turns = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
turns = 'lockkeeper_turns:' .. turns
