-- Tells the count of a semaphore or a latch. Of a stranger's string no more is read than shows that
-- it is no count.
--
--   KEYS[1]  key: the count
--
-- Sent by lk__count_look(target).
-- Answers: nil, there is none · string: the count, or something else.
-- Refused: a key that is something else than a string (WRONGTYPE).
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return false
end
return redis.pcall('GETRANGE', KEYS[1], '0', '20')
