"""The mutants: one small edit each, what it breaks, and who finds it.

They stand in the order of the rules that keep a lock a lock. A world finds its own by the same seed
each time, until the code changes.

No seed can find that a client which got no time itself takes a replica for dead: in a run with
stalls nothing is promised of replicas. Five defects in who may vote, of a quorum with a node that
has replicas, were not found: one node that votes too soon is no majority, and a run in which it
lacks something is not judged any more. The extension of a lease is the script of a renewal, and so
is the mutant that shortens it.

Three defects of elections are in no row. Neither 1,400 seeds nor api/test_election found two: one
that the server calls lost leads on until a renewal says so (src/api/election.c,
election_lose), and one that joins behind a resignation which ran into its limit does not stand
when that wait ends refused (standing_over). The first shows only where a leader writes its value or
transfers after its place was lost and before it hears of that; the second, where a candidate joins
while its cancelled request is under way. A third one, that a leader keeps the value which its last
try brought (value_bring), shows in six of 2,000 seeds.

One more has no row, since no test finds it at will: that a close does not wait for tries whose
waiters have left (src/api/close.c, client->trying). Close reads each connection until it is idle
before that, and a try that was answered is compensated in the same step; only one that moves to a
new connection in between is seen by that count alone. One seed of sentinels in 1,000 found it, and
none since the draws changed.
"""
from __future__ import annotations

from mutant import Mutant, Program, Suite, World

ACQUIRE, RELEASE, RENEW = (f"src/sync/lock/{name}.lua" for name in ("acquire", "release", "renew"))
STAND, ELECTION = "src/sync/election/stand.lua", "src/api/election.c"
SCRIPT, ATTEMPT = "src/sync/script.c", "src/sync/attempt.c"
TAKE, HOLD, COMPENSATION, GIVE_BACK = (
    f"src/lock/{name}.c" for name in ("acquire", "hold", "compensation", "release"))

MUTANTS = [
    # ---- the owner ----
    Mutant("number-again", "all waits of a client have one number", [
        (ATTEMPT, "atomic_fetch_add(attempt->rules.numbers, 1) + 1",
         "atomic_fetch_add(attempt->rules.numbers, 0) + 1")],
        World("locks")),
    Mutant("owner-any", "each thread of a client owns what another has", [
        ("src/lock/hold.c", "if (hold->owner_serial != owner->serial)\n\t\treturn false;",
         "if (hold->owner_serial && owner->serial)\n\t\treturn true;")],
        World("locks")),
    # ---- re-entry ----
    Mutant("re-entry-uncounted", "a re-entry is not counted", [
        (HOLD, "\thold->count++;\n\tif (want->grant_out)", "\tif (want->grant_out)")],
        World("kinds")),
    # ---- a script runs twice, or late ----
    Mutant("late", "a request is obeyed after its deadline", [
        ("src/sync/late.lua", "if now > deadline then", "if now > deadline * 2 then")],
        World("locks")),
    Mutant("renews-stranger", "a renewal renews a stranger's lock", [
        (RENEW, "redis.pcall('HEXISTS', KEYS[i], owner) == 1",
         "redis.call('EXISTS', KEYS[i]) == 1 or owner == ''")],
        World("red")),
    Mutant("releases-stranger", "a release frees whoever has it", [
        (RELEASE, "redis.call('HDEL', lock, ARGV[1]) == 1",
         "redis.call('DEL', lock) == 1 and ARGV[1] ~= ''")],
        World("locks")),
    Mutant("plain-stranger", "a plain lock is released whoever has it", [
        ("src/sync/plain/release.lua", "redis.pcall('GETRANGE', KEYS[1], '0', '255') == ARGV[1]",
         "redis.pcall('EXISTS', KEYS[1]) == 1 and ARGV[1] ~= ''")],
        World("kinds")),
    Mutant("acquire-shortens", "a copy of an acquire shortens a lease that was extended since", [
        (ACQUIRE, "math.max(lease, redis.call('PTTL', lock))", "lease")],
        World("locks")),
    Mutant("renewal-shortens", "a copy of a renewal shortens a lease that was extended since", [
        (RENEW, "math.max(tonumber(lease), redis.call('PTTL', KEYS[i]))", "tonumber(lease)")],
        World("locks")),
    Mutant("abandoned-taken-back", "what is under way for an abandoned hold releases it", [
        ("src/api/lock.c", "entry->abandoned = true;", "entry->abandoned = false;")],
        World("handovers")),
    Mutant("adopted-beside-a-head", "what was adopted is passed in memory to who asks the server", [
        ("src/lock/release.c", "return lk__entry_head(entry) ? NULL : lk__entry_first(entry);",
         "return lk__entry_first(entry);")],
        World("handovers")),
    # ---- a drain ----
    Mutant("drain-takes-new", "a client that is drained takes new locks", [
        ("src/lock/entry.c", "return entry_drains(entry, settings) ? LK_EDRAINING : 0;",
         "return entry_drains(entry, settings) ? 0 : 0;")],
        World("kinds")),
    Mutant("drain-done", "a drain says that nothing is held while something is", [
        ("src/api/drain.c", "if (settled && held == 0)", "if (settled)")],
        World("kinds")),
    Mutant("drain-loses", "a drain forgets what is held, as a loss would", [
        ("src/api/drain.c", "\tstruct lk__hold *hold = entry->hold;\n\tif (hold && stand",
         "\tstruct lk__hold *hold = entry->hold;\n\tif (hold)\n\t\t"
         "lk__entry_drop_hold(entry, lk__now_ns());\n\thold = NULL;\n\tif (hold && stand")],
        World("kinds")),
    Mutant("drain-unasked", "a drain does not ask a leader to hand over", [
        ("src/api/drain.c", "else if (hold && (stand || lk__hold_extra(hold)->ear))",
         "else if (hold && lk__hold_extra(hold)->ear)")],
        World("elections")),
    Mutant("drain-keeps", "a leader that resigns when it is drained does not", [
        ("src/api/drain.c", "if (hold && stand && stand->resigns)",
         "if (hold && stand && !stand->resigns)")],
        World("elections")),
    Mutant("standing-copied", "a copy of an earlier request changes how a candidate stands", [
        ("src/sync/election/standing.lua", "elseif version and was.version >= version then",
         "elseif not version and was.version then")],
        Suite("system/test_election_wire.py", "waits",
              "a copy has to come behind a later change: elections shows it in one seed of 1,178")),
    Mutant("ask-copied", "a copy of a request asks whoever has the lock by then", [
        ("src/sync/ask/ask.lua", "if string.find('\\n' .. known,", "if string.find('\\n' .. '',")],
        Suite("system/test_lock_wire.py", "copy_of_a_request",
              "a copy has to come behind the next grant: told shows it in one seed of 1,767")),
    Mutant("ask-replaced", "a copy of a request that was replaced asks whoever has it then", [
        ("src/sync/ask/ask.lua", "local known = last and last .. ids or ''",
         "local known = last or ''")],
        Suite("system/test_lock_wire.py", "copy_of_a_request",
              "a third copy has to come behind two newer requests: told 6300311 alone showed it")),
    # ---- a barrier ----
    Mutant("barrier-early", "a barrier lets all through when one is missing", [
        ("src/sync/barrier/meet.lua", "local meets = #come_now >= count and not inside",
         "local meets = #come_now + 1 >= count and not inside")],
        World("barriers")),
    Mutant("barrier-copy", "a copy of a request takes a place that was given up", [
        ("src/sync/barrier/meet.lua", "\tself.till = now_ms + COPIES_MS\n\twrite(self, said)\n",
         "\ttidy()\n")],
        World("barriers")),
    Mutant("barrier-unsettled", "one that ends its wait does not ask whether it was counted", [
        ("src/api/barrier.c", "return barrier->acquire.caller.tried && code",
         "return !meeting->acquire.caller.tried && code")],
        World("barriers")),
    Mutant("barrier-older-answer", "a wait at a barrier takes the answer to the one before it", [
        (ATTEMPT, "attempt->want.number != attempt->number && !attempt->fresh;",
         "attempt->want.number != attempt->number && !attempt->number;")],
        World("barriers")),
    Mutant("latch-twice", "a latch counts twice what is sent again", [
        ("src/sync/change.lua", "local done = redis.call('GET', KEYS[2])", "local done = false")],
        World("kinds")),
    Mutant("semaphore-twice", "a semaphore gives its permits twice to one that is sent again", [
        ("src/sync/semaphore/acquire.lua", "if redis.call('EXISTS', KEYS[2]) == 1 then",
         "if redis.call('EXISTS', KEYS[2]) == 2 then")],
        World("kinds")),
    Mutant("permits-twice", "permits are given twice to one that is sent again", [
        ("src/sync/permits/acquire.lua", "\tif not ends[i] then\n\t\tneeded = needed + 1\n\tend",
         "\tneeded = needed + 1")],
        World("kinds")),
    Mutant("permits-more", "there is one permit more than there are", [
        ("src/sync/permits/acquire.lua", "needed == 0 or free >= needed",
         "needed == 0 or free + 1 >= needed")],
        World("kinds")),
    Mutant("release-needs-memory", "a release is refused where memory is short", [
        (RELEASE, "local held = redis.call('HDEL'",
         "redis.call('HSET', KEYS[1], ARGV[1] .. '!', 1)\n"
         "redis.call('HDEL', KEYS[1], ARGV[1] .. '!')\nlocal held = redis.call('HDEL'")],
        World("refusals")),
    Mutant("readers-beside-writer", "readers do not mind a writer", [
        ("src/sync/rw/read_acquire.lua", "if mode == 'write' then\n\t\tif ARGV[4]",
         "if mode == 'neither' then\n\t\tif ARGV[4]")],
        World("kinds")),
    # ---- an outcome is done, not done, or unknown ----
    Mutant("copy-is-sure", "the answer to one of two copies is taken for the outcome of both", [
        (SCRIPT, "return request->sends > 1;", "return request->sends > 1000;")],
        World("locks")),
    Mutant("compensates-other", "what may be held is given back under another number", [
        (COMPENSATION, "lk__field(entry, compensation->number, field);",
         "lk__field(entry, compensation->number + 1000000, field);")],
        World("locks")),
    Mutant("compensates-once", "what may be held is not given back once more behind its deadline", [
        (COMPENSATION, "compensation->given || request->sent_ns >= until_ns;", "true;")],
        World("locks")),
    Mutant("out-is-timed-out", "a wait whose try has no answer says that the lock is held", [
        (ATTEMPT, "if (attempt_doubts(attempt, attempt->code) || (out && attempt->rules.takes))",
         "if (attempt_doubts(attempt, attempt->code))")],
        World("locks")),
    Mutant("close-forgets", "a close does not wait for what may be held", [
        ("src/api/close.c", "|| lk__compensation_pending(client, NULL))", ")")],
        World("locks")),
    Mutant("release-twice-is-lost", "a release that was sent again and finds nothing is a loss", [
        (GIVE_BACK, "return request->sends < 2 ||", "return request->sends ||")],
        World("locks")),
    Mutant("force-twice", "a forced release is sent again, and frees the next owner", [
        ("src/conn/request.c", "request->once = true;", "request->resend = true;")],
        World("kinds")),
    # ---- time ----
    Mutant("lease-from-reply", "the lease is counted from the answer", [
        (SCRIPT, "event->sent_ns = request->sent_ns;", "event->sent_ns = now_ns;")],
        World("multi")),
    Mutant("grant-unchecked", "a grant is not checked when it arrives", [
        (SCRIPT, "now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms)", "0"),
        (TAKE, "lk__now_ns() < lk__hold_deadline(hold)", "1")],
        World("locks")),
    # ---- renewal ----
    Mutant("not-looked-at", "a hold that another has ended is not looked at, and nobody tells", [
        ("src/lock/told.c", "\t\ttracked_take(client, node);\n", "\t\t(void)tracked_take;\n"),
        (HOLD, "lease_ms * LK__MS / 3", "lease_ms * LK__MS * 3")],
        World("kinds")),
    Mutant("renewal-answers-mixed", "of a batch of renewals the first answer counts for all", [
        (SCRIPT, "lk__reply_integer(reply->element[index], 0, 1, &renewed)",
         "lk__reply_integer(reply->element[0], 0, 1, &renewed)")],
        World("silence")),
    Mutant("renewed-late", "a lease is renewed when nine tenths of it are over", [
        (HOLD, "lease_ns / 3 * 2", "lease_ns / 10"),
        (HOLD, "lease_ms * LK__MS / 3", "lease_ms * LK__MS / 10 * 9")],
        World("silence")),
    Mutant("silence-believed", "a connection that a firewall has forgotten is waited for", [
        ("src/conn/conn.c", "return since_ns + part_ns;",
         "return since_ns + 1000 * part_ns;")],
        World("silence")),
    # ---- waiting ----
    Mutant("nobody-woken", "a release wakes nobody who waits in the order of turns", [
        ("src/sync/give_turn.lua", "heard = redis.pcall('PUBLISH', names[i + 1], word)",
         "heard = 1")],
        World("locks")),
    Mutant("head-not-promoted", "who becomes the head of a queue is not woken", [
        ("src/lock/entry.c", "if (waiting->head != caller)\n\t\tlk__thread_wake",
         "if (waiting->head == caller)\n\t\tlk__thread_wake")],
        World("locks")),
    Mutant("fair-last-first", "a fair queue is served last come first", [
        ("src/sync/fair/queue.lua", "redis.call('RPUSH', queue, own)",
         "redis.call('LPUSH', queue, own)")],
        World("kinds")),
    Mutant("fair-front-deaf", "nobody who waits for a fair lock watches its key", [
        ("src/lock/turns.c", "return rank == 0 || (rank == 1 && is_fair(entry) &&",
         "return (rank == 0 && !is_fair(entry)) || (rank < 0 && is_fair(entry) &&")],
        World("told")),
    # ---- terms ----
    Mutant("endless-term", "a client passes a lock among its own without an end", [
        ("src/sync/term.h", "passing->term_ns / 10 * 9", "passing->term_ns * 1000"),
        ("src/sync/term.h", "term->handovers >= LK__TERM_HANDOVERS_MAX",
         "term->handovers >= 100000000")],
        Program("unit/test_term", "a seed that finds it changes with each event before")),
    # ---- fence tokens ----
    Mutant("token-text", "a fence token is written as Lua writes numbers", [
        ("src/sync/fenced/acquire.lua", "string.format('%.0f', math.max(newest + 1, now_us))",
         "tostring(math.max(newest + 1, now_us))")],
        World("kinds")),
    Mutant("token-same", "a fence token is given twice", [
        ("src/sync/fenced/acquire.lua", "math.max(newest + 1, now_us)",
         "math.max(newest, math.floor(now_us / 1000000) * 1000000)")],
        World("kinds")),
    # ---- red locks ----
    Mutant("minority", "less than a majority is enough", [
        ("src/lock/red.c", "red->majority = count / 2 + 1;", "red->majority = count / 2;")],
        World("red")),
    Mutant("forgetful-vote", "a server that has restarted empty votes at once", [
        ("src/lock/red_try.c", "if (quarantine_ms < 0 || lk__now_ns() >= from_ns)",
         "if (quarantine_ms < 0 || from_ns)")],
        World("red")),
    Mutant("red-not-given-back", "a failed try stays on the nodes that have not answered", [
        ("src/lock/red_try.c", "if (stays || vote.granted)", "if (vote.granted)")],
        World("red")),
    Mutant("red-not-joined", "a node that answers late is left out of the grant", [
        ("src/lock/red_try.c", "\tif (ballot->vote.granted)\n\t\tnode->part = LK__RED_HELD;",
         "\tif (ballot->vote.granted)\n\t\tnode->part = LK__RED_NOT_HELD;")],
        World("red")),
    Mutant("red-renewed-by-few", "a minority renews a red lock", [
        ("src/lock/red_hold.c", "return poll->yes >= lk__red_of(poll->call.entry)->majority;",
         "return poll->yes >= 1;")],
        World("red")),
    Mutant("red-undecided", "a renewal that a join leaves undecided waits for the next", [
        ("src/lock/red_hold.c", "if (met && (ended ?", "if (met && !met && (ended ?")],
        World("majority")),
    Mutant("red-look-apart", "the look behind a red lock's renewal leaves in a write of its own", [
        ("src/lock/fan_out.c", """\
			if (fan_out->use.behind)
				fan_out->use.behind(fan_out->use.context, i);
			part_asked(&fan_out->node[i]);
""", """\
			part_asked(&fan_out->node[i]);
			if (fan_out->use.behind)
				fan_out->use.behind(fan_out->use.context, i);
""")],
        World("majority")),
    # ---- replicas ----
    Mutant("no-acks", "a grant does not wait for replicas", [
        ("src/conn/pipeline.c", "bool acked = request->durable && lk__node_is_acked(conn->node);",
         "bool acked = false;")],
        World("replicas")),
    Mutant("one-ack", "one replica is enough", [
        ("src/conn/acks.c", "count->came >= count->wanted;",
         "count->came >= (count->wanted > 0);")],
        World("replicas")),
    Mutant("renewal-unacked", "a renewal that replicas lack moves the deadline", [
        (SCRIPT, "reply->elements < count ||\n\t    request->code == LK_ENOTDURABLE)",
         "reply->elements < count)"),
        (SCRIPT, "bool said = !request->code && lk__reply_integer",
         "bool said = lk__reply_integer")],
        World("sentinels")),
    Mutant("old-master-trusted", "connections to a former master stay", [
        ("src/topo/master.c", "\tlk__node_disown(master->node, reason);\n", "")],
        World("sentinels")),
    Mutant("late-sentinel", "a late answer of a sentinel discounts a replica that is up", [
        ("src/topo/master.c", "replica->round = later_round(replica->round, peer->asked_round);",
         "replica->round = peer->asked_round;")],
        World("sentinels")),
    Mutant("few-sentinels", "one sentinel is enough to name the master", [
        ("src/topo/vote.c", "return 2 * vote->most > vote->known ||",
         "return vote->most > 0 ||")],
        Program("unit/test_vote", "a sentinel of a world that is alone with its word is rare")),
    Mutant("two-masters", "of two servers that call themselves master the first is believed", [
        ("src/topo/replicas.c", "if (masters == 1 && !doubted && (over || known))",
         "if (masters >= 1 && (over || known))")],
        World("replicas")),
    # ---- errors, and how long is waited ----
    Mutant("passing-fails", "a wait ends at a refusal that may pass", [
        (ATTEMPT, "event->retryable || (event->passing && !attempt->want.unlimited);",
         "event->retryable;")],
        World("refusals")),
    # ---- what no world shows ----
    Mutant("loss-hidden", "who enters again behind a loss is not told of it", [
        (HOLD, "if (hold->lost) {\n\t\tlk__entry_promote", "if (0) {\n\t\tlk__entry_promote")],
        World("kinds")),
    Mutant("no-drift", "nothing is taken off a lease for clocks that drift", [
        (ATTEMPT, "lease_ns - lease_ns / DRIFT_PER_LEASE - DRIFT_NS;",
         "lease_ns + 0 * lease_ns / DRIFT_PER_LEASE * DRIFT_NS;")],
        Program("unit/test_attempt", "clocks of a world do not drift")),
    Mutant("hold-without-end", "max_hold_ms does not end the renewals", [
        (HOLD, "return max_hold_ms && now_ns >=", "return max_hold_ms < 0 && now_ns >=")],
        Program("api/test_watchdog", "workers of a world name no such limit")),
    Mutant("abandoned-renewed", "the lock of a thread that has ended is renewed", [
        (HOLD, "return wanted && !too_long && !hold->abandoned && open;",
         "return wanted && !too_long && open;")],
        Program("api/test_watchdog", "threads of a world end with nothing")),
    Mutant("fork-uses", "a forked child uses the connections of its parent", [
        ("src/lock/client.c", "if (lk__client_forked(client))\n\t\tcode = LK_EFORKED;\n\telse if",
         "if (!client)\n\t\tcode = LK_EFORKED;\n\telse if")],
        Program("api/test_fork", "a world has one process")),
    Mutant("array-uncapped", "a reply may ask for any number of elements", [
        ("src/resp/reply.c", "(size_t)count > LK__REPLY_ELEMENTS_MAX - reader->elements",
         "(size_t)count > SIZE_MAX - reader->elements")],
        Program("unit/test_reply", "servers of a world say what servers say")),
    Mutant("password-shown", "an error shows the password of a URL", [
        ("src/conf/url.c", 'memcpy(shown + head, "***", 3);', "memcpy(shown + head, at - 3, 3);")],
        Program("unit/test_url", "URLs of a world have no password")),
    Mutant("prefix-ignored", "two programs with different prefixes share a lock", [
        ("src/lock/entry.c", "size_t prefix_size = strlen(prefix);",
         "size_t prefix_size = 0 * strlen(prefix);")],
        Program("api/test_lock", "clients of a world have no prefix")),
    Mutant("host-unverified", "the host name in a certificate is not verified", [
        ("src/net/tls.c", "lk__openssl.X509_VERIFY_PARAM_set1_host(rules, host, 0) != 1", "0")],
        Suite("system/test_tls.py", "refused or name_option", "a world has no TLS")),
    Mutant("stays-subscribed", "the last waiter stays subscribed", [
        ("src/conn/channels.c", "channel_want(conn, channel, false);",
         "channel->wanted = false;")],
        Suite("system/test_lock.py", "turn or leaves_nothing or unsubscribes",
              "what is left of subscriptions is not judged")),
    Mutant("caller-renews", "renewals go over the callers' connection", [
        ("src/lock/hold.c", "struct lk__conn *conn = lk__node_work(batch->node);",
         "struct lk__conn *conn = batch->node->scripts[0];")],
        Suite("system/test_pauses.py", "reader_is_stopped", "no debugger stops one thread")),
    Mutant("other-message", "a release says another message than Redisson's", [
        (RELEASE, "says = KEYS[1], '0'", "says = KEYS[1], '1'")],
        Suite("system/test_lock_wire.py", "in_redis or pair", "a world has no peers")),
    Mutant("no-ttl-left", "a refused PEXPIRE leaves a lock without a time to live", [
        (ACQUIRE, "\tredis.call('HDEL', lock, ARGV[1])\n\t\treturn answer", "\treturn answer")],
        Suite("system/test_server_faults.py", "missing_for_acquire",
              "users of a world have all rights")),
    Mutant("turn-taken-along", "who leaves takes its turn along", [
        ("src/sync/turns/leave.lua", "redis.call('EXISTS', KEYS[1]) == 1", "true")],
        Suite("system/test_turns.py", "passes",
              "the next one looks 50 ms later, which the judge of a free lock allows")),
    Mutant("past-hand-over", "a hand-over that is past is taken for a grant", [
        (ATTEMPT,
         "!attempt->busy_server_us || handed_us < attempt->busy_server_us)\n\t\treturn 0;",
         "!attempt->busy_server_us)\n\t\treturn 0;\n"
         "\tif (handed_us < attempt->busy_server_us)\n"
         "\t\thanded_us = attempt->busy_server_us;")],
        Program("unit/test_attempt", "no message of a world comes again")),
    Mutant("busy-unsaid", "a lock is called busy that no server has called so", [
        ("src/lock/entry.c", "if (entry->hold || (attempt && attempt->busy))", "if (attempt)")],
        Suite("system/test_busy_or_unknown.py", "silent or before_it",
              "what the server has said is not judged by who has asked")),
    Mutant("given-back-forgotten", "what was given back is not repeated at a new master", [
        (COMPENSATION, "if (!lk__node_is_acked(conn ? conn->node : lk__entry_node(entry)))",
         "if (conn || lk__entry_node(entry))")],
        Suite("system/test_failover_release.py", "as_the_servers or is_missing",
              "a lock that a failover brings back ends with its lease, before it is judged")),
    Mutant("doubt-ignored", "a hold whose connection is lost is not looked at at once", [
        ("src/lock/hold.c",
         "bool doubt = lk__entry_in_doubt(entry) || had_gap;",
         "bool doubt = had_gap && false;")],
        Suite("system/test_server_faults.py", "without_data",
              "the judge of who is told allows a third of a lease, after which each is looked at")),
    Mutant("no-hold-off", "a client does not stand back for others", [
        ("src/sync/term.h", "return others > 0 && hold_off_ns > 0 ? now_ns + hold_off_ns : 0;",
         "(void)others, (void)hold_off_ns, (void)now_ns;\n\treturn 0;")],
        Suite("system/test_starvation.py", "process or waiter",
              "a world has four workers, and each gets in within its limit")),
    # ---- elections ----
    Mutant("election-no-rest", "the place of a leader is free as soon as it is told to stop", [
        ("src/sync/election/election.c", "return lease_ms + lease_ms / (LK__REST_PART - 1);",
         "return lease_ms;")],
        World("elections")),
    Mutant("election-order", "the lowest priority is elected first", [
        ("src/sync/order.lua", "tonumber(standing) * 10000 - priority",
         "tonumber(standing) * 10000 + priority")],
        World("elections")),
    Mutant("election-late-look", "those who wait look two seconds after the end of a lease", [
        (STAND, "+ rank * APART_MS", "+ 2000 + rank")],
        World("elections")),
    Mutant("election-term", "a term is the time, also when a clock steps back", [
        ("src/sync/next_token.lua", "math.max(newest + 1, now)", "math.max(0, now)")],
        World("elections")),
    Mutant("election-old-value", "an old leader writes its value over that of the next", [
        ("src/sync/election/proclaim.lua", "redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1",
         "redis.call('HEXISTS', KEYS[1], ARGV[1]) >= 0"),
        ("src/sync/election/proclaim.lua", "redis.call('HGET', KEYS[2], 'id') == ARGV[1]", "true"),
        ("src/sync/election/proclaim.lua", "redis.call('HGET', KEYS[2], 'term') == ARGV[2]",
         "true")],
        World("elections")),
    Mutant("election-old-copy", "a copy of an earlier request writes its value over a later one", [
        ("src/sync/election/proclaim.lua", "tonumber(ARGV[3]) >=", "tonumber(ARGV[3]) >= 0 *")],
        World("elections")),
    Mutant("election-value-kept", "a leader has the value of the one before it", [
        (STAND, "'value', ARGV[11], 'version'",
         "'value', redis.call('HGET', record, 'value') or ARGV[11], 'version'")],
        World("elections")),
    Mutant("election-unmissed", "an observer is not told that it has missed leaders", [
        (ELECTION, "leader->missed = election->has_seen && !next;",
         "leader->missed = election->has_seen && !next && leader->term == 0;")],
        World("elections")),
    Mutant("election-unwatched", "an observer does not look at the end of a leader's lease", [
        (ELECTION, "\tif (look.left_ms >= 0)\n", "\tif (look.left_ms < -9)\n")],
        World("elections")),
    Mutant("election-transferred", "one that has transferred leads until its deadline", [
        (ELECTION, "\t\telection_drop(election, rc < 0);\n", "")],
        World("elections")),
    Mutant("election-no-end", "the end of a term is not told", [
        ("src/lock/notice.c", "\tif (teller)\n\t\tteller_give(client, teller, hold, LK__TELL_NOT",
         "\tif (teller && hold->lost)\n\t\tteller_give(client, teller, hold, LK__TELL_NOT")],
        World("elections")),
    Mutant("election-early", "the place of one that was told to stop is given back at once", [
        ("src/lock/hold.c", "if (may_be_left && !(entry->target.recipe->flags & LK__ELECTS))",
         "if (may_be_left)")],
        World("elections")),
    # ---- told, and asked ----
    Mutant("untold", "a holder whose key was touched asks at its next renewal", [
        ("src/lock/entry.c", "\t\tlk__doubt(entry);\n\t\tlk__doubt_fronts(entry);",
         "\t\tlk__doubt_fronts(entry);")],
        World("told")),
    Mutant("ask-unlooked", "a renewal does not look for a request", [
        ("src/lock/hold.c", "\t\tlk__ear_look(entry);",
         "\t\tif (doubt)\n\t\t\tlk__ear_look(entry);")],
        World("told")),
    Mutant("ask-deaf", "a message does not have the holder look for a request", [
        ("src/lock/hold.c", "\t\tlk__ear_look(entry);",
         "\t\tif (!doubt)\n\t\t\tlk__ear_look(entry);")],
        World("told")),
    Mutant("ask-anybody", "whoever has the lock is asked, also if another had it then", [
        ("src/lock/told.c", "return all || (own && own + size - 2 < end);",
         "return all || !own || own + size - 2 < end;")],
        World("told")),
    # ---- holes that were closed ----
    Mutant("lost-comes-back", "an answer behind the end of a lease brings the lock back", [
        ("src/lock/hold.c",
         "answer == 1 && !entry->passing && now_ns >= lk__hold_deadline(entry->hold)",
         "answer == 1 && !entry->passing && now_ns < 0")],
        World("kinds")),
    Mutant("no-answer-limit", "a connection whose oldest answer is late is waited for", [
        ("src/conn/conn.c", "if (now_ns >= conn_limit_ns(conn)) {", "if (now_ns < 0) {")],
        World("kinds")),
    Mutant("shard-master-trusted", "connections to a former master of a cluster stay", [
        ("src/topo/cluster.c", "\tlk__node_disown(&shard->node, reason);\n", "")],
        World("cluster")),
    Mutant("shard-replicas-uncounted", "the replicas of a cluster's master need not acknowledge", [
        ("src/topo/cluster.c", "(int)(count > LK__ACKS_MAX ? LK__ACKS_MAX + 1 : count)", "0")],
        World("cluster")),
    Mutant("ask-unsaid", "a key that is on its way is asked for without ASKING", [
        ("src/conn/pipeline.c", "request->asking = node && *reply->str == 'A';",
         "request->asking = false;")],
        Program("unit/test_redirect", "the slot is all moved before the redirects end")),
    Mutant("moved-copy", "a redirect of a second copy says that nothing was done", [
        ("src/conn/pipeline.c",
         "bool copied = request->sends > 0 && !request->question;\n\tint code",
         "bool copied = false;\n\tint code")],
        Program("unit/test_redirect", "a redirect is followed, and its code seldom told")),
    Mutant("parted-refused", "a call fails while some of its keys have moved", [
        ("src/conn/pipeline.c", "if (!request->patient || request->batch",
         "if (request || request->batch")],
        Program("unit/test_redirect", "waits try again, and what moves may refuse in a world")),
    Mutant("passed-in-doubt", "a lock in doubt is handed over in memory", [
        ("src/sync/term.h", "if (!passing->waiting || passing->doubt || over)",
         "if (!passing->waiting || over)")],
        Program("unit/test_term", "doubt and hand-over have to fall into the same 0.1 ms")),
    Mutant("red-gives-early", "a red lock gives up while a majority is still possible", [
        ("src/sync/red/votes.c", "votes->granted + votes->open >= votes->majority",
         "votes->granted + votes->open > votes->majority")],
        Program("unit/test_votes", "the try is repeated within the wait")),
    Mutant("red-not-worth-it", "a red lock is granted with nothing left of its lease", [
        ("src/sync/red/votes.c", "if (votes->granted >= majority && worth)",
         "if (votes->granted >= majority)")],
        Program("unit/test_votes", "a try ends by its node limit long before the lease does")),
    # ---- who watches ----
    Mutant("watch-gap-untold", "a watch does not tell that it may have missed something", [
        ("src/api/watch_look.c",
         "return watched->shown ? change_add(watched, LK_CHANGE_GAP, NULL, NULL, reason) : 0;",
         "return reason ? 0 : change_add(watched, LK_CHANGE_GAP, NULL, NULL, reason);")],
        World("watches")),
    Mutant("watch-heard-before", "a watch takes an old message for that of the present end", [
        ("src/api/watch_look.c", "\twatched->release.mark = watched->release.next;\n", "")],
        World("watches")),
    Mutant("watch-asked-once", "a watch is not told of the change behind the next one", [
        ("src/api/watch_look.c", "\tif (news)\n\t\twatched->due_ns = 0;", "")],
        World("watches")),
    Mutant("watch-expired-early", "a watch takes any end that nobody told of for its lease's", [
        ("src/api/watch_look.c", "watch->received_ns >= was->low_ns &&",
         "watch->received_ns > 0 &&")],
        World("watches")),
    Mutant("fair-stays-behind", "who gives up on a key that is something else keeps its place", [
        ("src/sync/fair/queue.lua", "redis.pcall('HDEL', lock, own)",
         "redis.call('HDEL', lock, own)")],
        Program("api/test_fair_lock", "in a world the next one comes, and finds it dead")),
    Mutant("signals-taken", "threads of the library take signals", [
        ("src/base/door.c", "\tpthread_sigmask(SIG_SETMASK, &all, &saved);",
         "\tpthread_sigmask(SIG_BLOCK, NULL, &saved);")],
        Program("api/test_threads", "a world has no signals")),
    # ---- what the unit suites of the attempts and of a connection alone find ----
    Mutant("multi-doubt-forgotten", "a multi lock forgets that an earlier round may hold a part", [
        ("src/sync/multi/attempt.c", "attempt->unknown |= event->unknown;", ";")],
        Program("unit/test_multi_attempt", "multi's 400 seeds pass with it")),
    Mutant("multi-unstable-grant", "a multi lock is granted although a part has expired", [
        ("src/sync/multi/attempt.c", "return event->stands ? multi_go_on",
         "return event ? multi_go_on")],
        Program("unit/test_multi_attempt", "multi's 400 seeds pass with it")),
    Mutant("multi-connects-on", "a multi lock tries although it was cancelled as it connected", [
        ("src/sync/multi/attempt.c", "\tif (!event->cancelled)\n", "\tif (event)\n")],
        Program("unit/test_multi_attempt", "multi's 400 seeds pass with it")),
    Mutant("demoted-cut", "what was sent behind a replica's refusal is not waited for", [
        ("src/conn/pipeline.c", "conn->drain_until_ns = lk__now_ns() + DRAIN_NS;",
         "conn->drain_until_ns = lk__now_ns();")],
        Program("unit/test_demoted", "1,500 seeds of replicas and sentinels pass with it")),
    Mutant("place-doubt-forgotten", "a place whose try had no answer is said to hold nothing", [
        (ATTEMPT, "return attempt->doubtful && code != LK_ENOTDURABLE;",
         "return attempt->doubtful && code == 0;")],
        Program("unit/test_attempt_place", "kinds, replicas, sentinels pass with it")),
]
