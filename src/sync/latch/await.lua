-- Whether the latch is open: its count is zero, or it has none.
--
--   KEYS[1]  key: the count, a string
--
-- Sent by lk__latch_await(wanted).
-- Answers: nil open · integer -1 closed.
-- Refused: a key that is something else than a count (WRONGTYPE).
--include "unfit.lua"
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return false
end
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if not count or not string.find(count, '^-?%d+$') then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
end
if tonumber(count) <= 0 then
	return false
end
return -1
