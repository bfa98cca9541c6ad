-- Removes the count: the latch is open, and may be set anew.
--
--   KEYS[1]  the count
--   ARGV[1]  channel
--
-- Answers: 1 removed, 0 there was none. A key of another type is left alone (WRONGTYPE).
-- Java's own message for it is "1", which leaves its waiters asleep; "0" wakes them.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return 0
end
if kind ~= 'string' or not string.find(redis.call('GET', KEYS[1]), '^-?%d+$') then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[1], '1')
redis.call('PUBLISH', ARGV[1], '0')
return 1
