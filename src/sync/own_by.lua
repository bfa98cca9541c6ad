-- Makes a field of the lock's hash its owner for so long.
--
-- Returns: an error if the server refuses, and then the field is gone.
--
-- Needs: lock
-- Gives: own_by
local function own_by(field, lease)
	redis.call('HSET', lock, field, '1')
	local expiring = redis.pcall('PEXPIRE', lock, lease)
	if type(expiring) == 'table' then
		-- A refused PEXPIRE (ACL) must not leave a lock without a time to live.
		redis.call('HDEL', lock, field)
		return expiring
	end
end
