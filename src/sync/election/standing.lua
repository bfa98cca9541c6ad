-- Changes how a candidate stands while it waits or leads; or says of all who do that they are about
-- to end.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; asked
--   KEYS[3]  lockkeeper_candidates:{key}: those that wait, a hash, see order.lua
--   KEYS[4]  lockkeeper_order:{key}: their order, a sorted set
--   ARGV[1]  field: the owner's; "*" for all
--   ARGV[2] … ARGV[3]  rank: its priority, and how it stands
--   ARGV[4]  lockkeeper_election:{key}: channel of those who observe
--   ARGV[5]  channel: the candidate with a field F listens on "<this>:F"
--
-- Sent by lk__election_standing(target, field).
-- Answers: how many were changed; 0: it neither waits nor leads.
-- Safe to send twice: a copy changes the same.
-- Replicas must have what it did.
local lock, record, waiters, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own, own_priority, own_standing, channels = ARGV[1], ARGV[2], ARGV[3], ARGV[5]

--include "time.lua" gives now
local now_ms = math.floor(now / 1000)

--include "order.lua" gives place_of, place_read, place_next, place_drop, listens, asking, LEAVING

-- 1: it waits, and stands so from now on.
local function waits_so(field, how, rank)
	local was = place_read(field)
	if not was then
		return 0
	end
	local text = redis.call('HGET', waiters, field)
	rank = rank or string.match(text, '^%-?%d+')
	local place = place_of(field, tonumber(rank), how, was.since, was.till)
	local rest = string.match(text, '^%-?%d+ %d(.*)$')
	redis.call('HSET', waiters, field, rank .. ' ' .. how .. rest)
	redis.call('ZADD', order, place.score, place.member)
	return 1
end

-- 1: that one leads; it hears of it.
local function leads_so(field, how)
	if not field or redis.call('HEXISTS', lock, field) == 0 then
		return 0
	end
	local asked = redis.call('HGET', record, 'asked') or ''
	if how == LEAVING then
		redis.call('HSET', record, 'asked', asking())
	elseif asked == 'leaving' or asked == 'leave' then
		redis.call('HSET', record, 'asked', '')
	end
	redis.pcall('PUBLISH', ARGV[4], 'asked')
	return 1
end

local leader = redis.call('HGET', record, 'id')
if own ~= '*' then
	local changed = waits_so(own, own_standing, own_priority)
	if changed == 0 and leader == own then
		return leads_so(own, own_standing)
	elseif changed == 1 and own_standing ~= LEAVING and leader
		and redis.call('HGET', record, 'asked') == 'leaving' then
		leads_so(leader, LEAVING)
	end
	return changed
end
local changed = 0
local all = redis.call('HGETALL', waiters)
for i = 1, #all, 2 do
	changed = changed + waits_so(all[i], LEAVING)
end
return changed + leads_so(leader, LEAVING)
