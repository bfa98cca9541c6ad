-- Frees the plain lock whoever has it, and wakes those waiters who listen.
--
--   KEYS[1]  the lock's string
--   ARGV[1]  channel
--
-- Answers: 1 freed, 0 there was none. A key of another type is left alone (WRONGTYPE).
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return 0
end
if kind ~= 'string' then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a plain lock')
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], '0')
return 1
