-- Tells of a release, whose message is "0" or another number. It is the turn of the one that has
-- waited longest; the next one looks soon, should the first be silent. Both listen on
-- "<channel>:<id>". The channel itself is for those that have no turn: Java's, readers, and ours
-- that have only begun to listen. They are told the number with a "0" before it, which Java reads
-- as the number that it sends itself; ours that have a turn stay where they are. If nobody has one,
-- the message wakes all. If all who listen have one, there is none: it would wake each for nothing.
-- `loud`: there is one all the same. `first_word`: what the first one is told; nil: 'now', and the
-- one behind it 'soon'.
--
-- Of a long order the front is looked at, and now and then the whole. One further back whose client
-- is dead is found only then; until then it may hide one that listens and has no turn.
--
-- Returns how many listen; of those who have not been told, -1 less that many.
--
-- Needs: turns, TAKEN
-- Gives: give_turn
local function give_turn(channel, message, loud, first_word)
	local front, most = 32, 1000
	local count = redis.pcall('ZCARD', turns)
	if count == 0 then -- who listens need not be asked
		local listeners = redis.pcall('PUBLISH', channel, message)
		return type(listeners) == 'number' and listeners or 0
	end
	local names = {channel}
	count = type(count) == 'number' and count or 0
	if count <= front or redis.call('TIME')[2] % math.ceil(count / front) == 0 then
		front = most
	end
	local ids = count == 0 and {} or
		redis.pcall('ZRANGEBYSCORE', turns, '-inf', '(' .. TAKEN, 'LIMIT', '0', front)
	local done_with = count == #ids and {} or
		redis.pcall('ZRANGEBYSCORE', turns, TAKEN, '+inf', 'LIMIT', '0', front)
	for _, id in ipairs(ids) do
		names[#names + 1] = channel .. ':' .. id
	end
	for _, id in ipairs(done_with) do
		names[#names + 1] = channel .. ':' .. id
	end
	-- Where the user may not ask, the messages have to tell.
	local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(names))
	local all = not counts.err and counts[2]
	local others, each, said, word, seen = all, 1, message, first_word or 'now', {}
	for i = 2, all and #names or 0 do
		-- Those of one client listen to the channel together. Its ids differ in the number.
		local client, heard = string.match(names[i], '^(.*):'), counts[2 * i]
		others = seen[client] and others or others - heard
		seen[client] = seen[client] or heard > 0
		each = math.max(each, heard)
	end
	for i, id in ipairs(ids) do
		local heard = all and counts[2 * i + 2] or nil
		if word and heard ~= 0 then
			heard = redis.pcall('PUBLISH', names[i + 1], word)
			if type(heard) ~= 'number' then
				break
			end
		end
		if heard == 0 or (word == 'now' and
			type(redis.pcall('ZADD', turns, 'XX', TAKEN, id)) ~= 'number') then
			redis.pcall('ZREM', turns, id)
		end
		if word and heard > 0 then
			said = '0' .. message
			word = word == 'now' and 'soon' or nil
		end
	end
	for _, id in ipairs(done_with) do -- it was the one that releases, or has not come
		redis.pcall('ZREM', turns, id)
	end
	local behind = each * (count - #ids - #done_with)
	if said ~= message and not loud and others and others <= behind then
		return -1 - all
	end
	local listeners = redis.pcall('PUBLISH', channel, said)
	return type(listeners) == 'number' and listeners or 0
end
