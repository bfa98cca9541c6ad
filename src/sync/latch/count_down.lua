-- Counts the latch down, and opens it at zero: then the key goes.
--
--   KEYS[1]  key: the count
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  count: by how much
--   ARGV[4]  ttl_ms: at least, if it has one; 0: not said
--
-- Sent by lk__latch_count_down(change).
-- Answers: integer: what is left of the count · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record. An open latch stays as it is.
-- Replicas must have what it did.
local by, lasts = tonumber(ARGV[3]), tonumber(ARGV[4] or 0)
if not string.find(ARGV[3], '^%d+$') or by < 1 or by > 9007199254740991 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad count')
end
--include "change.lua" gives now, kept
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
end
if not count then
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	return 0
end
-- First a write that is allowed when memory is short.
redis.call('DEL', KEYS[3])
local left = 0
if tonumber(count) <= by then
	redis.call('DEL', KEYS[1])
	redis.pcall('PUBLISH', ARGV[2], '0')
else
	left = redis.call('DECRBY', KEYS[1], ARGV[3])
	if lasts > 0 then
		make_last(lasts)
	end
end
redis.call('SET', KEYS[2], string.format('%.0f', left), 'PX', kept)
return left
