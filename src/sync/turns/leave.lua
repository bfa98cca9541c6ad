-- Gives up a place in the order of turns. If it was its turn and the lock is free, the next one has
-- it, in the same step: of a free lock nobody tells. If it was the first and the lock is held, the
-- next one looks soon, and so learns that it is the first now.
--
--   KEYS[1]  key: the lock's key; without it the lock is free
--   ARGV[1]  place: its id
--   ARGV[2]  channel
--
-- Sent by lk__turns_leave(target, place).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: 0 it was not its turn, or the lock is not free · integer: as of a release.
-- Safe to send twice, and to run late: a waiter without a place has no turn to pass on.
local lock = KEYS[1]
--include "turns.lua" gives turns, TAKEN
--include "give_turn.lua" gives give_turn
local first = redis.pcall('ZRANGE', turns, '0', '0')[1]
local since = redis.pcall('ZSCORE', turns, ARGV[1])
redis.pcall('ZREM', turns, ARGV[1])
local held = redis.call('EXISTS', KEYS[1]) == 1
if held and first == ARGV[1] then
	local next = redis.pcall('ZRANGEBYSCORE', turns, '-inf', '(' .. TAKEN, 'LIMIT', '0', '1')[1]
	if next then
		redis.pcall('PUBLISH', ARGV[2] .. ':' .. next, 'soon')
	end
end
if type(since) ~= 'string' or held then
	return 0
end
if tonumber(since) == tonumber(TAKEN) then
	return give_turn(ARGV[2], '0')
end
if first ~= ARGV[1] then
	return 0
end
-- One that was told before it may be about to come.
local told = redis.pcall('ZCOUNT', turns, TAKEN, '+inf')
local what = type(told) == 'number' and told > 0 and 'soon' or 'now'
return give_turn(ARGV[2], '0', false, what)
