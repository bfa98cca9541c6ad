-- Changes how a candidate stands while it waits or leads; or says of all who do that they are about
-- to end.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; asked; stood: which change of how the leader stands; retired: the
--            last requests that all make way, and how many did, of the newest RETIRERS clients
--   KEYS[3]  lockkeeper_candidates:{key}: those that wait, a hash, see order.lua
--   KEYS[4]  lockkeeper_order:{key}: their order, a sorted set
--   ARGV[1]  field: the owner's; "*", the client and the number of the request, for all
--   ARGV[2] … ARGV[4]  rank: its priority; how it stands; and which change that is
--   ARGV[5]  channel: the candidate with a field F listens on "<this>:F"
--
-- Sent by lk__election_standing(target, field).
-- Answers: how many were changed; 0: it neither waits nor leads.
-- Safe to send twice: a copy changes nothing.
-- Replicas must have what it did.
local lock, record, waiters, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own, own_priority, own_standing, channels = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local own_version = tonumber(ARGV[4])
local KEEP_MS, RETIRERS = '2592000000', 8

--include "time.lua" gives now
local now_ms = math.floor(now / 1000)

--include "order.lua" gives place_of, place_read, place_next, place_drop, listens, asking, LEAVING

-- 1: it waits, and stands so from now on, unless a later change is there.
local function waits_so(field, how, priority, version)
	local was = place_read(field)
	if not was then
		return 0
	elseif version and was.version >= version then
		return 1
	end
	local place = place_of(field, priority or was.priority, how, was.since)
	local text = redis.call('HGET', waiters, field)
	local rest = string.match(text, '^%S+ %S+ %S+ %S+ %S+ (.*)$')
	redis.call('HSET', waiters, field, string.format('%.0f %s %s %.0f %.0f ',
		place.priority, how, was.since, was.till, version or was.version) .. rest)
	redis.call('ZADD', order, place.score, place.member)
	return 1
end

-- 1: that one leads; it hears of it, unless a later change is there.
local function leads_so(field, how, version)
	if not field or redis.call('HEXISTS', lock, field) == 0 then
		return 0
	elseif version and (tonumber(redis.call('HGET', record, 'stood')) or 0) >= version then
		return 1
	elseif version then
		redis.call('HSET', record, 'stood', ARGV[4])
	end
	local asked = redis.call('HGET', record, 'asked') or ''
	if how == LEAVING then
		redis.call('HSET', record, 'asked', asking())
	elseif asked == 'leaving' or asked == 'leave' then
		redis.call('HSET', record, 'asked', '')
	end
	redis.pcall('PUBLISH', record, 'asked')
	return 1
end

local leader = redis.call('HGET', record, 'id')
if string.sub(own, 1, 1) ~= '*' then
	local changed = waits_so(own, own_standing, tonumber(own_priority), own_version)
	if changed == 0 and leader == own then
		return leads_so(own, own_standing, own_version)
	elseif changed == 1 and own_standing ~= LEAVING and leader
		and redis.call('HGET', record, 'asked') == 'leaving' then
		leads_so(leader, LEAVING)
	end
	return changed
end
local client, number = string.match(own, '^(.*):(%d+)$')
local retired = {}
for id, newest, count in string.gmatch(redis.call('HGET', record, 'retired') or '',
	'(%S+):(%d+) (%d+)') do
	if id ~= client then
		retired[#retired + 1] = id .. ':' .. newest .. ' ' .. count
	elseif tonumber(newest) >= tonumber(number) then
		return tonumber(count)
	end
end
local changed = 0
local all = redis.call('HGETALL', waiters)
for i = 1, #all, 2 do
	changed = changed + waits_so(all[i], LEAVING)
end
changed = changed + leads_so(leader, LEAVING)
if changed > 0 then
	retired[#retired + 1] = own .. ' ' .. changed
	local first = math.max(1, #retired - RETIRERS + 1)
	redis.call('HSET', record, 'retired', table.concat(retired, ' ', first))
	redis.call('PEXPIRE', record, KEEP_MS)
end
return changed
