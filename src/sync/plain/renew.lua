-- Renews the leases of several plain locks, each only for its token; never makes a key, never
-- shortens a lease. One of 1 ms only looks: it writes nothing. All others write, so that what
-- replicas acknowledge behind it is also what an earlier one has done.
--
--   KEYS[1] … KEYS[n]   key: the locks' strings
--   ARGV[1] … ARGV[2n]  field, lease_ms: for each: token, lease in ms
--
-- Sent by lk__plain_renew(renewals, count).
-- Answers: an array, for each 1 (renewed) or 0 (another token, or none).
-- Replicas must have what it did.
local answers = {}
for i = 1, #KEYS do
	local token, lease = ARGV[2 * i - 1], ARGV[2 * i]
	if redis.pcall('GETRANGE', KEYS[i], '0', #token) == token then
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
