-- Writes the value of a leader, if it leads with that term.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader; version of the value
--   ARGV[1]  field: the owner's
--   ARGV[2]  term
--   ARGV[3]  version: which value of this candidate it is; a later one stays
--   ARGV[4]  bytes: its value
--
-- Sent by lk__election_proclaim(target, field, term, version, value, value_size).
-- Answers: 1 written, or a later one is · 0 it does not lead with that term: nothing was written.
-- Safe to send twice: a copy writes the same while the term lasts and no later value is there.
-- Replicas must have what it did.
local leads = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
	and redis.call('HGET', KEYS[2], 'id') == ARGV[1]
	and redis.call('HGET', KEYS[2], 'term') == ARGV[2]
if not leads then
	redis.pcall('PUBLISH', KEYS[2], 'look')
	return 0
end
if tonumber(ARGV[3]) >= (tonumber(redis.call('HGET', KEYS[2], 'version')) or 0) then
	redis.call('HSET', KEYS[2], 'value', ARGV[4], 'version', ARGV[3])
end
redis.pcall('PUBLISH', KEYS[2], ARGV[2])
return 1
