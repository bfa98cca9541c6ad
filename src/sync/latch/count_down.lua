-- Counts the latch down, and opens it at zero: then the key goes.
--
--   KEYS[1]  the count
--   KEYS[2]  the record of this request
--   KEYS[3]  the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  by how much
--
-- Answers: integer: what is left of the count · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record. An open latch stays as it is.
local by, deadline = tonumber(ARGV[3]), tonumber(ARGV[1])
if not string.find(ARGV[3], '^%d+$') or by < 1 or by > 9007199254740991 or not deadline then
	return redis.error_reply('LOCKKEEPER bad count or deadline')
end
local done = redis.call('GET', KEYS[2])
if done then
	return tonumber(done)
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GET', KEYS[1])
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
end
if not count then
	return 0
end
-- First a write that is allowed when memory is short.
redis.call('DEL', KEYS[3])
local left = 0
if tonumber(count) <= by then
	redis.call('DEL', KEYS[1])
	redis.call('PUBLISH', ARGV[2], '0')
else
	left = redis.call('DECRBY', KEYS[1], ARGV[3])
end
redis.call('SET', KEYS[2], string.format('%.0f', left), 'PX',
	string.format('%.0f', (deadline - now) / 1000 + 60000))
return left
