-- Adds to the count of free permits, or takes away: a release, or a change of their number.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  count: how many, maybe negative
--   ARGV[4]  if_exists: 1, only if there is such a semaphore
--   ARGV[5]  none: what it is added to where there is none
--   ARGV[6]  ttl_ms: at least, if it has one, or is made here; 0: not said
--
-- Sent by lk__semaphore_add(change).
-- Answers: integer 1 done, 0 there was none (ARGV[4]) · status "OVERFLOW": the count would leave
-- its range (nothing was done) · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it did.
local added, none, lasts = tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6] or 0)
if not string.find(ARGV[3], '^-?%d+$') or math.abs(added) > 2147483647 or
	not string.find(ARGV[5], '^-?%d+$') or math.abs(none) > 2147483647 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits')
end
--include "change.lua" gives now, kept
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a semaphore')
end
if not count and ARGV[4] == '1' then
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	return 0
end
local sum = (tonumber(count) or none) + added
if sum > 2147483647 or sum < -2147483648 then
	return redis.status_reply('OVERFLOW')
end
-- First a write that is allowed when memory is short.
redis.call('DEL', KEYS[3])
if not count and lasts > 0 then
	redis.call('SET', KEYS[1], string.format('%.0f', sum), 'PX', ARGV[6])
else
	redis.call('INCRBY', KEYS[1], string.format('%.0f', sum - (tonumber(count) or 0)))
end
if lasts > 0 then
	make_last(lasts)
end
redis.call('SET', KEYS[2], '1', 'PX', kept)
if sum > 0 then
	redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', sum))
end
return 1
