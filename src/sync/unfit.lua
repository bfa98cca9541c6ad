-- Refuses a server that is not a Redis, and whose Lua writes whole numbers in another way ("1.0" in
-- LuaJ, of servers for tests): neither times nor fence tokens would be right.
local one = string.format('%.0f', 1)
if one ~= '1' then
	local unfit = 'LOCKKEEPER unfit: its Lua writes 1 as ' .. one
	if redis.error_reply then
		return redis.error_reply(unfit)
	end
	error(unfit) -- ClauDB
end
