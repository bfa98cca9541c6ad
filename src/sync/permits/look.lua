-- How many permits are free and in use, and how long one of them lasts. Changes nothing: what
-- has expired counts as free.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  in_use: the permits
--   ARGV[1]  id_or_none: an id, or empty
--
-- Sent by lk__permits_look(target, id).
-- Answers: free, in use, and for the id: ms, -1 without an end, -2 not in use.
-- Refused: a key that is something else than a count (WRONGTYPE).
--include "time.lua" gives now
now = string.format('%.0f', math.floor(now / 1000))
local kind = redis.call('TYPE', KEYS[1]).ok
local count = kind == 'string' and redis.call('GETRANGE', KEYS[1], '0', '20')
if kind ~= 'none' and not (count and string.find(count, '^-?%d+$')) then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a permit semaphore')
end
local free = tonumber(count) or 0
if count then
	free = free + redis.call('ZCOUNT', KEYS[2], '-inf', now)
end
local expiry, left = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0), -2
if expiry >= 922337203685477 then
	left = -1
elseif expiry > tonumber(now) then
	left = expiry - tonumber(now)
end
return {free, redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf'), left}
