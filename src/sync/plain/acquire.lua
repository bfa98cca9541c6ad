-- Takes the plain lock for one token, unless another has it.
--
--   KEYS[1]  key: the lock's string
--   ARGV[1]  field: the token
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4] … ARGV[7]  turn: of one who listens, its id for the order of turns; since when it
--            waits, server time in us; for how long that is kept if it does not come again, ms; and
--            1: it wants only a place there, though the lock be free; 2: it gets none
--
-- Sent by lk__plain_acquire(wanted).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: nil granted · held by another: its PTTL, and its token, of which 64 bytes tell it from
-- others · integer: how long a free one is left to others, ms · status "LATE <server us>".
-- Refused: a key that is something else than a string (WRONGTYPE).
-- Safe to send twice: a repetition finds its own token, and never shortens the lease.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local lock = KEYS[1]
local taken = ARGV[7] ~= '1' and redis.pcall('SET', lock, ARGV[1], 'NX', 'PX', ARGV[2])
local granted = taken and taken.ok
if granted and not ARGV[4] then
	return false
end
--include "wait_turn.lua" gives wait_turn, turns, TAKEN
if granted then
	wait_turn(ARGV[4], TAKEN, ARGV[6], ARGV[7])
	return false
end
local kind = redis.call('TYPE', lock).ok
if kind == 'none' and ARGV[7] == '1' then
	return wait_turn(ARGV[4], ARGV[5], ARGV[6], '1')
end
if kind == 'none' then
	return taken -- refused (memory, ACL)
end
if kind == 'hash' then
	kind = redis.call('HEXISTS', lock, 'mode') == 1 and 'read/write lock'
		or 'hash, as of a reentrant lock'
end
if kind ~= 'string' then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a plain lock')
end
-- No more of it than tells whether it is this token: a stranger's string may be large.
local held = redis.call('GETRANGE', lock, '0', '255')
if held ~= ARGV[1] then
	if ARGV[4] then
		wait_turn(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
	end
	return {redis.call('PTTL', lock), string.sub(held, 1, 64)}
end
lease = math.max(lease, redis.call('PTTL', lock))
redis.call('PEXPIRE', lock, string.format('%.0f', lease))
return false
