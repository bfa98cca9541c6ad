-- Sets how many permits there are, or changes it.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   KEYS[4]  in_use: the permits
--   ARGV[1]  deadline: of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  count: how many
--   ARGV[4]  how: "new": if there is no such semaphore · "all": free and in use together · "add"
--   ARGV[5]  ttl_ms: at least, if it has one, or is made here; 0: not said
--
-- Sent by lk__permits_set(change).
-- Answers: integer 1 done, 0 there is one already ("new") · status "OVERFLOW": the count would
-- leave its range (nothing was done) · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it did.
local number, lasts = tonumber(ARGV[3]), tonumber(ARGV[5] or 0)
if not string.find(ARGV[3], '^-?%d+$') or math.abs(number) > 2147483647 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits')
end
--include "change.lua" gives now, kept
local in_use, now_ms = KEYS[4], math.floor(now / 1000)
--include "last_permits.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a permit semaphore')
end
if count and ARGV[4] == 'new' then
	-- A copy that is still to come must not find another answer.
	redis.call('DEL', KEYS[3])
	redis.call('SET', KEYS[2], '0', 'PX', kept)
	make_last(lasts)
	return 0
end
local before, free = tonumber(count) or 0, number
if ARGV[4] == 'all' then
	free = number - redis.call('ZCARD', KEYS[4])
elseif ARGV[4] == 'add' then
	free = before + number
end
if free > 2147483647 or free < -2147483648 then
	return redis.status_reply('OVERFLOW')
end
redis.call('SET', KEYS[2], '1', 'PX', kept)
local answer
if not count and lasts > 0 then
	answer = redis.pcall('SET', KEYS[1], string.format('%.0f', free), 'PX', ARGV[5])
else
	answer = redis.pcall('INCRBY', KEYS[1], string.format('%.0f', free - before))
end
if type(answer) == 'table' and answer.err then
	redis.call('DEL', KEYS[2])
	return answer
end
if count and lasts > 0 and ARGV[4] == 'all' then
	-- Who says how many there are says how long: a count that had no end gets one.
	redis.pcall('PEXPIRE', KEYS[1], ARGV[5])
end
make_last(lasts)
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
if free > before and free > 0 then
	redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', free))
end
return 1
