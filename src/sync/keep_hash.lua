-- Makes an owner's field of a hash nobody's, for a time: how a lock that is one key is kept. With a
-- field of nobody's already, what is left of the time is written once more.
--
--   ARGV[1]  for how long, ms
--
-- Returns: true, kept · false, neither has it · an error, and then nobody has it.
--
-- Gives: keep_hash
--include "keep.lua" gives keep_ms
local function keep_hash(owner, nobody)
	if redis.call('HEXISTS', KEYS[1], owner) == 1 then
		redis.call('HDEL', KEYS[1], owner)
		redis.call('HSET', KEYS[1], nobody, '1')
		-- The last one: a short time may be over at once, and then the key goes.
		local answer = redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', keep_ms))
		if type(answer) == 'table' then
			-- Refused (ACL): no lock without a time to live.
			redis.call('HDEL', KEYS[1], nobody)
			return answer
		end
	elseif redis.call('HEXISTS', KEYS[1], nobody) == 1 then
		redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
	else
		return false
	end
	return true
end
