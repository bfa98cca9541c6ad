-- Renews the leases of several locks, each only for its owner; never makes a key, never
-- shortens a lease. One of 1 ms only looks: it writes nothing. All others write, so that what
-- replicas acknowledge behind it is also what an earlier one has done.
--
--   KEYS[1] … KEYS[n]   key: the locks' hashes
--   ARGV[1] … ARGV[2n]  field, lease_ms: for each: owner field, lease in ms
--
-- Sent by lk__lock_renew(renewals, count).
-- Answers: an array, for each 1 (renewed) or 0 (not the owner, or the key is something else).
-- Replicas must have what it did.
local answers = {}
for i = 1, #KEYS do
	local owner, lease = ARGV[2 * i - 1], ARGV[2 * i]
	if redis.pcall('HEXISTS', KEYS[i], owner) == 1 then
		if lease ~= '1' then
			local longest = math.max(tonumber(lease), redis.call('PTTL', KEYS[i]))
			redis.call('PEXPIRE', KEYS[i], string.format('%.0f', longest))
		end
		answers[i] = 1
	else
		answers[i] = 0
	end
end
return answers
