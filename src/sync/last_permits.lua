-- The same of a count of permits, which also lasts as long as one of them is in use, and they with
-- it: without their key all would count as free.
--
--   KEYS[1]  the count
--
-- Needs: in_use, now_ms
-- Gives: make_last
local function make_last(least)
	local rest = redis.call('PTTL', KEYS[1])
	if rest < 0 then
		return
	end
	local newest = redis.call('ZRANGE', in_use, -1, -1, 'WITHSCORES')
	local longest = math.max(rest, least, tonumber(newest[2] or 0) - now_ms)
	local whole = string.format('%.0f', longest)
	if longest > rest then
		redis.pcall('PEXPIRE', KEYS[1], whole)
	end
	redis.pcall('PEXPIRE', in_use, whole)
end
