-- Passes the plain lock from one token of a client to the next in one step: nobody else is woken.
--
--   KEYS[1]  key: the lock's string
--   ARGV[1]  field: token that takes
--   ARGV[2]  lease_ms: of the taker
--   ARGV[3]  deadline: of this request, server time in us
--   ARGV[4]  from: token that gives
--   ARGV[5]  channel
--   ARGV[6] … ARGV[9]  notify: what wakes another library's waiters, or nothing: "publish" or
--            "push"; its channel or list; its message; how long a list stays, ms
--
-- Sent by lk__plain_exchange(wanted, from).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot; the list, which in a
-- cluster is pushed only where this node has it.
-- Answers: nil granted · integer -3: the giver does not have it (nothing was done) · status
-- "LATE <server us>" (nothing was done) · status "FREED <reason>": given up, but not taken.
-- Safe to send twice: a repetition never shortens the taker's lease. When the taking is refused it
-- is a plain release.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local held = redis.pcall('GETRANGE', KEYS[1], '0', math.max(#ARGV[1], #ARGV[4]))
if held == ARGV[4] then
	local taken = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	if taken.err then
		local lock = KEYS[1]
		--include "turns.lua" gives turns, TAKEN
		--include "give_turn.lua" gives give_turn
		--include "wake.lua" gives wake
		redis.call('DEL', lock)
		give_turn(ARGV[5], '0')
		wake(ARGV[6], ARGV[7], ARGV[8], ARGV[9])
		return redis.status_reply('FREED ' .. taken.err)
	end
	return false
end
if held ~= ARGV[1] then
	return -3
end
lease = math.max(lease, redis.call('PTTL', KEYS[1]))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease))
return false
