-- Tells of a release. It is the turn of the client that has waited longest; the one behind it looks
-- soon, should the first be silent. Both listen on "<channel>:<id>". All others, who hear "00" on
-- the channel, have heard of a release, and stay where they are: Java reads that as the 0 that it
-- sends itself, and wakes. If nobody is known, the message is "0", which wakes all.
--
-- Gives: give_turn
--include "turns.lua" gives turns
local function give_turn(channel)
	local said = '0'
	-- Those that do not listen any more are passed over, so many at most.
	for _ = 1, 32 do
		local first = redis.pcall('ZRANGE', turns, 0, 0)
		local id = not first.err and first[1]
		local word = said == '0' and 'now' or 'soon'
		local heard = id and redis.pcall('PUBLISH', channel .. ':' .. id, word)
		if type(heard) ~= 'number' or word == 'soon' and heard > 0 then
			break
		end
		redis.pcall('ZREM', turns, id)
		said = heard > 0 and '00' or said
	end
	local listeners = redis.pcall('PUBLISH', channel, said)
	return type(listeners) == 'number' and listeners or 0
end
