-- Sets the count of a latch that has none.
--
--   KEYS[1]  key: the count
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  count
--   ARGV[4]  ttl_ms: at least, if it has one, or is made here; 0: for ever
--
-- Sent by lk__latch_set(change).
-- Answers: integer 1 set, 0 there is a count already · status "LATE <server us>".
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it did.
local count, lasts = tonumber(ARGV[3]), tonumber(ARGV[4] or 0)
if not string.find(ARGV[3], '^%d+$') or count < 1 or count > 9007199254740991 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad count')
end
--include "change.lua" gives now, kept
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
	local there = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
	if not there or not string.find(there, '^-?%d+$') then
		return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a latch')
	end
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	if lasts > 0 then
		make_last(lasts)
	end
	return 0
end
redis.call('SET', KEYS[2], '1', 'PX', kept)
if lasts > 0 then
	redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
else
	redis.call('SET', KEYS[1], ARGV[3])
end
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
redis.pcall('PUBLISH', ARGV[2], '1')
return 1
