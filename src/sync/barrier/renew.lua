-- Makes those who are inside a barrier count for at least a lease from now; it never shortens, and
-- lets nobody in. A lease of 1 ms only looks: it writes nothing. All others write, if only by 1 ms,
-- so that what replicas acknowledge behind it is also what an earlier one has done.
--
--   KEYS[1] … KEYS[n]   key: for each of them, the barrier, see meet.lua
--   ARGV[1] … ARGV[2n]  field, lease_ms: for each of them
--
-- Sent by lk__barrier_renew(renewals, count).
-- Answers: for each, 1 done, 0 not inside.
-- Replicas must have what it did.
--include "time.lua" gives now
now = math.floor(now / 1000)
local answers = {}
for i = 1, #KEYS do
	local lease = tonumber(ARGV[2 * i])
	if not lease or lease < 1 or lease > 63072000000 then
		return redis.error_reply('LOCKKEEPER bad lease')
	end
end
for i, key in ipairs(KEYS) do
	local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
	local text = redis.pcall('HGET', key, id)
	local till, rest = string.match(type(text) == 'string' and text or '',
		'^inside (%d+) (%d+ %d+ %d+)$')
	answers[i] = 0
	if till and tonumber(till) >= now then
		if lease > 1 then
			local wanted = math.max(now + lease, tonumber(till) + 1)
			-- First a write that is allowed when memory is short: no id is empty.
			redis.call('HDEL', key, '')
			redis.call('HSET', key, id, string.format('inside %.0f %s', wanted, rest))
			-- And an hour to learn that it was lost.
			local least = wanted - now + 3600000
			if redis.call('PTTL', key) < least then
				redis.pcall('PEXPIRE', key, string.format('%.0f', least))
			end
		end
		answers[i] = 1
	end
end
return answers
