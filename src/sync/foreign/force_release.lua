-- Deletes another library's lock, which is of a layout that no kind of ours has.
--
--   KEYS[1]  the lock's key
--   ARGV[1]  its type: "zset" or "hash"
--   ARGV[2]  the field of the hash that is the lock; empty: the whole key
--
-- Answers: 1 freed, 0 there was none. A key of another type is left alone (WRONGTYPE).
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return 0
end
if kind ~= ARGV[1] then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a ' .. ARGV[1])
end
if ARGV[2] ~= '' then
	return redis.call('HDEL', KEYS[1], ARGV[2])
end
return redis.call('DEL', KEYS[1])
