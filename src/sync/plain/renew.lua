-- Renews the leases of several plain locks, each only for its token; never makes a key, never
-- shortens a lease. One of 1 ms only looks: it writes nothing.
--
--   KEYS[1] … KEYS[n]   the locks' strings
--   ARGV[1] … ARGV[2n]  for each: token, lease in ms
--
-- Answers: an array, for each 1 (renewed) or 0 (another token, or none).
local answers = {}
for i = 1, #KEYS do
	local token, lease = ARGV[2 * i - 1], ARGV[2 * i]
	if redis.pcall('GET', KEYS[i]) == token then
		if lease ~= '1' and redis.call('PTTL', KEYS[i]) < tonumber(lease) then
			redis.call('PEXPIRE', KEYS[i], lease)
		end
		answers[i] = 1
	else
		answers[i] = 0
	end
end
return answers
