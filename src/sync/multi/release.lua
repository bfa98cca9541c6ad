-- Frees several locks, each if its owner has it, and wakes their waiters.
--
--   KEYS[1] … KEYS[n]   the locks' hashes
--   ARGV[1] … ARGV[2n]  for each: owner field, channel
--
-- Answers: an array, for each the subscribers that heard of it, or -1 (not the owner, or
-- the key is something else).
-- Works under memory pressure: HDEL and PUBLISH are never refused for it. Safe to send twice.
local answers = {}
for i = 1, #KEYS do
	answers[i] = -1
	if redis.pcall('HDEL', KEYS[i], ARGV[2 * i - 1]) == 1 then
		answers[i] = redis.call('PUBLISH', ARGV[2 * i], '0')
	end
end
return answers
