-- Takes permits, all or none.
--
--   KEYS[1]  key: the count of free permits, a string
--   KEYS[2]  record: of this request
--   KEYS[3]  settled: the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  count: permits wanted
--   ARGV[2]  deadline: of this request, server time in us: it must not run late
--   ARGV[3]  permits: how many there are where there is no count; 0: not said
--   ARGV[4]  ttl_ms: at least, if it has one, or is made here; 0: not said
--
-- Sent by lk__semaphore_acquire(wanted).
-- Answers: nil granted · integer -1: too few are free · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its record.
-- Replicas must have what it grants.
local wanted, deadline, all = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lasts = tonumber(ARGV[4] or 0)
if not string.find(ARGV[1], '^%d+$') or wanted < 1 or wanted > 2147483647 or not deadline or
	not string.find(ARGV[3], '^%d+$') or all > 2147483647 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits or deadline')
end
if redis.call('EXISTS', KEYS[2]) == 1 then
	-- A write that changes nothing, as of all changes.
	redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
	return false
end
--include "time.lua" gives now
--include "late.lua"
--include "last.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a semaphore')
end
if not count and all > 0 then
	if lasts > 0 then
		redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
	else
		redis.call('SET', KEYS[1], ARGV[3])
	end
	count = ARGV[3]
end
if not count or tonumber(count) < wanted then
	return -1
end
-- What it has taken is given back by this record, also after a long outage.
local kept = string.format('%.0f', (deadline - now) / 1000 + 3600000)
redis.call('SET', KEYS[2], ARGV[1], 'PX', kept)
local answer = redis.pcall('DECRBY', KEYS[1], ARGV[1])
if type(answer) == 'table' then
	redis.call('DEL', KEYS[2])
	return answer
end
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
if lasts > 0 then
	make_last(lasts)
end
return false
