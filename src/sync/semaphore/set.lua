-- Sets the count of free permits, if there is none.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  count: how many
--   ARGV[4]  lasts_ms: time to live; 0: the next one
--   ARGV[5]  ttl_ms: at least, if it has one, or is made here; 0: for ever
--
-- Sent by lk__semaphore_set(change).
-- Answers: integer 1 set, 0 there is one already · status "LATE <server us>".
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it did.
local count, ttl, lasts = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5] or 0)
if not string.find(ARGV[3], '^%d+$') or count > 2147483647 or
	not string.find(ARGV[4], '^%d+$') or ttl > 31536000000 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits or time to live')
end
--include "change.lua" gives now, kept
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
	local there = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
	if not there or not string.find(there, '^-?%d+$') then
		return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a semaphore')
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
if ttl > 0 or lasts > 0 then
	redis.call('SET', KEYS[1], ARGV[3], 'PX', ttl > 0 and ARGV[4] or ARGV[5])
else
	redis.call('SET', KEYS[1], ARGV[3])
end
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
if count > 0 then
	redis.pcall('PUBLISH', ARGV[2], ARGV[3])
end
return 1
