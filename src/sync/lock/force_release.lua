-- Frees the lock whoever has it, and wakes the waiter whose turn it is. Who watches the lock hears
-- on "<channel>:broken" that it was no release.
--
--   KEYS[1]  key: the lock's hash
--   ARGV[1]  channel: empty where nobody listens
--
-- Sent by lk__lock_force(target).
-- Keys beside KEYS: the order of turns (turns.lua), in the lock's slot.
-- Answers: 1 freed, 0 there was none. Another kind of lock, a hash that is not a lock, and a key of
-- another type are left alone (WRONGTYPE).
-- It is freed also for a user who may not publish. If there is none it writes all the same, a
-- message: what replicas acknowledge behind it is also what an earlier copy has done.
local lock = KEYS[1]
--include "turns.lua" gives turns, TAKEN
--include "give_turn.lua" gives give_turn
if redis.call('HLEN', KEYS[1]) == 0 then
	if ARGV[1] ~= '' then
		redis.pcall('PUBLISH', ARGV[1], '0')
	end
	return 0
end
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
	return redis.error_reply('WRONGTYPE the key is a read/write lock, not a lock')
end
--include "no_lock.lua" gives is_no_lock
if is_no_lock() then
	return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
end
redis.call('DEL', KEYS[1])
if ARGV[1] ~= '' then
	redis.pcall('PUBLISH', ARGV[1] .. ':broken', '')
	give_turn(ARGV[1], '0')
end
return 1
