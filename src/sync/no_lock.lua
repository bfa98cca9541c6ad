-- Tells whether a hash is none of a lock: an owner's field ends in a number, and has a count. A
-- user who may not ask waits.
--
-- Needs: lock
-- Gives: is_no_lock
local function is_no_lock()
	local sample = redis.pcall('HRANDFIELD', lock, 1, 'WITHVALUES')
	local whose, value = sample[1], sample[2]
	return whose and not (string.find(whose, ':%-?%d+$') and string.find(value, '^%d+$'))
end
