-- Refuses a request that must not run any more: its client has given it up.
--
-- Needs: now, deadline
if now > deadline then
	return redis.status_reply('LATE ' .. string.format('%.0f', now))
end
