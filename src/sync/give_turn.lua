-- Tells of a release. It is the turn of the one that has waited longest; the next one looks soon,
-- should the first be silent. Both listen on "<channel>:<id>". The channel itself is for those that
-- have no turn: Java's, and ours that have only begun to listen. They are told "00", which Java
-- reads as the 0 that it sends itself; ours that have a turn stay where they are. If nobody has a
-- turn, the message is "0", which wakes all. If all who listen have one, there is none: it would
-- wake each for nothing. `loud`: there is one all the same.
--
-- Returns how many listen; of those who have not been told, -1 less that many.
--
-- Gives: give_turn
--include "turns.lua" gives turns_of, TAKEN
local function give_turn(lock, channel, loud)
	local turns = turns_of(lock)
	local ids, names = redis.pcall('ZRANGE', turns, 0, 999, 'WITHSCORES'), {channel}
	for i = 1, #ids, 2 do
		names[#names + 1] = channel .. ':' .. ids[i]
	end
	-- Where the user may not ask, the messages have to tell.
	local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(names))
	local all = not counts.err and counts[2]
	local others, said, word = all, '0', 'now'
	for i = 1, #ids, 2 do
		local own = all and counts[i + 3] or nil
		local heard = own
		if tonumber(ids[i + 1]) == tonumber(TAKEN) then
			heard = 0 -- it was the one that releases
		elseif word and own ~= 0 then
			heard = redis.pcall('PUBLISH', names[(i + 3) / 2], word)
			if type(heard) ~= 'number' then
				break
			end
		end
		others = others and others - own
		if heard == 0 or word == 'now' then
			redis.pcall('ZREM', turns, ids[i])
		end
		if word and heard > 0 then
			said = '00'
			word = word == 'now' and 'soon' or nil
		end
	end
	if said == '00' and not loud and others and others <= 0 then
		return -1 - all
	end
	local listeners = redis.pcall('PUBLISH', channel, said)
	return type(listeners) == 'number' and listeners or 0
end
