-- Asks the leader to resign, or to hand its leadership to a candidate that waits. Whether it does
-- is its own affair.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; count; asked
--   KEYS[3]  lockkeeper_candidates:{key}: the candidates that wait, a hash, see stand.lua
--   ARGV[1]  what: "resign", or the owner field of who is to lead
--   ARGV[2]  field: the owner field of the leader that is asked
--
-- Sent by lk__election_ask(target, what, field).
-- Answers: 1 asked · 0 it does not lead · -1 that one does not wait.
-- Safe to send twice: a copy asks the same of the same leader.
-- Replicas must have what it did.
if redis.call('HGET', KEYS[2], 'id') ~= ARGV[2] or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
	return 0
elseif ARGV[1] ~= 'resign' and redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
	return -1
end
redis.call('HSET', KEYS[2], 'asked', ARGV[1])
redis.pcall('PUBLISH', KEYS[2], 'asked')
return 1
