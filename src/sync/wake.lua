-- Wakes another library's waiters as that library does. A user who may not frees the lock all the
-- same; a list without a time to live is not left. The list of a push is not declared: in a cluster
-- it is pushed only where the node has it.
--
-- Gives: wake
local function wake(how, target, message, keep_ms)
	local reached = 0
	if how == 'publish' then
		reached = redis.pcall('PUBLISH', target, message)
	elseif how == 'push' then
		redis.pcall('DEL', target)
		redis.pcall('LPUSH', target, message)
		if type(redis.pcall('PEXPIRE', target, keep_ms)) ~= 'number' then
			redis.pcall('DEL', target)
		end
	end
	return type(reached) == 'number' and reached or 0
end
