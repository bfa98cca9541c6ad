-- How a change of a count begins: it is refused if its deadline is not a number or if it comes
-- late; one that was done before is answered from its record. A new record is kept a minute longer
-- than a copy of the request may run.
--
--   KEYS[2]  the record of this request
--   ARGV[1]  deadline of this request, server time in us
--
-- Gives: now, kept
local deadline = tonumber(ARGV[1])
if not deadline then
	return redis.error_reply('LOCKKEEPER bad deadline')
end
local done = redis.call('GET', KEYS[2])
if done then
	-- A write that changes nothing: what replicas acknowledge behind it is all of this.
	redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
	return tonumber(done)
end
--include "time.lua" gives now
--include "late.lua"
local kept = string.format('%.0f', (deadline - now) / 1000 + 60000)
