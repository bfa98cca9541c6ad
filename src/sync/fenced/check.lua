-- Lets the bearer of a fence token at a key, and writes there, unless a newer one has been seen.
--
--   KEYS[1]  hash { token → the newest token seen, value → what was written with it }
--   ARGV[1]  token, 1 … 2^53 - 1
--   ARGV[2]  time to live of the key from now on, ms; 0: as it is
--   ARGV[3] … the value; none: the token is only checked and noted
--
-- Answers: status "NEWEST" done · status "STALE <token>": a newer one has been seen, nothing was
-- done. Refused: a key that is something else (WRONGTYPE).
-- Safe to send twice: the same token passes again.
local token, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
if not string.find(ARGV[1], '^[1-9]%d*$') or token > 9007199254740991 then
	return redis.error_reply('LOCKKEEPER bad fence token')
end
if not string.find(ARGV[2], '^%d+$') or ttl > 31536000000000 then
	return redis.error_reply('LOCKKEEPER bad time to live')
end
local text = redis.call('HGET', KEYS[1], 'token')
local newest = text and string.find(text, '^%d+$') and tonumber(text)
if not newest and redis.call('EXISTS', KEYS[1]) == 1 then
	return redis.error_reply('WRONGTYPE the key holds no fence token')
end
if newest and newest > token then
	return redis.status_reply('STALE ' .. text)
end
local words = {'HSET', KEYS[1], 'token', ARGV[1]}
if ARGV[3] then
	words[5], words[6] = 'value', ARGV[3]
end
redis.call(unpack(words))
if ttl > 0 then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.status_reply('NEWEST')
