-- Frees several locks, each if its owner has it, and wakes their waiters.
--
--   KEYS[1] … KEYS[n]   key: the locks' hashes
--   ARGV[1] … ARGV[2n]  field, channel: for each
--
-- Sent by lk__multi_release_request(keys, count).
-- Keys beside KEYS: the orders of turns (turns.lua), in the locks' slots.
-- Answers: an array, for each the subscribers that heard of it, or -1 (not the owner, or
-- the key is something else) · an error, if the server refused one of them; the others are freed.
-- Works under memory pressure: HDEL and PUBLISH are never refused for it. Safe to send twice.
-- A user who may not publish frees them all the same, and then nobody is said to have heard.
local answers, refused = {}, nil
for at = 1, #KEYS do
	local freed = redis.pcall('HDEL', KEYS[at], ARGV[2 * at - 1])
	answers[at] = -1
	if type(freed) == 'table' and not string.find(freed.err, 'WRONGTYPE') then
		refused = freed
	elseif freed == 1 then
		local lock = KEYS[at]
		--include "turns.lua" gives turns, TAKEN
		--include "give_turn.lua" gives give_turn
		answers[at] = give_turn(ARGV[2 * at], '0', true)
	end
end
return refused or answers
