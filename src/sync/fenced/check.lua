-- Lets the bearer of a fence token at a key, and writes there, unless a newer one has been seen.
--
--   KEYS[1]  hash { token → the newest token seen, value → what was written with it,
--            writes → "<client> <number> …", the last 16 clients that wrote, the latest first }
--   ARGV[1]  token, 1 … 2^53 - 1
--   ARGV[2]  time to live of the key from now on, ms; 0: as it is, and so is a longer one that came
--            with the same token
--   ARGV[3] … the value; none: the token is only checked and noted
--   ARGV[4] … the client that writes it
--   ARGV[5] … the number of this write, which rises with each of that client
--
-- Answers: status "NEWEST" done · status "STALE <token>": a newer one has been seen, nothing was
-- done. Refused: a key that is something else (WRONGTYPE).
-- Safe to send twice: the same token passes again, and a copy overwrites no later write.
-- Replicas must have what it did.
local WRITERS_MAX = 16

local token, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
if not string.find(ARGV[1], '^[1-9]%d*$') or token > 9007199254740991 then
	return redis.error_reply('LOCKKEEPER bad fence token')
end
if not string.find(ARGV[2], '^%d+$') or ttl > 31536000000000 then
	return redis.error_reply('LOCKKEEPER bad time to live')
end
local value, client, number = ARGV[3], ARGV[4], tonumber(ARGV[5])
if value and not (number and string.find(ARGV[5], '^[1-9]%d*$')) then
	return redis.error_reply('LOCKKEEPER bad write')
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
if value then
	local last, writes = 0, {client .. ' ' .. ARGV[5]}
	local noted = redis.call('HGET', KEYS[1], 'writes') or ''
	for other, of in string.gmatch(noted, '(%S+) (%d+)') do
		if other == client then
			last = tonumber(of)
		elseif #writes < WRITERS_MAX then
			table.insert(writes, other .. ' ' .. of)
		end
	end
	if number > last then
		words = {'HSET', KEYS[1], 'token', ARGV[1], 'value', value,
			'writes', table.concat(writes, ' ')}
	end
end
local extends = ttl > 0 and (newest ~= token or redis.call('PTTL', KEYS[1]) < ttl)
if extends and newest then
	-- What is refused, for want of memory or of a right, is so before anything changes.
	redis.call('HSET', KEYS[1], 'token', text)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call(unpack(words))
if extends and not newest then
	local answer = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
	if type(answer) == 'table' then
		redis.call('DEL', KEYS[1])
		return answer
	end
end
return redis.status_reply('NEWEST')
