-- Makes permits last at least as long as a lease from now; it never shortens and never creates one.
-- A lease of 1 ms only looks: it writes nothing. All others write, if only by 1 ms, so that what
-- replicas acknowledge behind it is also what an earlier one has done.
--
--   KEYS[1] … KEYS[n]     in_use: for each of them
--   KEYS[n+1] … KEYS[2n]  key: for each of them, the count
--   ARGV[1] … ARGV[2n]    id_bytes, lease_ms: for each of them
--
-- Sent by lk__permits_renew(renewals, count).
-- Answers: for each, 1 done, 0 not in use, or expired.
-- Replicas must have what it did.
--include "time.lua" gives now
now = math.floor(now / 1000)
local answers, lasts, permits = {}, {}, #ARGV / 2
for i = 1, permits do
	local lease = tonumber(ARGV[2 * i])
	if not lease or lease < 1 or lease > 31536000000 then
		return redis.error_reply('LOCKKEEPER bad lease')
	end
end
for i = 1, permits do
	local expiry = redis.pcall('ZSCORE', KEYS[i], ARGV[2 * i - 1])
	answers[i] = 0
	if expiry and type(expiry) ~= 'table' and tonumber(expiry) > now then
		local lease = tonumber(ARGV[2 * i])
		if lease > 1 then
			local wanted = math.max(now + lease, tonumber(expiry) + 1)
			-- First a write that is allowed when memory is short: no id is empty.
			redis.call('ZREM', KEYS[i], '')
			redis.call('ZADD', KEYS[i], 'XX', string.format('%.0f', wanted),
				ARGV[2 * i - 1])
			lasts[i] = wanted - now
		end
		answers[i] = 1
	end
end
-- What has a time to live lasts as long as the permit.
for i, key in ipairs(KEYS) do
	local least = lasts[(i - 1) % permits + 1]
	local rest = least and redis.call('PTTL', key) or -1
	if rest >= 0 and rest < least then
		redis.pcall('PEXPIRE', key, string.format('%.0f', least))
	end
end
return answers
