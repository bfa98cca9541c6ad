-- Asks those who hold a lock to give it up: leaves the request beside the lock, and tells those who
-- listen. Of every kind of lock that is a hash or a string.
--
--   KEYS[1]  key: the lock
--   KEYS[2]  lockkeeper_ask:{key}: the request
--   ARGV[1]  lockkeeper_ask:{key}: the channel of requests for this lock
--   ARGV[2]  id: what makes this request another than all before
--   ARGV[3]  reason: for the holder
--   ARGV[4]  ttl_ms: how long the request can be found
--
-- Sent by lk__ask_send(target, id, reason, ttl_ms).
-- Answers: two integers: how many fields hold it, 0 for none, and how many listen. A key of another
-- type is left alone (WRONGTYPE).
-- Safe to send twice: a copy is for those whom the first one found, and not for the next holder. So
-- a request keeps the ids of the eight before it, which may still come again.
-- The request names the fields that it is for, since another may have the lock when it is found.
-- Of a lock with very many fields, and of a long string, it is for all ("*").
--
--   <id>\n<field>\n…\n\n<reason>\n<an older id>\n…
local most = 1000
local older = 8
local function tell(count)
	local listeners = redis.pcall('PUBLISH', ARGV[1], ARGV[2])
	return {count, type(listeners) == 'number' and listeners or 0}
end

local before = redis.pcall('GET', KEYS[2])
local last, named, ids =
	string.match(type(before) == 'string' and before or '', '^([^\n]*\n)(.-)\n\n[^\n]*\n(.*)$')
local known = last and last .. ids or ''
if string.find('\n' .. known, '\n' .. ARGV[2] .. '\n', 1, true) then
	return tell(select(2, string.gsub(named, '[^\n]+', '')))
end
local kind = redis.call('TYPE', KEYS[1]).ok
local fields = {}
if kind == 'none' then
	return {0, 0}
elseif kind == 'string' then
	local token = redis.call('GETRANGE', KEYS[1], '0', most)
	fields[1] = #token > most and '*' or token
elseif kind ~= 'hash' then
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a lock')
elseif redis.call('HLEN', KEYS[1]) > most then
	fields[1] = '*'
else
	local all = redis.call('HGETALL', KEYS[1])
	for i = 1, #all, 2 do
		if all[i] ~= 'mode' then
			fields[#fields + 1] = string.gsub(all[i], ':write$', '')
		end
	end
end
local text = ARGV[2] .. '\n' .. table.concat(fields, '\n') .. '\n\n' .. ARGV[3] .. '\n' ..
	string.sub(known, 1, older * (#ARGV[2] + 1))
redis.call('SET', KEYS[2], text, 'PX', ARGV[4])
return tell(#fields)
