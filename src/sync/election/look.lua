-- Tells who leads, and who waits to. It changes nothing.
--
--   KEYS[1]  key: the leader, a hash: owner field → 1; its time to live is the lease
--   KEYS[2]  lockkeeper_election:{key}: the record, a hash: id, term, since, host, value of
--            the newest leader
--   KEYS[3]  lockkeeper_candidates:{key}: the candidates that wait, a hash, see stand.lua
--   ARGV[1]  what: "leader" or "candidates"
--   ARGV[2]  channel: the candidate with a field F listens on "<this>:F"
--
-- Sent by lk__election_look(target, what).
-- Answers to leader: {1 where it leads, else 0, term, since, id, host, value, count of elections,
-- what it was asked, the term before, ms left of its lease}; term "0" where nobody has led. To
-- candidates: for each that waits an array {id, priority, standing, since, host, value, 1 where it
-- listens, else 0}, in the order of ids.
if ARGV[1] == 'leader' then
	local id = redis.call('HGET', KEYS[2], 'id')
	local leads = id and redis.call('HEXISTS', KEYS[1], id) or 0
	local found = {leads, '0', '0', '', '', '', '0', '', '0'}
	local fields = {'term', 'since', 'id', 'host', 'value', 'count', 'asked', 'previous'}
	for i, field in ipairs(fields) do
		found[i + 1] = redis.call('HGET', KEYS[2], field) or found[i + 1]
	end
	table.insert(found, redis.call('PTTL', KEYS[1]))
	return found
end
local found, all = {}, redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
	local priority, standing, since, host, value =
		string.match(all[i + 1], '^(%-?%d+) (%d) (%d+) %d+ %d+ (%S+) (.*)$')
	if priority then
		local heard = redis.pcall('PUBSUB', 'NUMSUB', ARGV[2] .. ':' .. all[i])
		local listens = (heard.err or heard[2] > 0) and 1 or 0
		table.insert(found, {all[i], priority, standing, since, host, value, listens})
	end
end
table.sort(found, function(one, other) return one[1] < other[1] end)
return found
