-- Those who wait to lead, in the order in which they would.
--
--   waiters  a hash: owner field →
--            "<priority> <standing> <since> <until> <version> <host> <value>"; since: server time
--            in us; until: it counts as alive, server time in ms; version: which change of how it
--            stands that is
--   order    a sorted set of "<since> <field>"; a lower score leads sooner
--   record   asked: what the leader was asked to do; "leaving": it hands over to the first one
--            that is not leaving itself; "leave": such a one waits, and listens
--   channels the candidate with a field F listens on "<this>:F"
--
-- Needs: waiters, order, channels, now_ms
-- Gives: place_of, place_read, place_next, place_drop, listens, asking, LEAVING
local LEAVING = '2' -- how one stands that is about to end

local function place_of(field, priority, standing, since, till, version)
	return {field = field, priority = priority, standing = standing, since = since, till = till,
		version = version, score = tonumber(standing) * 10000 - priority,
		member = since .. ' ' .. field}
end

local function place_read(field)
	local stands = redis.call('HGET', waiters, field) or ''
	local priority, standing, since, till, version =
		string.match(stands, '^(%-?%d+) (%d) (%d+) (%d+) (%d+) ')
	return priority and place_of(field, tonumber(priority), standing, since, tonumber(till),
		tonumber(version))
end

local function place_drop(field, member)
	redis.call('HDEL', waiters, field)
	redis.call('ZREM', order, member)
end

-- The first one that is alive, at or behind that place in the order, and its place; the dead go.
local function place_next(at)
	while true do
		local member = redis.call('ZRANGE', order, at, at)[1]
		if not member then
			return nil, at
		end
		local field = string.match(member, ' (.*)$') or member
		local candidate = place_read(field)
		if candidate and candidate.member == member and candidate.till >= now_ms then
			return candidate, at
		elseif candidate and candidate.member ~= member then
			redis.call('ZREM', order, member)
		else
			place_drop(field, member)
		end
	end
end

-- Whether it listens. Where the user may not ask, the message alone has to tell.
local function listens(field)
	local subscribed = redis.pcall('PUBSUB', 'NUMSUB', channels .. ':' .. field)
	return subscribed.err ~= nil or subscribed[2] > 0
end

-- What a leader is asked that is about to end.
local function asking()
	local each, index = place_next(0)
	while each and each.standing ~= LEAVING do
		if listens(each.field) then
			return 'leave'
		end
		each, index = place_next(index + 1)
	end
	return 'leaving'
end
