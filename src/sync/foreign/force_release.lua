-- Deletes another library's lock, which is of a layout that no kind of ours has, and wakes its
-- waiters as that library does.
--
--   KEYS[1]  the lock's key
--   ARGV[1]  its type: "zset" or "hash"
--   ARGV[2]  the field of the hash that is the lock; empty: the whole key
--   ARGV[3]  what wakes that library's waiters, or nothing: "publish" or "push"
--   ARGV[4]  its channel or list
--   ARGV[5]  its message
--   ARGV[6]  how long a list stays, ms
--
-- Keys beside KEYS: the list, which in a cluster is pushed only where this node has it.
-- Answers: 1 freed, 0 there was none. A key of another type is left alone (WRONGTYPE).
--include "wake.lua" gives wake
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return 0
end
if kind ~= ARGV[1] then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a ' .. ARGV[1])
end
local freed
if ARGV[2] ~= '' then
	freed = redis.call('HDEL', KEYS[1], ARGV[2])
else
	freed = redis.call('DEL', KEYS[1])
end
if freed > 0 then
	wake(ARGV[3], ARGV[4], ARGV[5], ARGV[6])
end
return freed
