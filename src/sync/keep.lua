-- How a release that keeps the lock from others for a time begins: it is refused if that is bad.
--
--   ARGV[1]  for how long, ms
--
-- Gives: keep_ms
local keep_ms = tonumber(ARGV[1])
if not string.find(ARGV[1], '^%d+$') or keep_ms < 1 or keep_ms > 31536000000 then
	return redis.error_reply('LOCKKEEPER bad time')
end
