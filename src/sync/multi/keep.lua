-- Gives several locks up, each if its owner has it, and keeps them from others for a time: under
-- fields that are nobody's. Their waiters are woken once, to see until when.
--
--   KEYS[1] … KEYS[n]     key: the locks' hashes
--   ARGV[1]               keep_ms: for how long, ms
--   ARGV[2] … ARGV[3n+1]  field, channel, kept: for each; the last is that of nobody
--
-- Sent by lk__multi_keep_request(keys, count, keep_ms).
-- Answers: an array, for each the subscribers that heard of it, or -1 (not the owner, or
-- the key is something else) · an error, if the server refused one of them; the others are kept.
-- Works under memory pressure: the first write is a HDEL. Safe to send twice: a repetition finds
-- nobody's fields, and writes what is left of the time.
-- Replicas must have what it did.
--include "keep.lua" gives keep_ms
local answers, refused = {}, nil
local function has(found)
	if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE') then
		refused = found
	end
	return found == 1
end
for i = 1, #KEYS do
	local own, channel, nobody = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
	local held = has(redis.pcall('HEXISTS', KEYS[i], own))
	local kept = has(redis.pcall('HEXISTS', KEYS[i], nobody))
	answers[i] = -1
	if held then
		redis.call('HDEL', KEYS[i], own)
		redis.call('HSET', KEYS[i], nobody, '1')
		-- The last one: a short time may be over at once, and then the key goes.
		local answer = redis.pcall('PEXPIRE', KEYS[i], string.format('%.0f', keep_ms))
		if type(answer) == 'table' then
			-- Refused (ACL): no lock without a time to live.
			redis.call('HDEL', KEYS[i], nobody)
			refused = answer
		end
	elseif kept then
		redis.call('PEXPIRE', KEYS[i], redis.call('PTTL', KEYS[i]))
	end
	if held or kept then
		local listeners = redis.pcall('PUBLISH', channel, '0')
		answers[i] = type(listeners) == 'number' and listeners or 0
	end
end
return refused or answers
