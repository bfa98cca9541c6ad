-- Renews the leases of several read holds, each only for its owner: the lock's and the hold's own
-- timeout key. Never makes a key, never shortens a lease; one of 1 ms only looks. All others write,
-- so that what replicas acknowledge behind it is also what an earlier one has done.
--
--   KEYS[1] … KEYS[2n]  key, timeout: for each: the lock's hash, and that of the hold
--   ARGV[1] … ARGV[2n]  field, lease_ms: for each
--
-- Sent by lk__rw_read_renew(renewals, count).
-- Answers: an array, for each 1 (renewed) or 0 (not the owner, its time was over, or the key is
-- something else).
-- Replicas must have what it did.
--include "time.lua" gives now
now = math.floor(now / 1000)
local answers = {}
for i = 1, #KEYS, 2 do
	local name, hold, lease = KEYS[i], KEYS[i + 1], ARGV[i + 1]
	local left = redis.call('PTTL', hold)
	local lives = left > 0 and redis.pcall('HEXISTS', name, ARGV[i]) == 1
	if lives and lease ~= '1' then
		local ends = string.format('%.0f', now + lease)
		if left < tonumber(lease) then
			redis.call('PEXPIREAT', hold, ends)
		else
			redis.call('PEXPIRE', hold, left)
		end
		if redis.call('PTTL', name) < tonumber(lease) then
			redis.call('PEXPIREAT', name, ends)
		end
	end
	answers[#answers + 1] = lives and 1 or 0
end
return answers
