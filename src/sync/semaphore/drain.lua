-- Takes all free permits; a count below zero is set to zero.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel (not read)
--   ARGV[3]  ttl_ms: at least, if it has one; 0: not said
--
-- Sent by lk__semaphore_drain(change).
-- Answers: integer: what the count was · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it did.
local lasts = tonumber(ARGV[3] or 0)
if not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad time to live')
end
--include "change.lua" gives now, kept
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a semaphore')
end
if lasts > 0 then
	make_last(lasts)
end
if not count or tonumber(count) == 0 then
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	return 0
end
redis.call('SET', KEYS[2], count, 'PX', kept)
local answer = redis.pcall('DECRBY', KEYS[1], count)
if type(answer) == 'table' then
	redis.call('DEL', KEYS[2])
	return answer
end
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
return tonumber(count)
