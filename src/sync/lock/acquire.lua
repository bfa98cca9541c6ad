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
--include "prologue.lua" gives lease, time
local lock, lasts = KEYS[1], ARGV[2]
local free = redis.call('EXISTS', lock) == 0
local own = not free and redis.pcall('HEXISTS', lock, ARGV[1])
if own == 1 then
	lasts = string.format('%.0f', math.max(lease, redis.call('PTTL', lock)))
end
local granted = own == 1 or free and ARGV[7] ~= '1'
if granted then
	if free then
		redis.call('HSET', lock, ARGV[1], '1')
	end
	local answer = redis.pcall('PEXPIRE', lock, lasts)
	if answer ~= 1 then
		-- A refused PEXPIRE (ACL) must not leave a lock without a time to live.
		redis.call('HDEL', lock, ARGV[1])
		return answer
	end
	if not ARGV[4] then
		return false
	end
end
--include "wait_turn.lua" gives wait_turn, turns, TAKEN
if granted then
	wait_turn(ARGV[4], TAKEN, ARGV[6], ARGV[7])
	return false
end
if free then
	return wait_turn(ARGV[4], ARGV[5], ARGV[6], '1')
end
if type(own) == 'table' then
	if not string.find(own.err, 'WRONGTYPE') then
		return own
	end
	local kind = redis.call('TYPE', lock).ok
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a lock')
end
if redis.call('HEXISTS', lock, 'mode') == 1 then
	return redis.error_reply('WRONGTYPE the key is a read/write lock, not a lock')
end
--include "no_lock.lua" gives is_no_lock
if is_no_lock() then
	return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
end
if ARGV[4] then
	wait_turn(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
end
return redis.call('PTTL', lock)
