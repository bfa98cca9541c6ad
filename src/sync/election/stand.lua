-- A candidate stands for election, resigns, or hands its leadership to another candidate.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1; its time to live is the lease
--   KEYS[2]  lockkeeper_fence:{key}: the newest term, kept for 30 days
--   KEYS[3]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; count: of the elections that it has seen; asked: what the leader
--            was asked to do (ask.lua)
--   KEYS[4]  lockkeeper_candidates:{key}: those that wait, a hash: owner field → "<priority>
--            <standing> <since> <until> <lease> <host> <value>"; since: server
--            time in us, until: it counts as alive, ms
--   ARGV[1]  what: "acquire", "try" (without a place among the candidates), "release", "transfer"
--            or "force"
--   ARGV[2]  field: owner field; empty for "force"
--   ARGV[3]  channel: the candidate with a field F listens on "<this>:F"
--   ARGV[4]  lockkeeper_election:{key}: channel of those who observe
--   ARGV[5] … ARGV[11]  candidate: of transfer, the owner field of who is to lead; of acquire and
--            try, the lease, ms; the deadline of this request, server time in us: it must not run
--            late; how long this candidate counts as alive without a sign of it, ms; its priority,
--            a higher one is elected first; how it stands: 0 for election, 1 only where no other
--            does, 2 it leaves; its host, without a space; its value
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
local lock, record, waiters = KEYS[1], KEYS[3], KEYS[4]
local counter = KEYS[2]
local what, own, channels, observers = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local CLAIM_MS = 1000 -- for the next one to take its place
local APART_MS = 200 -- the looks of those who wait at the end of a lease, by their rank,
local APART_MAX = 20 -- up to so many
local KEEP_MS = '2592000000'
local FEW = 4

--include "time.lua" gives now
local now_ms = math.floor(now / 1000)

local function tell(field)
	local heard = redis.pcall('PUBLISH', channels .. ':' .. field, 'look')
	return type(heard) == 'number' and heard or 0
end

local function tell_observers(what_is)
	redis.pcall('PUBLISH', observers, what_is)
end

-- Whether it listens. Where the user may not ask, the message alone has to tell.
local function listens(field)
	local answer = redis.pcall('PUBSUB', 'NUMSUB', channels .. ':' .. field)
	return answer.err ~= nil or answer[2] > 0
end

local function before(left, right)
	if left.standing ~= right.standing then
		return left.standing < right.standing
	elseif left.priority ~= right.priority then
		return left.priority > right.priority
	elseif left.since ~= right.since then
		return left.since < right.since
	end
	return left.field < right.field
end

local function candidate_read(field, text)
	local priority, standing, since, till, lease =
		string.match(text, '^(%-?%d+) (%d) (%d+) (%d+) (%d+) ')
	return priority and {field = field, priority = tonumber(priority), standing = standing,
		since = tonumber(since), till = tonumber(till), lease = lease}
end

-- Those who wait, in no order; `self` among them, who asks. The dead are dropped.
local function candidates(self)
	local found, all = {self}, redis.call('HGETALL', waiters)
	for i = 1, #all, 2 do
		local other = candidate_read(all[i], all[i + 1])
		if not other or other.till < now_ms then
			redis.call('HDEL', waiters, all[i])
		elseif not self or other.field ~= self.field then
			table.insert(found, other)
		end
	end
	return found
end

local function after(left, right)
	return before(right, left)
end

-- Takes the next one out of them; nil: there is none. A few are looked for, more are sorted.
local function next_of(found)
	found.taken = (found.taken or 0) + 1
	if found.taken == FEW then
		table.sort(found, after)
	elseif found.taken < FEW then
		local last = #found
		for i = 1, last - 1 do
			if before(found[i], found[last]) then
				found[i], found[last] = found[last], found[i]
			end
		end
	end
	return table.remove(found)
end

--include "own_by.lua" gives own_by
--include "next_token.lua" gives next_token

-- Keeps the place for a candidate that listens, and tells it. How many heard of it.
local function reserve(field)
	if not listens(field) or own_by(field, CLAIM_MS) then
		return 0
	end
	local heard = tell(field)
	if heard == 0 then
		redis.call('HDEL', lock, field)
	else
		redis.call('HDEL', waiters, field)
	end
	return heard
end

-- The place is free: reserves it for the next one, if that is not who asks. How many heard of it;
-- nil: who asks may have it.
local function settle(self)
	local heard
	local found = candidates(self)
	for other in next_of, found do
		if heard and other ~= self and listens(other.field) then
			tell(other.field) -- it looks after the one before
			break
		elseif not heard and other == self then
			return nil
		elseif not heard then
			local told = reserve(other.field)
			heard = told > 0 and told or nil
		end
	end
	return heard
end

local function wrong(why)
	return redis.error_reply('WRONGTYPE the key is ' .. why)
end

-- Why the key is not one of ours; nil: it is. Who may not ask waits.
local function other_kind()
	local some = redis.pcall('HRANDFIELD', lock)
	if type(some) == 'table' and string.find(some.err, 'WRONGTYPE') then
		return wrong('a ' .. redis.call('TYPE', lock).ok .. ', not an election')
	elseif redis.pcall('HEXISTS', lock, 'mode') == 1 then
		return wrong('a read/write lock, not an election')
	elseif type(some) == 'string' and not string.find(some, ':%-?%d+$') then
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
	local count = (tonumber(redis.call('HGET', record, 'count')) or 0) + 1
	local writes = {
		{'SET', KEYS[2], term, 'PX', KEEP_MS},
		{'HSET', record, 'id', own, 'term', term, 'since', string.format('%.0f', now),
			'host', ARGV[10], 'value', ARGV[11], 'count',
			string.format('%.0f', count), 'asked', ''},
		{'PEXPIRE', record, KEEP_MS},
		{'HDEL', waiters, own},
		{'HSET', lock, own, 1},
		{'PEXPIRE', lock, self.lease},
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

-- A place among the candidates; one that has it shows that it is alive.
local function queue_up(self)
	local till = now_ms + tonumber(ARGV[7])
	redis.call('HSET', waiters, own, string.format('%d %s %.0f %.0f %s ', self.priority,
		self.standing, self.since, till, self.lease) .. ARGV[10] .. ' ' .. ARGV[11])
	if redis.call('PTTL', waiters) < tonumber(ARGV[7]) then
		local answer = redis.pcall('PEXPIRE', waiters, ARGV[7])
		if type(answer) == 'table' then
			redis.call('HDEL', waiters, own)
			return answer
		end
	end
end

-- When it is worth to look again, if no message comes: the next one at the end of the lease, the
-- others a little later, by their rank.
local function look_again_ms(self)
	local rank = 0
	for _, other in ipairs(candidates(self)) do
		rank = rank + (before(other, self) and 1 or 0)
	end
	local left = redis.call('PTTL', lock)
	return left < 0 and left or left + math.min(rank, APART_MAX) * APART_MS
end

local function acquire()
	local was = candidate_read(own, redis.call('HGET', waiters, own) or '')
	local self = {field = own, priority = tonumber(ARGV[8]), standing = ARGV[9],
		since = was and was.since or now, lease = ARGV[5]}
	local has = redis.pcall('HEXISTS', lock, own)
	if has == 1 and redis.call('HGET', record, 'id') == own then
		local lasts = math.max(tonumber(self.lease), redis.call('PTTL', lock))
		redis.call('PEXPIRE', lock, string.format('%.0f', lasts))
		return redis.status_reply('TOKEN ' .. redis.call('HGET', record, 'term'))
	elseif has == 1 then
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
	elseif redis.call('HDEL', waiters, own) == 1 then
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
	local text = to ~= own and redis.call('HGET', waiters, to)
	local other = text and candidate_read(to, text)
	if not other or other.till < now_ms or not listens(to) then
		tell(own)
		return 0
	end
	local left = redis.call('PTTL', lock)
	redis.call('HDEL', lock, own)
	if reserve(to) == 0 then
		own_by(own, left)
		return 0
	end
	tell_observers('vacant')
	local found = candidates()
	for next in next_of, found do
		if listens(next.field) then
			tell(next.field)
			break
		end
	end
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
	return transfer(ARGV[5])
elseif what == 'force' then
	return force()
end
local lease, deadline = tonumber(ARGV[5]), tonumber(ARGV[6])
if not string.find(ARGV[5], '^%d+$') or lease < 1 or lease > 63072000000 or not deadline
	or not string.find(ARGV[7], '^[1-9]%d*$') or not string.find(ARGV[8], '^%-?%d+$')
	or not string.find(ARGV[9], '^[012]$') or not string.find(ARGV[10], '^%S+$') then
	return redis.error_reply('LOCKKEEPER bad lease, deadline or candidate')
end
--include "late.lua"
return acquire()
