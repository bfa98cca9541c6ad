-- Takes the write side for one owner, unless anybody else has the lock.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  lockkeeper_writers:{key}: the waiting writers that readers stand back for
--   ARGV[1]  write_field: of the owner
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4]  preferred_ms: if it has to wait, readers stand back for it so long, ms; 0: they do not
--   ARGV[5] … ARGV[8]  turn: of one who listens, its id for the order of turns; since when it
--            waits, server time in us; for how long that is kept if it does not come again, ms; and
--            1: it wants only a place there, though the lock be free; 2: it gets none
--
-- Sent by lk__rw_write_acquire(wanted).
-- Keys beside KEYS: the order of the writers' turns (turns.lua), in the lock's slot.
-- Answers: nil granted · integer: not now, look again after so many ms (-1: no time known; also
-- for how long a free one is left to others)
-- · status "LATE <server us>". Refused: a key that is something else (WRONGTYPE).
-- Safe to send twice: a repetition finds its own field, and never shortens the lease.
-- Replicas must have what it grants.
local counts = tonumber(ARGV[4])
if not counts or counts < 0 or counts > 60000 then
	return redis.error_reply('LOCKKEEPER bad preference')
end
--include "prologue.lua" gives lease, time
local lock = KEYS[1]
local free = redis.call('EXISTS', lock) == 0
local mode = not free and redis.pcall('HGET', lock, 'mode')
local own = mode == 'write' and redis.call('HEXISTS', lock, ARGV[1]) == 1
local granted = own or free and ARGV[8] ~= '1'
if granted then
	local answer, lasts = nil, ARGV[2]
	if free then
		answer = redis.pcall('HSET', lock, 'mode', 'write', ARGV[1], '1')
	else
		lasts = string.format('%.0f', math.max(lease, redis.call('PTTL', lock)))
	end
	if type(answer) ~= 'table' then
		answer = redis.pcall('PEXPIRE', lock, lasts)
	end
	if type(answer) == 'table' then
		-- Refused (ACL): no lock without a time to live.
		redis.call('HDEL', lock, ARGV[1])
		if free then
			redis.call('HDEL', lock, 'mode')
		end
		return answer
	end
	if counts > 0 then
		-- Where it is refused (ACL), the place in the queue ends by itself.
		redis.pcall('ZREM', KEYS[2], ARGV[1])
	end
	if not ARGV[5] then
		return false
	end
end
--include "wait_turn.lua" gives wait_turn, turns, TAKEN
if granted then
	wait_turn(ARGV[5], TAKEN, ARGV[7], ARGV[8])
	return false
end
if free then
	return wait_turn(ARGV[5], ARGV[6], ARGV[7], '1')
end
if type(mode) == 'table' then
	if string.find(mode.err, 'WRONGTYPE') then
		local kind = redis.call('TYPE', lock).ok
		local text = 'WRONGTYPE the key is a ' .. kind .. ', not a read/write lock'
		return redis.error_reply(text)
	end
	return mode
end
if not mode then
	return redis.error_reply('WRONGTYPE the key is a lock, not a read/write lock')
end
local left = redis.call('PTTL', lock)
if ARGV[5] then
	wait_turn(ARGV[5], ARGV[6], ARGV[7], ARGV[8])
end
if counts == 0 then
	return left
end
local now_ms = math.floor(time[1] * 1000 + time[2] / 1000)
redis.call('ZADD', KEYS[2], string.format('%.0f', now_ms + counts), ARGV[1])
local kept = redis.pcall('PEXPIRE', KEYS[2], ARGV[4])
if type(kept) == 'table' then
	redis.call('ZREM', KEYS[2], ARGV[1])
	return kept
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. string.format('%.0f', now_ms))
-- It has to come again before it is taken for dead.
local again = math.floor(counts / 3)
return (left < 0 or left > again) and again or left
