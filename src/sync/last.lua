-- Makes a count last: one that has a time to live lasts `least` ms from now at least. One that has
-- none keeps none. Where PEXPIRE is refused (ACL), it ends as it would.
--
--   KEYS[1]  the count
--
-- Gives: make_last
local function make_last(least)
	local rest = redis.call('PTTL', KEYS[1])
	if least > 0 and rest >= 0 and rest < least then
		redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', least))
	end
end
