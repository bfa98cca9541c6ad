-- The server's time, in us.
--
-- Gives: now
--include "unfit.lua"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
