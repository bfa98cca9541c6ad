-- Gives back what a request has taken whose answer nobody wants, or nobody knows.
--
--   KEYS[1]  key: the count of free permits
--   KEYS[2]  record: of that request
--   ARGV[1]  channel
--
-- Sent by lk__semaphore_undo(target, field).
-- Answers: nil: it took nothing, or was undone · integer: given back, so many heard of it.
-- Safe to send twice: the record goes with it.
-- A release that finds nothing writes all the same, a message: what replicas acknowledge behind it
-- is also what an earlier copy has done.
local taken = redis.call('GET', KEYS[2])
if not taken then
	redis.pcall('PUBLISH', ARGV[1], '0')
	return false
end
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 then
	return 0
end
local count = redis.call('INCRBY', KEYS[1], taken)
if count <= 0 then
	return 0
end
local listeners = redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', count))
return type(listeners) == 'number' and listeners or 0
