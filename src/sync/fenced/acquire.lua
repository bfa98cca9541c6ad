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
--include "prologue.lua" gives lease, now
local lock = KEYS[1]
--include "wait_turn.lua" gives wait_turn, turns, TAKEN
local from = ARGV[4]
local own = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(own) == 'table' then
	if not string.find(own.err, 'WRONGTYPE') then
		return own
	end
	local kind = redis.call('TYPE', KEYS[1]).ok
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a fenced lock')
end
own = own == 1
if not own and from ~= '' and redis.call('HEXISTS', KEYS[1], from) == 0 then
	return -3
end
if not own and from == '' and redis.call('EXISTS', KEYS[1]) == 1 then
	if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
		return redis.error_reply('WRONGTYPE the key is a read/write lock, not a fenced one')
	end
	-- An owner's field ends in a number. A user who may not ask waits.
	local some = redis.pcall('HRANDFIELD', KEYS[1])
	if type(some) == 'string' and not string.find(some, ':%-?%d+$') then
		return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
	end
	if ARGV[6] then
		wait_turn(ARGV[6], ARGV[7], ARGV[8], ARGV[9])
	end
	return redis.call('PTTL', KEYS[1])
end
if not own and from == '' and ARGV[9] == '1' then
	return wait_turn(ARGV[6], ARGV[7], ARGV[8], '1')
end
local newest, most = 0, own and 9007199254740991 or 9007199254740990
for i = 2, #KEYS do
	local text = redis.call('GETRANGE', KEYS[i], 0, 16)
	if text == '' and redis.call('EXISTS', KEYS[i]) == 0 then
		text = '0'
	end
	local last = string.find(text, '^%d+$') and tonumber(text)
	if not last or last > most then
		return redis.error_reply('WRONGTYPE no fence token can follow what the counter has')
	end
	newest = math.max(newest, last)
end
if own and newest > 0 then
	-- Nothing else is written: when memory is short, that would be refused, and the lock freed.
	lease = math.max(lease, redis.call('PTTL', KEYS[1]))
	redis.call('PEXPIRE', KEYS[1], string.format('%.0f', lease))
	return redis.status_reply('TOKEN ' .. string.format('%.0f', newest))
end
local token = string.format('%.0f', math.max(newest + 1, now))
local writes = {
	{'SET', KEYS[2], token, 'PX', '2592000000'},
	{'HSET', KEYS[1], ARGV[1], 1},
}
if not own or redis.call('PTTL', KEYS[1]) < lease then
	table.insert(writes, {'PEXPIRE', KEYS[1], ARGV[2]})
end
if KEYS[3] then
	table.insert(writes, 1, {'SET', KEYS[3], token})
end
if from ~= '' then
	redis.call('HDEL', KEYS[1], from)
end
for _, write in ipairs(writes) do
	local answer = redis.pcall(unpack(write))
	if type(answer) == 'table' and answer['err'] then
		-- A refusal (ACL, memory) must not leave a lock without a time to live.
		redis.call('HDEL', KEYS[1], ARGV[1])
		if from == '' then
			return answer
		end
		redis.pcall('PUBLISH', ARGV[5], '0')
		return redis.status_reply('FREED ' .. answer['err'])
	end
end
if ARGV[6] then
	wait_turn(ARGV[6], TAKEN, ARGV[8], ARGV[9])
end
return redis.status_reply('TOKEN ' .. token)
