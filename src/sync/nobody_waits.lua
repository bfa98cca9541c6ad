-- Tells of a release as usual, where nobody waits in the order of turns, and ends the script: who
-- listens need not be asked. It stands before give_turn.lua, which the server would make for
-- nothing.
--
--   ARGV[2]  the channel
--
-- Needs: turns, says
if redis.pcall('ZCARD', turns) == 0 then
	local hearers = redis.pcall('PUBLISH', ARGV[2], says)
	return (hearers == 0 or type(hearers) == 'number') and hearers or 0
end
