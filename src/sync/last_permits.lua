-- The same of a count of permits, which also lasts as long as one of them is in use, and they with
-- it: without their key all would count as free. Returns the refusal (ACL) of that, or nil.
--
--   KEYS[1]  the count
--
-- Needs: in_use, now_ms
-- Gives: make_last
local function make_last(least)
	local rest = redis.pcall('PTTL', KEYS[1])
	local newest = rest ~= -1 and redis.pcall('ZRANGE', in_use, '-1', '-1', 'WITHSCORES') or {}
	if type(rest) == 'table' or newest.err then
		return newest.err and newest or rest
	elseif rest < 0 then
		return
	end
	local longest = math.max(rest, least, tonumber(newest[2] or 0) - now_ms)
	local whole = string.format('%.0f', longest)
	if longest > rest then
		redis.pcall('PEXPIRE', KEYS[1], whole)
	end
	local theirs = redis.pcall('PEXPIRE', in_use, whole)
	return type(theirs) == 'table' and theirs or nil
end
