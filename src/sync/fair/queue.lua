-- The fair lock: takes it, gives it up or frees it, and keeps Redisson's queue.
--
--   KEYS[1]  key: the lock's hash: owner field → count
--   KEYS[2]  redisson_lock_queue:{key}: a list: owner fields that wait, the next one first
--   KEYS[3]  redisson_lock_timeout:{key}: the scores, a sorted set: until when (server time,
--            ms) a waiter counts as alive
--   KEYS[4]  lockkeeper_fair:{key}: our own waiters, a hash that Java does not know: owner field →
--            "<lease> <wait> <nonce>", ms, and behind that " <until>" of one that does not listen:
--            it counts as alive until then (server time, ms); "off" → "<what the scores are too
--            high by> <the last in the queue then>"
--   ARGV[1]  what: "acquire", "try" (without a place in the queue), "release" or "force"
--   ARGV[2]  field: owner field; empty for "force"
--   ARGV[3]  channel: the waiter with a field F listens on "<this>:F"
--   ARGV[4] … ARGV[7]  fair_try: of acquire and try, its lease, ms; how long this waiter counts as
--            alive without a sign of it, ms; the deadline of this request, server time in us: it
--            must not run late; a number in hexadecimal digits that nobody can guess
--
-- Sent by lk__fair_queue(target, what, field, wanted).
-- Answers to acquire and try: nil granted · array {ms until it is worth to look again, server time
-- in us}: not yet · status "LONGER": it has the lock, for longer than it asks, by an earlier try
-- under its field, and the lease is not shortened · status "LATE <server us>". To release: nil,
-- neither holds it nor waits for it · integer: given up, so many subscribers heard of it. To force:
-- 1 freed, 0 there was none.
-- Refused: a key that is something else than a lock (WRONGTYPE).
--
-- Messages: to one of ours "granted <server us> <nonce>": it has the lock now; the nonce is the one
-- that it has named, so that nobody else can say so; "look": try again. To one of Java's "0", as
-- its own scripts send it.
--
-- Safe to send twice: a repetition finds its field as owner, and never shortens the lease, or in
-- the queue. A release works under memory pressure: its first write is a HDEL, and the server then
-- lets the script end. A user who may not publish gives up all the same, and hands over to nobody.
-- Replicas must have what it grants.
local lock, queue, scores, ours = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local what, own, channels = ARGV[1], ARGV[2], ARGV[3]

local SILENT_MS = 3000 -- for one of ours whom no message reaches: it reconnects, or is dead
local TAKES_MS = 1000 -- for one of Java's to take the lock that it was told of
local PART = 32 -- of the queue, looked at together

--include "unfit.lua"
--include "own_by.lua" gives own_by

-- A usual pair, for which nobody waits, comes before all that it does not need is made: the server
-- has to do with it half as long. A release's first write is this one. The fields of a read/write
-- lock are left alone: it would be nobody's.
local foreign = own == 'mode' or string.sub(own, -6) == ':write'
local dropped = what == 'release' and not foreign and redis.pcall('HDEL', lock, own)
local released = dropped == 1
local front = released and redis.call('LRANGE', queue, '0', '1')
if released and not front[1] then
	return 0
end

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

if what ~= 'release' and what ~= 'force' then
	local lease, wait, deadline = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
	if not string.find(ARGV[4], '^%d+$') or lease < 1 or lease > 31536000000 or not deadline
		or not string.find(ARGV[5], '^%d+$') or wait < 1 or wait > 31536000000
		or not string.find(ARGV[7] or '', '^%x+$') then
		return redis.error_reply('LOCKKEEPER bad lease, wait, deadline or nonce')
	end
	if now_us > deadline then
		return redis.status_reply('LATE ' .. string.format('%.0f', now_us))
	end
	if redis.call('EXISTS', lock, queue) == 0 then
		return own_by(own, ARGV[4]) or false
	end
end

-- Each one's score counts on the waits of those before it: whoever is served, his wait comes off
-- the scores of all others. That is a command for each; as long as all are ours, who know better,
-- it is only noted, in a field of `ours`. Not without end, for if all of ours die, Java waits so
-- much longer: a wait for each in the queue, and a few.
local OFF, OFF_WAITS = 'off', 4

local function off_noted()
	local by, last = string.match(redis.call('HGET', ours, OFF) or '', '^(%d+) (.+)$')
	return tonumber(by) or 0, last
end

-- Void when that last one has gone without us: Java's scripts drop the dead, or all, and know
-- nothing of `ours`. Who has queued up since then has a score that nothing comes off.
local off_known
local function off()
	if not off_known then
		local by, last = off_noted()
		off_known = by
		if last and not redis.call('ZSCORE', scores, last) then
			redis.call('HDEL', ours, OFF)
			off_known = 0
		end
	end
	return off_known
end

-- What one of ours has asked for: lease, wait, nonce; and until when it may be silent, or ''. nil
-- for one of Java's.
local function asked_by(field)
	local asked = redis.call('HGET', ours, field)
	if asked then
		return string.match(asked, '^(%d+) (%d+) (%x+) ?(%d*)$')
	end
end

local function lower(field, by)
	redis.call('ZADD', scores, 'XX', 'INCR', string.format('-%.0f', by), field)
end

-- Nothing stays noted.
local function lower_all(by)
	if by > 0 then
		for _, other in ipairs(redis.call('LRANGE', queue, '0', '-1')) do
			lower(other, by)
		end
	end
	redis.call('HDEL', ours, OFF)
	off_known = 0
end

local function queue_drop(head)
	redis.call('LPOP', queue)
	redis.call('ZREM', scores, head)
	redis.call('HDEL', ours, head)
end

local function queue_clear()
	redis.call('DEL', queue, scores, ours)
	off_known = 0
end

-- The head of the queue is served; `alone`: nobody stands behind it.
local function queue_pop(head, wait, alone)
	if alone then
		return queue_clear()
	end
	queue_drop(head)
	local count = redis.call('LLEN', queue)
	local before, last = off_noted()
	local by = before + wait
	local all_ours = redis.call('HLEN', ours) - (last and 1 or 0) == count
	if all_ours and by <= (count + OFF_WAITS) * wait then
		if not last or last == head then
			last = redis.call('LINDEX', queue, '-1')
		end
		redis.call('HSET', ours, OFF, string.format('%.0f ', by) .. last)
		off_known = nil
		return
	end
	lower_all((last == head and before or off()) + wait)
end

local function tell(field, message)
	local heard = redis.pcall('PUBLISH', channels .. ':' .. field, message)
	return type(heard) == 'number' and heard or 0
end

-- How many listen to each of these fields' channels; nil where the user may not ask. A message also
-- reaches those who listen to everything, and they are nobody who waits here.
local function listeners(fields)
	local names, counts = {}, {}
	for i, field in ipairs(fields) do
		names[i] = channels .. ':' .. field
	end
	local answer = redis.pcall('PUBSUB', 'NUMSUB', unpack(names))
	if answer.err then
		return nil
	end
	for i = 1, #fields do
		counts[i] = answer[2 * i]
	end
	return counts
end

-- Where the user may not ask, the message alone has to tell.
local function listens(field)
	local counts = listeners({field})
	return not counts or counts[1] > 0
end

-- Hands the lock to the head, which is ours. How many heard of it; none: it was not handed over.
local function hand_over(head, lease, wait, nonce, alone)
	if not listens(head) or own_by(head, lease) then
		return 0
	end
	local heard = tell(head, 'granted ' .. string.format('%.0f ', now_us) .. nonce)
	if heard == 0 then
		redis.call('HDEL', lock, head)
	else
		queue_pop(head, wait, alone)
	end
	return heard
end

if released then
	local lease, wait, nonce = asked_by(front[1])
	local heard = lease and hand_over(front[1], lease, wait, nonce, not front[2]) or 0
	if heard > 0 then
		return heard
	end
end

local function score_of(field)
	local score = redis.call('ZSCORE', scores, field)
	return score and tonumber(score) - off() or nil
end

local function set_score(field, score)
	redis.call('ZADD', scores, string.format('%.0f', score + off()), field)
end

-- A waiter gives up, wherever it stands; false if it is not there.
local function queue_leave(field, wait)
	local behind = {}
	for _, other in ipairs(redis.call('LRANGE', queue, '0', '-1')) do
		if behind.found then
			table.insert(behind, other)
		end
		behind.found = behind.found or other == field
	end
	if not behind.found then
		return false
	end
	-- Those who are left may all be Java's, whose scripts leave what is noted behind.
	lower_all(off())
	for _, other in ipairs(behind) do
		lower(other, wait)
	end
	redis.call('LREM', queue, '0', field)
	redis.call('ZREM', scores, field)
	redis.call('HDEL', ours, field)
	if redis.call('EXISTS', queue) == 0 then
		queue_clear()
	end
	return true
end

-- Has one of ours look again. How many heard of it; nil: the user may not tell.
local function tell_to_look(field)
	local heard = redis.pcall('PUBLISH', channels .. ':' .. field, 'look')
	return type(heard) == 'number' and heard or nil
end

-- One of ours that does not listen.
local function note_silent(field)
	local lease, wait, nonce, silent = asked_by(field)
	if lease and silent == '' then
		redis.call('HSET', ours, field, lease .. ' ' .. wait .. ' ' .. nonce ..
			string.format(' %.0f', now + SILENT_MS))
	end
end

-- The head may be dead: the first of ours who listens is to look after it; or who asks does. How
-- many heard of it. With `noting`, others may be dead as well: from now on the silence of all is
-- measured, so any number of dead waiters costs SILENT_MS once. Their scores stay: whoever is
-- served, his wait comes off them.
local function look_behind(noting)
	local heard, at, size = nil, 0, redis.call('LLEN', queue)
	while at < size and (noting or not heard) do
		local part = redis.call('LRANGE', queue, at, at + PART - 1)
		local counts = listeners(part)
		for i, field in ipairs(part) do
			local is_ours = redis.call('HEXISTS', ours, field) == 1
			local silent = is_ours and field ~= own and counts and counts[i] == 0
			if at + i == 1 then
				silent = true
			elseif field == own then
				heard = heard or 0
			elseif is_ours and not silent and not heard then
				local told = tell_to_look(field)
				silent = not counts and told == 0
				heard = not silent and (told or 0) or nil
			end
			if noting and silent then
				note_silent(field)
			end
		end
		noting = noting and (counts or not heard)
		at = at + PART
	end
	return heard or 0
end

-- Until when a head of ours that does not listen counts as alive, and how many are told to look
-- after it, as soon as it holds up others.
local function patience_with_ours(head, silent)
	local score = score_of(head)
	local until_ms = tonumber(silent) or now + SILENT_MS
	local heard = 0
	if until_ms > now and (silent == '' or not score or score > until_ms) then
		heard = look_behind(silent == '')
		score = math.min(score or until_ms, until_ms)
		set_score(head, score)
	end
	return math.min(score or until_ms, until_ms), heard
end

-- The same of one of Java's, which is told itself if there is `news` for it.
local function patience_with_java(head, news)
	local score, heard = score_of(head), 0
	if not score then -- Java would wait for ever for one without
		score, news = now + SILENT_MS, true
		set_score(head, score)
	end
	if news and score > now then
		heard = tell(head, '0') + look_behind(false)
	end
	return score, heard
end

-- The lock is free: hands it to the next in the queue if that is ours and listens, tells it if it
-- is Java's and there is `news` for it, drops it if it is dead. Not past who asks.
-- The next in the queue; how many heard of it; whether it stands alone.
local function settle(news)
	while true do
		local first = redis.call('LRANGE', queue, '0', '1')
		local head, alone = first[1], not first[2]
		if not head or head == own then
			return head, 0, alone
		end
		local lease, wait, nonce, silent = asked_by(head)
		local heard = lease and hand_over(head, lease, wait, nonce, alone) or 0
		if heard > 0 then
			return head, heard
		end
		local until_ms
		if lease then
			until_ms, heard = patience_with_ours(head, silent)
		else
			until_ms, heard = patience_with_java(head, news)
		end
		if until_ms > now then
			return head, heard
		end
		if alone then
			queue_clear()
		else
			lower_all(off())
			queue_drop(head)
		end
		news = true
	end
end

-- A place in the queue; an owner that has one shows that it is alive.
local function queue_up(lease, wait)
	local score = score_of(own)
	local held_ms = math.max(0, redis.call('PTTL', lock))
	local _, asked_wait = asked_by(own)
	if score then
		score = math.max(score, now + held_ms + wait)
	else
		local last = redis.call('LINDEX', queue, '-1')
		if not last then
			queue_clear()
		end
		local after = last and last ~= own and score_of(last) or now + held_ms
		score = math.max(now, after) + wait
		redis.call('RPUSH', queue, own)
	end
	redis.call('HSET', ours, own, lease .. ' ' .. (asked_wait or ARGV[5]) .. ' ' .. ARGV[7])
	local keep_ms = score + off() - now + 60000
	if redis.call('PTTL', ours) < keep_ms then
		local answer = redis.pcall('PEXPIRE', ours, string.format('%.0f', keep_ms))
		if type(answer) == 'table' then
			-- Refused (ACL): nothing of it may stay for ever.
			queue_leave(own, wait)
			return answer
		end
	end
	set_score(own, score)
end

-- When it is worth to look again, if no message comes.
local function look_again_ms(lease)
	if redis.call('EXISTS', lock) == 1 then
		return redis.call('PTTL', lock)
	end
	local head = redis.call('LINDEX', queue, '0')
	local until_dead = head and (score_of(head) or now) - now or 0
	local second = redis.call('LINDEX', queue, '1') == own
	return math.max(1, math.min(until_dead, second and TAKES_MS or tonumber(lease)))
end

local function wrong(kind)
	return redis.error_reply('WRONGTYPE the key is a ' .. kind .. ', not a fair lock')
end

--include "no_lock.lua" gives is_no_lock

local function acquire(lease, wait)
	if redis.call('EXISTS', lock) == 0 then
		local head, _, alone = settle(false)
		if not head or head == own then
			local refused = own_by(own, lease)
			if head and not refused then
				local _, asked_wait = asked_by(own)
				queue_pop(own, asked_wait or wait, alone)
			end
			return refused or false
		end
	else
		local has = redis.pcall('HEXISTS', lock, own)
		if type(has) == 'table' and string.find(has.err, 'WRONGTYPE') then
			return wrong(redis.call('TYPE', lock).ok)
		elseif type(has) == 'table' then
			return has
		elseif has == 1 then
			local left = redis.call('PTTL', lock)
			if left > tonumber(lease) then
				return redis.status_reply('LONGER')
			end
			-- Written also when it is as long as that: see what replicas acknowledge.
			local answer = redis.pcall('PEXPIRE', lock, lease)
			return type(answer) == 'table' and answer or false
		elseif redis.call('HEXISTS', lock, 'mode') == 1 then
			return wrong('read/write lock')
		elseif is_no_lock() then
			return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
		end
	end
	if what == 'acquire' then
		local refused = queue_up(lease, wait)
		if refused then
			return refused
		end
	end
	return {look_again_ms(lease), now_us}
end

local function release()
	if not released then
		local _, wait = asked_by(own)
		local first = redis.call('LINDEX', queue, '0') == own
		local waited = queue_leave(own, wait or 0)
		if type(dropped) == 'table' then -- the key is something else
			return dropped
		elseif not waited then
			-- Written all the same: what replicas acknowledge behind it is also what an
			-- earlier copy has done.
			tell(own, 'look')
			return false
		end
		if redis.call('EXISTS', lock) == 1 then
			-- The next one is to learn that it is the first: that one watches the key.
			local next = first and redis.call('LINDEX', queue, '0')
			if next and asked_by(next) then
				tell_to_look(next)
			end
			return 0
		end
	end
	local _, heard = settle(true)
	return heard
end

local function force()
	if redis.call('HEXISTS', lock, 'mode') == 1 then
		return wrong('read/write lock')
	elseif is_no_lock() then
		return redis.error_reply('WRONGTYPE the key is a hash that is not a lock')
	end
	local freed = redis.call('DEL', lock)
	if freed == 1 then -- for those who watch it
		redis.pcall('PUBLISH', channels .. ':broken', '')
	end
	settle(true)
	return freed
end

if what == 'release' then
	return release()
end
if what == 'force' then
	return force()
end
return acquire(ARGV[4], tonumber(ARGV[5]))
