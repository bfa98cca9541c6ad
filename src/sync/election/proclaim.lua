-- Writes the value of a leader, if it leads with that term.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader
--   ARGV[1]  field: the owner's
--   ARGV[2]  term
--   ARGV[3]  bytes: its value
--   ARGV[4]  lockkeeper_election:{key}: channel of those who observe
--
-- Sent by lk__election_proclaim(target, field, term, value, value_size).
-- Answers: 1 written · 0 it does not lead with that term, and nothing was written.
-- Safe to send twice: a copy writes the same while the term lasts.
-- Replicas must have what it did.
local leads = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
	and redis.call('HGET', KEYS[2], 'id') == ARGV[1]
	and redis.call('HGET', KEYS[2], 'term') == ARGV[2]
if not leads then
	redis.pcall('PUBLISH', ARGV[4], 'look')
	return 0
end
redis.call('HSET', KEYS[2], 'value', ARGV[3])
redis.pcall('PUBLISH', ARGV[4], ARGV[2])
return 1
