-- Takes the lock for one owner, unless another has it, and raises its fence token.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  lockkeeper_fence:{key}: the newest token, kept for 30 days
--   KEYS[3]  java_counter: Redisson's, where Java peers share the lock; else there is no such key
--   ARGV[1]  field: the owner's
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4]  from: field of the owner that gives the lock up for it; empty: none does
--   ARGV[5]  channel
--   ARGV[6] … ARGV[9]  turn: of one who listens, its id for the order of turns; since when it
--            waits, server time in us; for how long that is kept if it does not come again, ms; and
--            1: it wants only a place there, though the lock be free; 2: it gets none
--
-- Sent by lk__fenced_acquire(wanted, from).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: status "TOKEN <token>" granted · integer: held by another, its PTTL, or how long a free
-- one is left to others, ms; or, where one was to give it up, -3: it does not own it (nothing was
-- done) · status "LATE <server us>" (nothing was done) · status "FREED <reason>": given up, but not
-- taken.
-- Refused (WRONGTYPE): a key that is something else than a lock, a counter that no token can
-- follow.
-- Safe to send twice: a repetition finds its own field, never shortens the lease and answers the
-- token that it was granted with, which is the newest, since only a grant raises it.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local now_us = time[1] * 1000000 + time[2]
local lock, from = KEYS[1], ARGV[4]
local free = from == '' and redis.call('EXISTS', lock) == 0
local own = not free and redis.pcall('HEXISTS', lock, ARGV[1])
if type(own) == 'table' then
	if not string.find(own.err, 'WRONGTYPE') then
		return own
	end
	local kind = redis.call('TYPE', lock).ok
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a fenced lock')
end
own = own == 1
if not own and from ~= '' and redis.call('HEXISTS', lock, from) == 0 then
	return -3
end
local token
if own or from ~= '' or free and ARGV[9] ~= '1' then
	local newest, most = 0, own and 9007199254740991 or 9007199254740990
	for i = 2, #KEYS do
		local text = redis.call('GETRANGE', KEYS[i], '0', '16')
		if text == '' and redis.call('EXISTS', KEYS[i]) == 0 then
			text = '0'
		end
		local last = string.find(text, '^%d+$') and tonumber(text)
		if not last or last > most then
			local why = 'WRONGTYPE no fence token can follow what the counter has'
			return redis.error_reply(why)
		end
		newest = math.max(newest, last)
	end
	if own and newest > 0 then
		-- Nothing else is written: when memory is short, that would be refused, and the
		-- lock freed.
		lease = math.max(lease, redis.call('PTTL', lock))
		redis.call('PEXPIRE', lock, string.format('%.0f', lease))
		return redis.status_reply('TOKEN ' .. string.format('%.0f', newest))
	end
	token = string.format('%.0f', math.max(newest + 1, now_us))
	if from ~= '' then
		redis.call('HDEL', lock, from)
	end
	local answer = KEYS[3] and redis.pcall('SET', KEYS[3], token)
	if not (answer and answer.err) then
		answer = redis.pcall('SET', KEYS[2], token, 'PX', '2592000000')
	end
	if not answer.err then
		answer = redis.pcall('HSET', lock, ARGV[1], '1')
		if type(answer) ~= 'table' and
			(not own or redis.call('PTTL', lock) < lease) then
			answer = redis.pcall('PEXPIRE', lock, ARGV[2])
		end
	end
	if type(answer) == 'table' then
		-- A refusal (ACL, memory) must not leave a lock without a time to live.
		redis.call('HDEL', lock, ARGV[1])
		if from == '' then
			return answer
		end
		redis.pcall('PUBLISH', ARGV[5], '0')
		return redis.status_reply('FREED ' .. answer.err)
	end
	if not ARGV[6] then
		return redis.status_reply('TOKEN ' .. token)
	end
end
--include "wait_turn.lua" gives wait_turn, turns, TAKEN
if token then
	wait_turn(ARGV[6], TAKEN, ARGV[8], ARGV[9])
	return redis.status_reply('TOKEN ' .. token)
end
if free then
	return wait_turn(ARGV[6], ARGV[7], ARGV[8], '1')
end
if redis.call('HEXISTS', lock, 'mode') == 1 then
	return redis.error_reply('WRONGTYPE the key is a read/write lock, not a fenced one')
end
--include "no_lock.lua" gives is_no_lock
if is_no_lock() then
	return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
end
if ARGV[6] then
	wait_turn(ARGV[6], ARGV[7], ARGV[8], ARGV[9])
end
return redis.call('PTTL', lock)
