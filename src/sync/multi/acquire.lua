-- Takes several locks for one owner, all or none.
--
--   KEYS[1] … KEYS[n]  key: the locks' hashes
--   ARGV[1]  field: the owner's
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--
-- Sent by lk__multi_acquire_request(keys, count, lease_ms).
-- Answers: nil granted · array { i, PTTL of KEYS[i] }: that one, the first, is another's · status
-- "LATE <server us>". Nothing was taken unless granted.
-- Refused: a key that is something else than a lock (WRONGTYPE).
-- Safe to send twice: a repetition finds its own fields, and never shortens a lease.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local function wrong(key, what)
	return redis.error_reply('WRONGTYPE "' .. string.sub(key, 1, 100) .. '" is a ' .. what)
end
for i = 1, #KEYS do
	local lock = KEYS[i]
	local own = redis.pcall('HEXISTS', lock, ARGV[1])
	if type(own) == 'table' then
		local other = string.find(own.err, 'WRONGTYPE')
		return other and wrong(lock, redis.call('TYPE', lock).ok .. ', not a lock') or own
	end
	if own == 0 and redis.call('EXISTS', lock) == 1 then
		if redis.call('HEXISTS', lock, 'mode') == 1 then
			return wrong(lock, 'read/write lock, not a lock')
		end
		--include "no_lock.lua" gives is_no_lock
		if is_no_lock() then
			return wrong(lock, 'hash that is not a lock')
		end
		return {i, redis.call('PTTL', lock)}
	end
end
for _, key in ipairs(KEYS) do
	-- What a repetition finds is not written again: when memory is short that would be refused.
	local answer, longest = redis.call('HEXISTS', key, ARGV[1]), lease
	if answer == 0 then
		answer = redis.pcall('HSET', key, ARGV[1], '1')
	else
		longest = math.max(lease, redis.call('PTTL', key))
	end
	if type(answer) ~= 'table' then
		answer = redis.pcall('PEXPIRE', key, string.format('%.0f', longest))
	end
	if type(answer) == 'table' then
		-- Refused (ACL, memory): nothing of it may stay.
		for _, taken in ipairs(KEYS) do
			redis.call('HDEL', taken, ARGV[1])
		end
		return answer
	end
end
return false
