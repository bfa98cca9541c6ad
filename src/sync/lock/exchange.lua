-- Passes the lock from one owner of a client to the next in one step: nobody else is woken.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  field: of the owner that takes
--   ARGV[2]  lease_ms: of the taker
--   ARGV[3]  deadline: of this request, server time in us
--   ARGV[4]  from: field of the owner that gives
--   ARGV[5]  channel: empty where nobody listens
--
-- Sent by lk__lock_exchange(wanted, from).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: nil granted · integer -3: the giver does not own it (nothing was done) · status
-- "LATE <server us>" (nothing was done) · status "FREED <reason>": given up, but not taken.
-- Safe to send twice: a repetition finds the taker, and never shortens its lease. It releases
-- first; when the taking is refused it is a plain release, also for a user who may not publish.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local refused
if redis.call('HDEL', KEYS[1], ARGV[4]) == 0 then
	if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
		return -3
	end
	lease = math.max(lease, redis.call('PTTL', KEYS[1]))
else
	local taken = redis.pcall('HSET', KEYS[1], ARGV[1], '1')
	refused = type(taken) == 'table' and taken
end
if not refused then
	local answer = redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', lease))
	if type(answer) ~= 'table' then
		return false
	end
	redis.call('HDEL', KEYS[1], ARGV[1])
	refused = answer
end
if ARGV[5] ~= '' then
	local lock = KEYS[1]
	--include "turns.lua" gives turns, TAKEN
	--include "give_turn.lua" gives give_turn
	give_turn(ARGV[5], '0')
end
return redis.status_reply('FREED ' .. refused.err)
