-- A candidate stands for election, resigns, or hands its leadership to another candidate.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1; its time to live is the lease
--   KEYS[2]  lockkeeper_fence:{key}: the newest term, kept for 30 days
--   KEYS[3]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; version: of the value (proclaim.lua); stood: which change of how
--            the leader stands (standing.lua); previous: the term before; count: of the elections
--            that it has seen; asked: what the leader was asked to do (ask.lua, order.lua);
--            leaving: a candidate that was about to end when the place was reserved for it, and
--            which change of how it stands that was. Its name is the channel of those who
--            observe, too
--   KEYS[4]  lockkeeper_candidates:{key}: those that wait, a hash, see order.lua
--   KEYS[5]  lockkeeper_order:{key}: their order, a sorted set
--   ARGV[1]  what: "acquire", "try" (without a place among the candidates), "release", "transfer"
--            or "force"
--   ARGV[2]  field: owner field; empty for "force"
--   ARGV[3]  channel: the candidate with a field F listens on "<this>:F"
--   ARGV[4] … ARGV[11]  candidate: of transfer, the owner field of who is to lead; of acquire and
--            try, the lease, ms; the deadline of this request, server time in us: it must not run
--            late; how long this candidate counts as alive without a sign of it, ms; its priority,
--            a higher one is elected first; how it stands: 0 for election, 1 only where no other
--            does, 2 it leaves; which change of these two that is; its host, without a space; its
--            value
--
-- Sent by lk__election_call(target, what, field, wanted, to).
-- Answers to acquire and try: status "TOKEN <term>" it leads · integer: not yet; ms until it is
-- worth to look again · status "LATE <server us>". To release: nil, it neither leads nor waits ·
-- integer: given up, so many heard of it. To transfer: 1 done · 0 that one does not wait, and the
-- leader still leads · nil, it does not lead. To force: 1 freed, 0 there was none.
-- Refused: a key that is something else than a lock (WRONGTYPE).
--
-- A release reserves the place for the next candidate, CLAIM_MS long, and tells it and the one
-- behind to look. The next one's try then makes it leader, with a term of its own; if it is
-- stopped or dead, the one behind it looks when the reservation has passed. A candidate leaves
-- the candidates with its reservation, so one that is stopped is not reserved for again before it
-- has come back.
--
-- Safe to send twice: a repetition finds its field as leader, and answers the term that it was
-- elected with. A release works under memory pressure: its first write is a HDEL.
-- Replicas must have what it grants.
local lock, record, waiters, order = KEYS[1], KEYS[3], KEYS[4], KEYS[5]
local counter = KEYS[2]
local what, own, channels = ARGV[1], ARGV[2], ARGV[3]

local CLAIM_MS = 1000 -- for the next one to take its place
local APART_MS = 200 -- the looks of those who wait at the end of a lease, by their rank,
local APART_MAX = 20 -- up to so many
local KEEP_MS = '2592000000'

--include "time.lua" gives now
local now_ms = math.floor(now / 1000)

local function tell(field)
	local heard = redis.pcall('PUBLISH', channels .. ':' .. field, 'look')
	return type(heard) == 'number' and heard or 0
end

local function tell_observers(what_is)
	redis.pcall('PUBLISH', record, what_is)
end

--include "order.lua" gives place_of, place_read, place_next, place_drop, listens, asking, LEAVING

local function before(left, right)
	if left.score ~= right.score then
		return left.score < right.score
	end
	return left.member < right.member
end

--include "own_by.lua" gives own_by
--include "next_token.lua" gives next_token

-- Keeps the place for a candidate that listens, and tells it. How many heard of it.
local function reserve(other)
	if not listens(other.field) or own_by(other.field, CLAIM_MS) then
		return 0
	end
	local heard = tell(other.field)
	if heard == 0 then
		redis.call('HDEL', lock, other.field)
		return 0
	end
	place_drop(other.field, other.member)
	if other.standing == LEAVING then
		redis.call('HSET', record, 'leaving', string.format('%s %.0f', other.field,
			other.version))
	end
	return heard
end

-- The first one from that place of the order on which hears it is told to look after the one
-- before.
local function tell_one(at, self)
	local other
	repeat
		other, at = place_next(at)
		if other and (not self or other.field ~= self.field) and listens(other.field) then
			tell(other.field)
			return
		end
		at = at + 1
	until not other
end

-- The place is free: reserves it for the next one, if that is not who asks. How many heard of it;
-- nil: who asks may have it.
local function settle(self)
	local other, at = place_next(0)
	while other or self do
		if self and (not other or (other.field ~= self.field and before(self, other))) then
			return nil
		elseif not self or other.field ~= self.field then
			local heard = reserve(other)
			if heard > 0 then
				tell_one(at, self)
				return heard
			end
		end
		other, at = place_next(at + 1)
	end
	return nil
end

local function wrong(why)
	return redis.error_reply('WRONGTYPE the key is ' .. why)
end

--include "no_lock.lua" gives is_no_lock

-- Why the key is not one of ours; nil: it is.
local function other_kind()
	local mode = redis.pcall('HEXISTS', lock, 'mode')
	if type(mode) == 'table' and string.find(mode.err, 'WRONGTYPE') then
		return wrong('a ' .. redis.call('TYPE', lock).ok .. ', not an election')
	elseif mode == 1 then
		return wrong('a read/write lock, not an election')
	elseif is_no_lock() then
		return wrong('a hash that is not an election')
	end
end

-- Who asks leads from now on.
local function lead(self)
	local term, refused = next_token()
	if not term then
		redis.call('HDEL', lock, own)
		return refused
	end
	local asked = self.standing == LEAVING and asking() or ''
	local count = (tonumber(redis.call('HGET', record, 'count')) or 0) + 1
	local previous = redis.call('HGET', record, 'term') or '0'
	local writes = {
		{'SET', KEYS[2], term, 'PX', KEEP_MS},
		{'HSET', record, 'id', own, 'term', term, 'since', string.format('%.0f', now),
			'host', ARGV[10], 'value', ARGV[11], 'version', 0, 'stood', self.version,
			'previous', previous, 'count', string.format('%.0f', count), 'asked',
			asked},
		{'PEXPIRE', record, KEEP_MS},
		{'HDEL', waiters, own},
		{'ZREM', order, self.member},
		{'HSET', lock, own, 1},
		{'PEXPIRE', lock, ARGV[4]},
	}
	for _, write in ipairs(writes) do
		local answer = redis.pcall(unpack(write))
		if type(answer) == 'table' and answer.err then
			-- A refusal (ACL, memory) must not leave a leader without a time to live.
			redis.call('HDEL', lock, own)
			return answer
		end
	end
	tell_observers(term)
	return redis.status_reply('TOKEN ' .. term)
end

-- A place among the candidates; one that has it shows that it is alive. One of the others is looked
-- at each time: the dead do not stay.
local function queue_up(self)
	local until_ms = now_ms + tonumber(ARGV[6])
	redis.call('HSET', waiters, own, string.format('%d %s %s %.0f %.0f ', self.priority,
		self.standing, self.since, until_ms, self.version) .. ARGV[10] .. ' ' .. ARGV[11])
	redis.call('ZADD', order, self.score, self.member)
	local answer = redis.call('PTTL', waiters) < tonumber(ARGV[6])
		and redis.pcall('PEXPIRE', waiters, ARGV[6])
	if type(answer) ~= 'table' and redis.call('PTTL', order) < tonumber(ARGV[6]) then
		answer = redis.pcall('PEXPIRE', order, ARGV[6])
	end
	if type(answer) == 'table' then
		place_drop(own, self.member)
		return answer
	end
	local some = redis.pcall('HRANDFIELD', waiters)
	local other = type(some) == 'string' and place_read(some)
	if other and other.till < now_ms then
		place_drop(some, other.member)
	end
	if self.standing ~= LEAVING and redis.call('HGET', record, 'asked') == 'leaving'
		and listens(own) then
		redis.call('HSET', record, 'asked', 'leave')
		tell_observers('asked')
	end
end

-- When it is worth to look again, if no message comes: the next one at the end of the lease, the
-- others a little later, by their rank. A place that is only reserved may have a leader soon, whose
-- lease ends before the reservation would.
local function look_again_ms(self)
	local rank = APART_MAX
	for i, member in ipairs(redis.call('ZRANGE', order, '0', APART_MAX - 1)) do
		rank = member == self.member and i - 1 or rank
	end
	local left = redis.call('PTTL', lock)
	return left < 0 and left or math.min(left, tonumber(ARGV[4])) + rank * APART_MS
end

-- Who asks, as it stands; one of whom it was said that it is about to end stays so, until it says
-- otherwise itself.
local function self_of(was)
	local change = tonumber(ARGV[9])
	if was and was.version >= change then
		return was
	end
	local leaving, at_change = string.match(redis.call('HGET', record, 'leaving') or '',
		'^(%S+) (%d+)$')
	local leaves = not was and leaving == own and tonumber(at_change) >= change
	return place_of(own, tonumber(ARGV[7]), leaves and LEAVING or ARGV[8],
		was and was.since or string.format('%016.0f', now), 0, change)
end

local function acquire()
	local has = redis.pcall('HEXISTS', lock, own)
	if has == 1 and redis.call('HGET', record, 'id') == own then
		local lasts = math.max(tonumber(ARGV[4]), redis.call('PTTL', lock))
		redis.call('PEXPIRE', lock, string.format('%.0f', lasts))
		return redis.status_reply('TOKEN ' .. redis.call('HGET', record, 'term'))
	end
	local was = place_read(own)
	local self = self_of(was)
	if has == 1 then
		return lead(self)
	end
	local free = redis.call('EXISTS', lock) == 0
	local refused = not free and other_kind()
	if refused then
		return refused
	elseif free and not settle(self) then
		return lead(self)
	end
	if what == 'acquire' then
		refused = queue_up(self)
	end
	return refused or look_again_ms(self)
end

local function release()
	if redis.call('HDEL', lock, own) == 1 then
		tell_observers('vacant')
		return settle() or 0
	end
	local was = place_read(own)
	if was then
		local was_first = redis.call('ZRANGE', order, 0, 0)[1] == was.member
		place_drop(own, was.member)
		if was_first then
			tell_one(0) -- it looks at the end of the lease from now on
		end
		return 0
	end
	-- Written all the same: replicas then acknowledge what an earlier copy has done, too.
	tell(own)
	return false
end

local function transfer(to)
	if redis.call('HEXISTS', lock, own) == 0 then
		return false
	end
	local other = to ~= own and place_read(to)
	if not other or other.till < now_ms or not listens(to) then
		tell(own)
		return 0
	end
	local left = redis.call('PTTL', lock)
	redis.call('HDEL', lock, own)
	if reserve(other) == 0 then
		own_by(own, left)
		return 0
	end
	tell_observers('vacant')
	tell_one(0)
	return 1
end

local function force()
	local refused = other_kind()
	if refused then
		return refused
	end
	local freed = redis.call('DEL', lock)
	tell_observers('vacant')
	settle()
	return freed
end

if what == 'release' then
	return release()
elseif what == 'transfer' then
	return transfer(ARGV[4])
elseif what == 'force' then
	return force()
end
local lease, deadline = tonumber(ARGV[4]), tonumber(ARGV[5])
if not string.find(ARGV[4], '^%d+$') or lease < 1 or lease > 63072000000 or not deadline
	or not string.find(ARGV[6], '^[1-9]%d*$') or not string.find(ARGV[7], '^%-?%d+$')
	or not string.find(ARGV[8], '^[012]$') or not string.find(ARGV[9], '^%d+$')
	or not string.find(ARGV[10], '^%S+$') then
	return redis.error_reply('LOCKKEEPER bad lease, deadline or candidate')
end
--include "late.lua"
return acquire()
