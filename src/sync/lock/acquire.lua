-- Takes the lock for one owner, unless another has it.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  field: the owner's
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4] … ARGV[7]  turn: of one who listens, its id for the order of turns; since when it
--            waits, server time in us; for how long that is kept if it does not come again, ms; and
--            1: it wants only a place there, though the lock be free; 2: it gets none
--
-- Sent by lk__lock_acquire(wanted).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: nil granted · integer: held by another, its PTTL, or how long a free one is left to
-- others, ms · status "LATE <server us>".
-- Refused: a key that is something else than a lock (WRONGTYPE).
-- Safe to send twice: a repetition finds its own field, and never shortens the lease. It writes the
-- lease all the same, so that what replicas acknowledge behind it is all of this.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, now
--include "wait_turn.lua" gives wait_turn, turns_of, TAKEN
local lasts = ARGV[2]
if redis.call('EXISTS', KEYS[1]) == 1 then
	local own = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
	if type(own) == 'table' then
		if not string.find(own.err, 'WRONGTYPE') then
			return own
		end
		local kind = redis.call('TYPE', KEYS[1]).ok
		return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a lock')
	end
	if own == 0 then
		if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
			local why = 'the key is a read/write lock, not a lock'
			return redis.error_reply('WRONGTYPE ' .. why)
		end
		-- An owner's field ends in a number. A user who may not ask waits.
		local some = redis.pcall('HRANDFIELD', KEYS[1])
		if type(some) == 'string' and not string.find(some, ':%-?%d+$') then
			return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
		end
		if ARGV[4] then
			wait_turn(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
		end
		return redis.call('PTTL', KEYS[1])
	end
	lasts = string.format('%.0f', math.max(lease, redis.call('PTTL', KEYS[1])))
elseif ARGV[7] == '1' then
	return wait_turn(ARGV[4], ARGV[5], ARGV[6], '1')
else
	redis.call('HSET', KEYS[1], ARGV[1], 1)
end
local answer = redis.pcall('PEXPIRE', KEYS[1], lasts)
if type(answer) == 'table' then
	-- A refused PEXPIRE (ACL) must not leave a lock without a time to live.
	redis.call('HDEL', KEYS[1], ARGV[1])
	return answer
end
if ARGV[4] then
	wait_turn(ARGV[4], TAKEN, ARGV[6], ARGV[7])
end
return false
