-- Sets the count of free permits, if there is none.
--
--   KEYS[1]  the count of free permits
--   KEYS[2]  the record of this request
--   KEYS[3]  the record of an earlier one whose end its client knows: it can go
--   ARGV[1]  deadline of this request, server time in us
--   ARGV[2]  channel
--   ARGV[3]  how many
--   ARGV[4]  time to live, ms; 0: none
--
-- Answers: integer 1 set, 0 there is one already · status "LATE <server us>".
-- Safe to send twice: a repetition finds its record.
local count, ttl, deadline = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[1])
if not string.find(ARGV[3], '^%d+$') or count > 2147483647 or not deadline or
	not string.find(ARGV[4], '^%d+$') or ttl > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad number of permits, time to live or deadline')
end
if redis.call('EXISTS', KEYS[2]) == 1 then
	return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
	if kind ~= 'string' or not string.find(redis.call('GET', KEYS[1]), '^-?%d+$') then
		return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a semaphore')
	end
	return 0
end
redis.call('SET', KEYS[2], '1', 'PX', string.format('%.0f', (deadline - now) / 1000 + 60000))
if ttl > 0 then
	redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
else
	redis.call('SET', KEYS[1], ARGV[3])
end
if KEYS[3] ~= KEYS[2] then
	redis.call('DEL', KEYS[3])
end
if count > 0 then
	redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return 1
