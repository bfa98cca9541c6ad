-- Takes permits, all or none, each with a lease; what has expired comes back first.
--
--   KEYS[1]  key: the count of free permits, a string
--   KEYS[2]  in_use: the permits: id (16 bytes) -> when it expires, server time in ms
--   ARGV[1]  count: permits wanted
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4]  id_prefix: the first 14 bytes of the ids; the last two count from 0
--   ARGV[5]  channel
--   ARGV[6]  permits: how many there are where there is no count; 0: not said
--   ARGV[7]  ttl_ms: at least, if it has one, or is made here; 0: not said
--
-- Sent by lk__permits_acquire(wanted).
-- Answers: nil granted · integer: too few are free, ms until the next one expires (-1: none does)
-- · status "LATE <server us>".
-- Refused: a key that is something else than a count (WRONGTYPE).
-- Safe to send twice: a repetition finds its ids, and never shortens a lease.
-- Replicas must have what it grants.
local wanted, all, lasts = tonumber(ARGV[1]), tonumber(ARGV[6]), tonumber(ARGV[7] or 0)
if not string.find(ARGV[1], '^%d+$') or wanted < 1 or wanted > 1000 or #ARGV[4] ~= 14 or
	not string.find(ARGV[6], '^%d+$') or all > 2147483647 or
	not lasts or lasts % 1 ~= 0 or lasts < 0 or lasts > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits or id')
end
--include "prologue.lua" gives lease, time
local in_use, now_ms = KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000)
--include "last_permits.lua" gives make_last
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a permit semaphore')
end
local free = tonumber(count) or 0
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_ms),
	'LIMIT', '0', '1000')
if #expired > 0 then
	redis.call('ZREM', KEYS[2], unpack(expired))
	if count then
		free = redis.call('INCRBY', KEYS[1], #expired)
	end
end
if not count and all > 0 then
	free = all - redis.call('ZCARD', KEYS[2])
	count = string.format('%.0f', free)
	if lasts > 0 then
		redis.call('SET', KEYS[1], count, 'PX', ARGV[7])
	else
		redis.call('SET', KEYS[1], count)
	end
end
local ids, ends, needed = {}, {}, 0
for i = 1, wanted do
	ids[i] = ARGV[4] .. string.char(math.floor((i - 1) / 256), (i - 1) % 256)
	ends[i] = tonumber(redis.call('ZSCORE', KEYS[2], ids[i]) or '')
	if not ends[i] then
		needed = needed + 1
	end
end
-- A repetition has them, however few there are to be by now.
local granted = count and (needed == 0 or free >= needed)
if granted then
	free = redis.call('DECRBY', KEYS[1], needed)
	local expiry = string.format('%.0f', now_ms + lease)
	for i = 1, wanted do
		local longer = not ends[i] or ends[i] < now_ms + lease
		local added = longer and redis.pcall('ZADD', KEYS[2], expiry, ids[i])
		if type(added) == 'table' then
			redis.call('INCRBY', KEYS[1], needed)
			redis.call('ZREM', KEYS[2], unpack(ids))
			return added
		end
	end
	local refused = make_last(lasts)
	if refused and needed == wanted then
		-- Permits in use must not outlast a count that ends.
		redis.call('INCRBY', KEYS[1], needed)
		redis.call('ZREM', KEYS[2], unpack(ids))
		return refused
	end
end
if #expired > 0 and free > 0 then
	redis.pcall('PUBLISH', ARGV[5], string.format('%.0f', free))
end
if granted then
	return false
end
local first = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
if #first == 0 or tonumber(first[2]) >= 922337203685477 then
	return -1
end
return tonumber(first[2]) - now_ms
