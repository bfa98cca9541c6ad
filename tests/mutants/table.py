"""The mutants: one small edit each, what it breaks, and who finds it.

They stand in the order of the rules that keep a lock a lock. A world finds its own by the same seed
each time, until the code changes.
"""
from __future__ import annotations

from mutant import Mutant, World

ACQUIRE, RELEASE, RENEW = (f"src/sync/lock/{name}.lua" for name in ("acquire", "release", "renew"))
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
        ("src/lock/entry.c", "if (hold->owner_serial != owner->serial)\n\t\treturn false;",
         "if (hold->owner_serial && owner->serial)\n\t\treturn true;")],
        World("locks")),
    # ---- re-entry ----
    Mutant("re-entry-uncounted", "a re-entry is not counted", [
        (HOLD, "\thold->count++;\n\tif (want->grant_out)", "\tif (want->grant_out)")],
        World("kinds")),
    # ---- a script runs twice, or late ----
    Mutant("late", "a request is obeyed after its deadline", [
        ("src/sync/late.lua", "if now > deadline then", "if now > deadline * 2 then")],
        World("red")),
    Mutant("renews-stranger", "a renewal renews a stranger's lock", [
        (RENEW, "redis.pcall('HEXISTS', KEYS[i], owner) == 1",
         "redis.call('EXISTS', KEYS[i]) == 1 or owner == ''")],
        World("red")),
    Mutant("releases-stranger", "a release frees whoever has it", [
        (RELEASE, "redis.call('HDEL', KEYS[1], ARGV[1]) == 1",
         "redis.call('DEL', KEYS[1]) == 1 and ARGV[1] ~= ''")],
        World("locks")),
    Mutant("plain-stranger", "a plain lock is released whoever has it", [
        ("src/sync/plain/release.lua", "redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1]) == ARGV[1]",
         "redis.pcall('EXISTS', KEYS[1]) == 1 and ARGV[1] ~= ''")],
        World("kinds")),
    Mutant("acquire-shortens", "a copy of an acquire shortens a lease that was extended since", [
        (ACQUIRE, "math.max(lease, redis.call('PTTL', KEYS[1]))", "lease")],
        World("locks")),
    Mutant("renewal-shortens", "a copy of a renewal shortens a lease that was extended since", [
        (RENEW, "math.max(tonumber(lease), redis.call('PTTL', KEYS[i]))", "tonumber(lease)")],
        World("locks")),
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
        ("src/lock/close.c", "!lk__compensation_pending(client, NULL) &&", "true &&")],
        World("locks")),
    Mutant("close-tries", "a close does not wait for tries whose waiters have left", [
        ("src/lock/close.c", "atomic_load(&client->trying) == 0 &&", "true &&")],
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
    Mutant("not-looked-at", "a hold that another has ended is not looked at", [
        (HOLD, "(lease_ms < most_ms ? lease_ms : most_ms) * LK__MS / 3",
         "(lease_ms < most_ms ? lease_ms : most_ms) * LK__MS * 3")],
        World("kinds")),
    Mutant("renewal-answers-mixed", "of a batch of renewals the first answer counts for all", [
        (SCRIPT, "lk__reply_integer(reply->element[index], 0, 1, &renewed)",
         "lk__reply_integer(reply->element[0], 0, 1, &renewed)")],
        World("silence")),
    Mutant("silence-believed", "a connection that a firewall has forgotten is waited for", [
        ("src/conn/conn.c", "return since_ns + part_ns;",
         "return since_ns + 1000 * part_ns;")],
        World("silence")),
    # ---- waiting ----
    Mutant("head-not-promoted", "who becomes the head of a queue is not woken", [
        ("src/lock/entry.c", "if (waiting->head != caller)\n\t\tlk__thread_wake",
         "if (waiting->head == caller)\n\t\tlk__thread_wake")],
        World("locks")),
    Mutant("fair-last-first", "a fair queue is served last come first", [
        ("src/sync/fair/queue.lua", "redis.call('RPUSH', queue, own)",
         "redis.call('LPUSH', queue, own)")],
        World("kinds")),
    # ---- terms ----
    Mutant("endless-term", "a client passes a lock among its own without an end", [
        ("src/sync/term.h", "passing->term_ns / 10 * 9", "passing->term_ns * 1000"),
        ("src/sync/term.h", "term->handovers >= LK__TERM_HANDOVERS_MAX",
         "term->handovers >= 100000000")],
        World("kinds")),
    # ---- fence tokens ----
    Mutant("token-text", "a fence token is written as Lua writes numbers", [
        ("src/sync/fenced/acquire.lua", "string.format('%.0f', math.max(newest + 1, now))",
         "tostring(math.max(newest + 1, now))")],
        World("kinds")),
    Mutant("token-same", "a fence token is given twice", [
        ("src/sync/fenced/acquire.lua", "math.max(newest + 1, now)",
         "math.max(newest, math.floor(now / 1000000) * 1000000)")],
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
        ("src/lock/red_renewal.c", "return tally->yes >= tally->majority;",
         "return tally->yes >= 1;")],
        World("red")),
    # ---- replicas ----
    Mutant("no-acks", "a grant does not wait for replicas", [
        ("src/conn/acks.c", "if (!request->durable || is_refusal(request)",
         "if (request->sends || !request->durable || is_refusal(request)")],
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
        World("replicas")),
    Mutant("old-master-trusted", "connections to a former master stay", [
        ("src/topo/master.c", "\tlk__node_disown(master->node, reason);\n", "")],
        World("sentinels")),
    Mutant("late-sentinel", "a late answer of a sentinel discounts a replica that is up", [
        ("src/topo/master.c", "replica->round = later_round(replica->round, peer->asked_round);",
         "replica->round = peer->asked_round;")],
        World("sentinels")),
    Mutant("few-sentinels", "one sentinel is enough to name the master", [
        ("src/topo/vote.c", "return 2 * vote->most > vote->known ||",
         "return 5 * vote->most > vote->known ||")],
        World("sentinels")),
    Mutant("two-masters", "of two servers that call themselves master the first is believed", [
        ("src/topo/replicas.c", "if (masters == 1 && !doubted && (over || known))",
         "if (masters >= 1 && (over || known))")],
        World("replicas")),
    # ---- errors, and how long is waited ----
    Mutant("passing-fails", "a wait ends at a refusal that may pass", [
        (ATTEMPT, "event->retryable || (event->passing && !attempt->want.unlimited);",
         "event->retryable;")],
        World("refusals")),
]
