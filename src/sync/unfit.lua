-- Refuses a server that is not a Redis, and whose Lua writes whole numbers in another way ("1.0" in
-- LuaJ, of servers for tests): neither times nor fence tokens would be right. The Lua of Redis need
-- not be tried.
local one = _VERSION == 'Lua 5.1' and '1' or string.format('%.0f', 1)
if one ~= '1' then
	local unfit = 'LOCKKEEPER unfit: its Lua writes 1 as ' .. one
	if redis.error_reply then
		return redis.error_reply(unfit)
	end
	error(unfit) -- ClauDB
end
