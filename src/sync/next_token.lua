-- The number that follows the newest one of a counter: a term, a generation. It is the newest plus
-- one, or the server's time in us if that is more: so it rises when the clock steps back, and when
-- the counter is gone.
--
-- Returns: the number, as text; or nil and an error.
--
-- Needs: now, counter
-- Gives: next_token
local function next_token()
	local written = redis.call('GETRANGE', counter, '0', '16')
	if written == '' and redis.call('EXISTS', counter) == 0 then
		written = '0'
	end
	local newest = string.find(written, '^%d+$') and tonumber(written)
	if not newest or newest > 9007199254740990 then
		return nil, redis.error_reply('WRONGTYPE no number can follow what the counter has')
	end
	return string.format('%.0f', math.max(newest + 1, now))
end
