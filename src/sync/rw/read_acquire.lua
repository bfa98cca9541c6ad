-- Takes the read side for one owner, beside other readers or under the owner's own write side.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  timeout: key of this hold
--   KEYS[3]  lockkeeper_writers:{key}: the waiting writers that readers stand back for
--   ARGV[1]  field: the owner's
--   ARGV[2]  lease_ms
--   ARGV[3]  deadline: of this request, server time in us: it must not run late
--   ARGV[4]  write_side: field of the write side that this owner has; empty: it has none
--   ARGV[5]  prefers: 1, stand back while a writer waits
--
-- Sent by lk__rw_read_acquire(wanted).
-- Answers: nil granted · integer: not now, look again after so many ms (-1: no time known)
-- · status "LATE <server us>". Refused: a key that is something else (WRONGTYPE).
-- Safe to send twice: a repetition finds its own field, and never shortens the lease.
-- Replicas must have what it grants.
--include "prologue.lua" gives lease, time
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local mode = redis.pcall('HGET', KEYS[1], 'mode')
if type(mode) == 'table' then
	if string.find(mode.err, 'WRONGTYPE') then
		local kind = redis.call('TYPE', KEYS[1]).ok
		local text = 'WRONGTYPE the key is a ' .. kind .. ', not a read/write lock'
		return redis.error_reply(text)
	end
	return mode
end
if not mode and redis.call('EXISTS', KEYS[1]) == 1 then
	return redis.error_reply('WRONGTYPE the key is a lock, not a read/write lock')
end
-- So many readers, or a stranger's data: what holds it ends in a number, or in :write behind one. A
-- user who may not ask goes on.
local many = mode and redis.call('HLEN', KEYS[1]) > 1000
local some = many and redis.pcall('HRANDFIELD', KEYS[1])
if type(some) == 'string' and some ~= 'mode' and
	not string.find(string.gsub(some, ':write$', ''), ':%-?%d+$') then
	return redis.error_reply('WRONGTYPE the key is a hash that is not a read/write lock')
end
local asked = mode == 'write' or ARGV[5] == '1'
if asked and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
	if mode == 'write' then
		if ARGV[4] == '' or redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
			return redis.call('PTTL', KEYS[1])
		end
	else
		local last = redis.call('ZREVRANGE', KEYS[3], '0', '0', 'WITHSCORES')[2]
		local rest = last and tonumber(last) - now_ms
		if rest and rest > 0 then
			return math.ceil(rest)
		end
	end
end
-- The timeout key first: it comes with its time to live, and without it the hold does not count.
-- Both end at one moment, so that a release can tell which hold has been the longest.
local ends = string.format('%.0f', now_ms + lease)
if redis.call('PTTL', KEYS[2]) < lease then
	redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
	redis.pcall('PEXPIREAT', KEYS[2], ends)
end
local answer
if mode then
	answer = redis.pcall('HSET', KEYS[1], ARGV[1], '1')
else
	answer = redis.pcall('HSET', KEYS[1], 'mode', 'read', ARGV[1], '1')
end
if type(answer) ~= 'table' and (not mode or redis.call('PTTL', KEYS[1]) < lease) then
	answer = redis.pcall('PEXPIREAT', KEYS[1], ends)
end
if type(answer) == 'table' then
	-- Refused (ACL): no hold, and no lock without a time to live.
	redis.call('HDEL', KEYS[1], ARGV[1])
	if not mode then
		redis.call('HDEL', KEYS[1], 'mode')
	end
	redis.call('DEL', KEYS[2])
	return answer
end
return false
