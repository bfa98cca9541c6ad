-- Gives up one hold, of either side, and wakes the waiters that can go on. A waiting writer that
-- leaves is released in the same way: it goes out of the queue.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  timeout: key of this hold (a write hold has none: no such key)
--   KEYS[3]  lockkeeper_writers:{key}: the waiting writers that readers stand back for
--   ARGV[1]  field: owner field, of its side
--   ARGV[2]  channel
--   ARGV[3]  message: "0" from the read side, "1" from the write side
--
-- Sent by lk__rw_release(target, field).
-- Answers: nil, not the owner · integer: given up, so many subscribers heard of it.
-- Keys beside KEYS: the timeout keys of the other holds, which only the hash tells, and the order
-- of the writers' turns (turns.lua); in its slot.
-- Works under memory pressure: the first write is HDEL. Live readers, Java's too, keep the lock;
-- dead ones, whose timeout keys are gone, do not, and those met on the way are taken out. A user
-- who may not publish gives it up all the same.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
if ARGV[1] == 'mode' or ARGV[3] == '0' and string.sub(ARGV[1], -6) == ':write' then
	return false -- of the other side, or of neither: the lock would be left as nobody's
end
local lock, says = KEYS[1], ARGV[3]
local held = redis.call('HDEL', lock, ARGV[1]) == 1
local mode = held and redis.call('HGET', lock, 'mode')
local under_write = mode == 'write' and says == '0'
local left = held and redis.call('HLEN', lock)
local ends = mode and left == 1 and not under_write -- as usual: nobody else has it
--include "turns.lua" gives turns, TAKEN
if ends then
	redis.call('DEL', lock, KEYS[2])
	--include "nobody_waits.lua"
end
local own, whole = redis.call('PTTL', KEYS[2]), redis.call('PTTL', lock)
if not ends then
	redis.call('DEL', KEYS[2])
end
if under_write then
	return 0
end
--include "give_turn.lua" gives give_turn
if ends then
	return give_turn(ARGV[2], says, true) -- readers may listen beside writers
end
-- No writer has its turn: waiting writers need not look.
local function tell_readers()
	local wait = redis.pcall('ZCARD', turns)
	local before = type(wait) == 'number' and wait > 0 and '0' or ''
	local told = redis.pcall('PUBLISH', ARGV[2], before .. says)
	return type(told) == 'number' and told or 0
end
if not held then
	redis.call('ZREM', KEYS[3], ARGV[1])
	tell_readers()
	return false
end
local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
-- So many timeout keys are looked at; of a hash with more fields, some that are drawn.
local bound, looked = 10000, 0
-- The end of a reader's longest hold, in ms; those of the dead are taken out.
local function rest_of(field, count)
	local depth, longest = tonumber(count), 0
	-- One key a hold of a re-entrant reader of Java's.
	for hold = 1, math.min(depth or 0, bound - looked) do
		looked = looked + 1
		local key = prefix .. ':' .. field .. ':rwlock_timeout:' .. hold
		longest = math.max(longest, redis.call('PTTL', key))
	end
	if depth and longest <= 0 and looked < bound then
		redis.call('HDEL', lock, field)
	end
	return longest
end
-- The lock lasts as long as the longest hold that is left. If another than ours has been that,
-- one that lives is enough.
local longest, enough = 0, own >= 0 and own < whole
local few = left <= bound
local fields = few and redis.call('HGETALL', lock) or {}
for i = 1, #fields, 2 do
	local rest = rest_of(fields[i], fields[i + 1])
	if enough and rest > 0 then
		return 0
	end
	longest = math.max(longest, rest)
end
for _ = 1, few and 0 or 100 do
	local field = redis.pcall('HRANDFIELD', lock)
	if type(field) == 'string' then
		rest_of(field, redis.call('HGET', lock, field))
	end
end
local known = few and looked < bound -- else it stays until the end that it has
if known and longest == 0 then
	redis.call('DEL', lock)
	return give_turn(ARGV[2], says, true)
end
if known then
	redis.call('PEXPIRE', lock, string.format('%.0f', longest))
end
if mode == 'read' then
	-- A writer sleeps until the end that it saw. A little less is not worth a message.
	local sooner = known and whole - longest > 1000
	return sooner and give_turn(ARGV[2], says, true) or 0
end
redis.call('HSET', lock, 'mode', 'read')
return tell_readers()
