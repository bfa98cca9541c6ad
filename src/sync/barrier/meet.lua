-- A party comes to a barrier, enters it, leaves it, or gives its place up.
--
--   KEYS[1]  key: the barrier, a hash: "parties" → how many meet; and for each of them
--            id → "<state> <until> <number> <lease> <deadline>", see below
--   KEYS[2]  lockkeeper_fence:{key}: the newest generation, kept for 30 days
--   ARGV[1]  what: "await", "enter", "leave", "release", "told" or "force"
--   ARGV[2]  field: the id of the party; empty for "force"
--   ARGV[3]  channel: of those who wait
--   ARGV[4] … ARGV[7]  party: of await, enter and leave: the lease, ms; the deadline of this
--            request, server time in us: it must not run late; how many meet, or, of leave, the
--            generation that is left; 1: it takes no place where it would have to wait
--
-- Sent by lk__barrier_call(target, what, field, wanted).
-- Answers to await, enter and leave: status "TOKEN <generation>": met, or all have left · integer:
-- not yet; ms until it is to look again · status "GONE": its place ran out or was broken, and
-- others may have met without it · status "OTHERS <text>": others are here to be another number ·
-- status "LATE <server us>". To release: integer: 0 its place is given up; else the generation that
-- it was counted in: it stays met, or has left now · nil, it had no place. To told: 1. To force: 1
-- broken, 0 nobody was there.
-- Refused: a key that is something else than a barrier (WRONGTYPE).
--
-- The states of a party, by its id, which is that of one wait:
--   await, enter   it waits, and is counted while the server's time is before `until` (ms);
--                  `number`: since when it waits, us
--   met            it was let through; `number`: the generation
--   inside         it has entered, and is counted as inside until `until`, which a renewal moves
--   left           it was inside, and is not to come again
--   leave          it has left, and waits, under another id, until the others have
--   gone           it was not counted, and is not to come again: a copy of a request that is still
--                  under way is refused
-- The records "met", "left" and "gone" end at `until`, places an hour later.
--
-- Safe to send twice: a repetition finds its id, and is told the generation that it met in. A
-- release works under memory pressure: its first write is a HDEL.
-- Replicas must have what it did.
local barrier, counter = KEYS[1], KEYS[2]
local what, own, channel = ARGV[1], ARGV[2], ARGV[3]
local COPIES_MS = 60000 -- for a request that was under way when its party gave up: a command limit
local RECORD_MS = 3600000 -- for a party that was stopped to learn what became of it
local COMES = {await = true, enter = true}
local RECORDS = {met = true, left = true, gone = true}

--include "time.lua" gives now
--include "next_token.lua" gives next_token
local now_ms = math.floor(now / 1000)

local function tell()
	redis.pcall('PUBLISH', channel, 'look')
end

local function party_read(id, text)
	local state, till, number, lease, deadline =
		string.match(text or '', '^(%l+) (%d+) (%d+) (%d+) (%d+)$')
	return state and {id = id, state = state, till = tonumber(till), number = number,
		lease = tonumber(lease), deadline = tonumber(deadline)}
end

local function party_text(party)
	return string.format('%s %.0f %s %.0f %.0f', party.state, party.till, party.number,
		party.lease, party.deadline)
end

-- Nil, or why the server refuses: then a new key has not stayed without a time to live.
local function write(party, count)
	redis.call('HSET', barrier, 'parties', count, party.id, party_text(party))
	local least = party.till - now_ms + (RECORDS[party.state] and 0 or RECORD_MS)
	if redis.call('PTTL', barrier) < least then
		local answer = redis.pcall('PEXPIRE', barrier, string.format('%.0f', least))
		if type(answer) == 'table' then
			redis.call('HDEL', barrier, 'parties', party.id)
			return answer
		end
	end
end

-- It is not to come again, and can learn that for an hour.
local function write_record(party, state, count)
	party.state, party.till = state, now_ms + RECORD_MS
	write(party, count)
end

-- A barrier that knows nobody any more goes.
local function tidy()
	if redis.call('HLEN', barrier) == 1 and redis.call('HEXISTS', barrier, 'parties') == 1 then
		redis.call('DEL', barrier)
	end
end

-- Reads how many meet here, and a list of all that the barrier knows; or nil and an error, where
-- the key is no barrier.
local function read()
	local kind = redis.call('TYPE', barrier).ok
	local records = kind == 'hash' and redis.call('HGETALL', barrier) or {}
	local said, known = kind == 'none' and '0', {}
	for i = 1, #records, 2 do
		if records[i] == 'parties' then
			said = string.match(records[i + 1], '^%d+$')
		else
			known[#known + 1] = party_read(records[i], records[i + 1])
		end
	end
	if said and #known < #records / 2 - 1 then -- a field that is nobody's
		said = nil
	end
	if not said then
		return nil, redis.error_reply('WRONGTYPE it is a ' .. kind .. ', not a barrier')
	end
	return said, known
end

-- Those that are known, by id. One that was inside and is not heard of any more is gone. What
-- nobody needs to know any more is dropped.
local function parties(said, known)
	local found = {}
	for _, party in ipairs(known) do
		local ends = party.till + (COMES[party.state] and RECORD_MS or 0)
		if ends >= now_ms then
			found[party.id] = party
		elseif party.state == 'inside' then
			write_record(party, 'left', said)
			found[party.id] = party
		else
			redis.call('HDEL', barrier, party.id)
		end
	end
	return found
end

-- Until when all of those of that generation, or of any, count as inside; nil: nobody is.
local function inside_until(all, generation)
	local first
	for _, party in pairs(all) do
		if party.state == 'inside' and (not generation or party.number == generation) then
			first = math.min(first or party.till, party.till)
		end
	end
	return first
end

local function before(left, right)
	local earlier, later = tonumber(left.number), tonumber(right.number)
	if earlier ~= later then
		return earlier < later
	end
	return left.id < right.id
end

local function token(generation)
	return redis.status_reply('TOKEN ' .. generation)
end

-- When a party that waits is to show that it is alive, or to look who is inside.
local function look_again_ms(lease, inside)
	local soon = math.max(1, math.floor(lease / 3))
	return inside and math.min(soon, math.max(1, inside - now_ms + 1)) or soon
end

-- Lets the first of those who have come through. Those whose place ran out before are gone.
local function meet(all, come, count)
	local generation, refused = next_token()
	if not generation then
		return nil, refused
	end
	redis.call('SET', KEYS[2], generation, 'PX', '2592000000')
	table.sort(come, before)
	for rank, party in ipairs(come) do
		if rank <= count then
			local enters = party.state == 'enter'
			party.state, party.number = enters and 'inside' or 'met', generation
			party.till = now_ms + (enters and party.lease or RECORD_MS)
			write(party, count)
		end
	end
	for _, party in pairs(all) do
		if COMES[party.state] and party.till < now_ms then
			write_record(party, 'gone', count)
		end
	end
	tell()
	return generation
end

local function come(said, all, lease, deadline)
	local count, once = tonumber(ARGV[6]), ARGV[7] == '1'
	local self = all[own]
	if self and (self.state == 'gone' or self.state == 'left') then
		return redis.status_reply('GONE')
	elseif self and not COMES[self.state] then
		if self.state == 'inside' and self.till < now_ms + lease then
			self.till = now_ms + lease
			write(self, said)
		end
		return token(self.number)
	end
	self = self or {id = own, number = string.format('%.0f', now)}
	self.state, self.till, self.lease, self.deadline = what, now_ms + lease, lease, deadline
	all[own] = self
	local come_now, inside = {}, inside_until(all)
	for _, party in pairs(all) do
		if COMES[party.state] and party.till >= now_ms then
			table.insert(come_now, party)
		end
	end
	if tonumber(said) ~= count and (#come_now > 1 or inside) then
		return redis.status_reply('OTHERS others are here, to be ' .. said)
	end
	local meets = #come_now >= count and not inside
	if once and (not meets or #come_now > count) then -- those who wait are before it
		return look_again_ms(lease, inside)
	end
	local refused = write(self, count)
	if refused then
		return refused
	elseif meets then
		local generation
		generation, refused = meet(all, come_now, count)
		if refused then
			return refused
		elseif not COMES[self.state] then
			return token(generation)
		end
	end
	return look_again_ms(lease, inside)
end

local function leave(said, all, lease, deadline)
	local self, inside = all[own], inside_until(all, ARGV[6])
	if self and (self.state == 'gone' or self.state == 'left') then
		return redis.status_reply('GONE')
	elseif not inside then
		-- Written in any case: replicas then acknowledge what the others have left.
		redis.call('HDEL', barrier, own)
		tidy()
		tell()
		return token(ARGV[6])
	elseif ARGV[7] ~= '1' then
		local refused = write({id = own, state = what, till = now_ms + lease,
			number = ARGV[6], lease = lease, deadline = deadline}, said)
		if refused then
			return refused
		end
	end
	return look_again_ms(lease, inside)
end

-- A copy of a request that is still under way finds no place to take: it is refused for as long as
-- one may come, whose deadline may be later than that of the last one that ran.
local function forget(self, said)
	redis.call('HDEL', barrier, own)
	self = self or {id = own, number = '0', lease = 0, deadline = 0, state = 'gone'}
	self.till = now_ms + COPIES_MS
	write(self, said)
end

local function release(said)
	local self = party_read(own, redis.call('HGET', barrier, own))
	local was = self and self.state
	if was == 'inside' then
		redis.call('HDEL', barrier, own)
		write_record(self, 'left', said)
		tell()
		return tonumber(self.number)
	elseif was == 'met' or was == 'left' then
		tell() -- written: replicas then acknowledge what an earlier request has done
		return tonumber(self.number)
	elseif self then
		self.state = 'gone'
	end
	forget(self, said)
	return was and was ~= 'gone' and 0 or false
end

-- Its client knows what became of it, and that no copy is under way.
local function told()
	redis.call('HDEL', barrier, own)
	tidy()
	return 1
end

local function force(said, known)
	local broken = 0
	redis.call('HDEL', barrier, '')
	for _, party in pairs(parties(said, known)) do
		if not RECORDS[party.state] then
			write_record(party, 'gone', said)
			broken = 1
		end
	end
	tell()
	return broken
end

if what == 'told' then
	return told()
end
local said, known = read()
if not said then
	return known
elseif what == 'release' then
	return release(said)
elseif what == 'force' then
	return force(said, known)
end
local lease, deadline = tonumber(ARGV[4]), tonumber(ARGV[5])
if not string.find(ARGV[4], '^%d+$') or lease < 1 or lease > 63072000000 or not deadline
	or not string.find(ARGV[6], '^[1-9]%d*$') or not string.find(ARGV[7], '^[01]$')
	or (what ~= 'leave' and tonumber(ARGV[6]) > 1000) then
	return redis.error_reply('LOCKKEEPER bad lease, deadline or number of parties')
end
--include "late.lua"
local all = parties(said, known)
if what == 'leave' then
	return leave(said, all, lease, deadline)
end
return come(said, all, lease, deadline)
