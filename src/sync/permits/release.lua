-- Gives permits back, all or none.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  in_use: the permits
--   ARGV[1]  channel
--   ARGV[2] … ARGV[n+1]  id_of: each of them
--
-- Sent by lk__permits_release(target, ids, count).
-- Answers: nil: one of them is not in use, or has expired (nothing was done) · integer: released,
-- so many heard of it: none, if the user may not publish.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
--include "time.lua" gives now
now = math.floor(now / 1000)
for i = 2, #ARGV do
	local expiry = redis.call('ZSCORE', KEYS[2], ARGV[i])
	if not expiry or tonumber(expiry) <= now then
		redis.pcall('PUBLISH', ARGV[1], '0')
		return false
	end
end
local removed = redis.call('ZREM', KEYS[2], unpack(ARGV, 2))
if redis.call('EXISTS', KEYS[1]) == 0 then
	return 0
end
local free = redis.call('INCRBY', KEYS[1], removed)
if free <= 0 then
	return 0
end
local listeners = redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', free))
return type(listeners) == 'number' and listeners or 0
