-- Gives one hold up, of either side, and keeps the lock from the other side, or all others, for a
-- time: under a field that is nobody's. Waiters are woken once, to see until when.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  timeout: key of this hold (a write hold has none: no such key)
--   KEYS[3]  kept_timeout: the same of nobody's
--   ARGV[1]  keep_ms: for how long, ms
--   ARGV[2]  field: owner field, of its side
--   ARGV[3]  channel
--   ARGV[4]  kept: field that is nobody's, of that side
--   ARGV[5]  message: "0" from the read side, "1" from the write side
--
-- Sent by lk__rw_keep(target, field, keep_ms).
-- Answers: nil, not the owner · integer: kept, so many subscribers heard of it.
-- Keys beside KEYS: the timeout keys of the other holds, which only the hash tells; in its slot.
-- Works under memory pressure: the first write is a HDEL. Safe to send twice: a repetition finds
-- nobody's field, and writes what is left of the time.
-- A writer that reads as well has both: then nobody's write hold lasts as long as the read hold.
-- Replicas must have what it did.
--include "keep.lua" gives keep_ms
local reads = ARGV[5] == '0'
local function lives(field, timeout)
	return redis.call('HEXISTS', KEYS[1], field) == 1 and
		(not reads or redis.call('PTTL', timeout) > 0)
end
-- Until the end of the longest hold but this one, ms.
local function others()
	if redis.call('HGET', KEYS[1], 'mode') == 'write' then
		return redis.call('HLEN', KEYS[1]) > 2 and redis.call('PTTL', KEYS[1]) or 0
	end
	local most, looked = 10000, 0 -- beyond that the end of the lock is theirs
	if redis.call('HLEN', KEYS[1]) > most then
		return redis.call('PTTL', KEYS[1])
	end
	local prefix = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
	local fields, longest = redis.call('HGETALL', KEYS[1]), 0
	for i = 1, #fields, 2 do
		local count = fields[i] ~= ARGV[2] and tonumber(fields[i + 1]) or 0
		-- One key a hold of a re-entrant reader of Java's.
		looked = looked + math.max(count, 0)
		if looked > most then
			return redis.call('PTTL', KEYS[1])
		end
		for hold = 1, count do
			local key = prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. hold
			longest = math.max(longest, redis.call('PTTL', key))
		end
	end
	return longest
end
if lives(ARGV[2], KEYS[2]) then
	local whole = string.format('%.0f', math.max(keep_ms, others()))
	redis.call('HDEL', KEYS[1], ARGV[2])
	redis.call('HSET', KEYS[1], ARGV[4], '1')
	if reads then
		redis.call('SET', KEYS[3], '1', 'PX', string.format('%.0f', keep_ms))
		redis.call('DEL', KEYS[2])
	end
	-- The last one: a short time may be over at once, and then the key goes. The hash has one
	-- all along, for `mode` stays in it.
	redis.call('PEXPIRE', KEYS[1], whole)
elseif lives(ARGV[4], KEYS[3]) then
	redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
else
	return false
end
local listeners = redis.pcall('PUBLISH', ARGV[3], ARGV[5])
return type(listeners) == 'number' and listeners or 0
