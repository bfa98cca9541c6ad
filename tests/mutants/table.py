"""The mutants: one small edit each, what it breaks, and who finds it.

They stand in the order of the rules that keep a lock a lock. A world finds its own by the same seed
each time, until the code changes.
"""
from __future__ import annotations

from mutant import Mutant, World

RELEASE, RENEW = (f"src/sync/lock/{name}.lua" for name in ("release", "renew"))

MUTANTS = [
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
    # ---- what is unknown is given back ----
    Mutant("compensates-other", "what may be held is given back under another number", [
        ("src/lock/compensation.c", "lk__field(entry, compensation->number, field);",
         "lk__field(entry, compensation->number + 1000000, field);")],
        World("locks")),
    # ---- time ----
    Mutant("lease-from-reply", "the lease is counted from the answer", [
        ("src/sync/script.c", "event->sent_ns = request->sent_ns;", "event->sent_ns = now_ns;")],
        World("multi")),
    Mutant("grant-unchecked", "a grant is not checked when it arrives", [
        ("src/sync/script.c", "now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms)", "0"),
        ("src/lock/acquire.c", "lk__now_ns() < lk__hold_deadline(hold)", "1")],
        World("locks")),
    # ---- replicas ----
    Mutant("late-sentinel", "a late answer of a sentinel discounts a replica that is up", [
        ("src/topo/master.c", "replica->round = later_round(replica->round, peer->asked_round);",
         "replica->round = peer->asked_round;")],
        World("sentinels")),
]
