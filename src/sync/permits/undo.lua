-- Gives back what a request has taken whose answer nobody wants, or nobody knows.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  in_use: the permits
--   ARGV[1]  channel
--   ARGV[2]  id_prefix: the first 14 bytes of its ids; the last two count from 0
--
-- Sent by lk__permits_undo(target, field).
-- Answers: nil: it took nothing, or was undone · integer: given back, so many heard of it.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
-- All go at once: while a slot moves, its old node refuses what names a key that a script itself
-- has taken away, and the count would never hear of them.
local ids = {}
for i = 0, 999 do
	local id = ARGV[2] .. string.char(math.floor(i / 256), i % 256)
	if not redis.call('ZSCORE', KEYS[2], id) then
		break
	end
	ids[#ids + 1] = id
end
if #ids == 0 then
	redis.pcall('PUBLISH', ARGV[1], '0')
	return false
end
local removed = redis.call('ZREM', KEYS[2], unpack(ids))
if redis.call('EXISTS', KEYS[1]) == 0 then
	return 0
end
local free = redis.call('INCRBY', KEYS[1], removed)
if free <= 0 then
	return 0
end
local listeners = redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', free))
return type(listeners) == 'number' and listeners or 0
