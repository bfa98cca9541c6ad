"""The read/write lock under faults: processes that die, connections that end, Java beside it."""
from __future__ import annotations

import threading
import time

import pytest

import checker
from redisson_rw import JavaReadWriteLock, timeout_of
from servers import Subscriber
from waiting import boottime_ns, never, until

WRITERS = "lockkeeper_writers:{%s}"


def sides(server, name) -> dict[str, str]:
    return {field.decode(): value.decode() for field, value in server.holders(name).items()}


# ---- histories ----


def start(keepers, history, kinds: list[dict]) -> tuple[list, list]:
    """Each process runs each kind; the runs, and the paths of their histories."""
    runs, paths = [], []
    for number, keeper in enumerate(keepers):
        for place, kind in enumerate(kinds):
            paths.append(history())
            runs.append(keeper.say("stress", thread=f"s{place}", name="rw", pairs=1_000_000,
                                   run=number * 10 + place, history=paths[-1], capacity=400_000,
                                   **kind))
    return runs, paths


def finish(keepers, runs) -> list:
    for keeper in keepers:
        keeper.call("stop", thread="-")
    return [run.result(40) for run in runs]


@pytest.mark.slow
def test_history_with_java(server, make_keeper, history):
    """Ours and Redisson's scripts on one name, both sides, by their claims."""
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    runs, paths = start(keepers, history, [
        {"kind": "read", "threads": 3, "hold_us": 500, "pause_us": 3000},
        {"kind": "write", "threads": 2, "hold_us": 300, "pause_us": 1000}])
    claims, turns, failures = [], 40, []

    def java_turns(number: int) -> None:
        java = JavaReadWriteLock(server, "rw")
        try:
            for turn in range(turns):
                write = (number + turn) % 2
                java.wait(java.write if write else java.read)
                granted_ns = boottime_ns()
                time.sleep(0.0005)
                claims.append(checker.Claim(0, f"java{number}", granted_ns, boottime_ns(),
                                            mode=checker.EXCLUSIVE if write else checker.SHARED))
                freed = java.unlock_write() if write else java.unlock_read()
                assert freed in ((1,) if write else (0, 1)), freed
        except BaseException as failure:
            failures.append(failure)
        java.close()
    threads = [threading.Thread(target=java_turns, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    answers = finish(keepers, runs)
    assert not failures and len(claims) == 3 * turns, failures
    for answer in answers:
        assert answer["acquire_OK"] == answer["release_OK"] > 0, dict(answer)
    found = checker.overlaps(checker.check(checker.read(*paths)) + claims)
    assert not found, [f"{a} | {b}" for a, b in found[:5]]
    assert server.call("DBSIZE") == 0


# ---- the dead ----

@pytest.mark.parametrize("dead,waiting", [("read", "write"), ("write", "read"),
                                          ("write", "write")])
def test_a_dead_holder_keeps_it_for_its_lease_at_most(server, make_keeper, dead, waiting):
    victim = make_keeper(server.unix_url, watchdog_ms=1500)
    keeper = make_keeper(server.unix_url)
    victim.call("acquire", "dead", kind=dead).ok()
    waits = keeper.say("acquire", "dead", kind=waiting)
    until(lambda: server.channels(), 5)
    victim.kill()
    assert waits.result(10).ok().took < 6
    keeper.call("release", "dead", kind=waiting).ok()
    until(lambda: server.call("DBSIZE") == 0, 5)


def test_a_dead_reader_among_living_ones(server, make_keeper):
    """Its field stays in the hash, and keeps nobody out once the living have left."""
    victim = make_keeper(server.unix_url, watchdog_ms=600)
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    victim.call("acquire", "among", kind="read").ok()
    (field,) = set(sides(server, "among")) - {"mode"}
    keeper.call("acquire", "among", kind="read").ok()
    victim.kill()
    until(lambda: not server.call("EXISTS", timeout_of("among", field)), 5, "nobody renews it")
    never(lambda: server.call("EXISTS", timeout_of("among", field)), 0.7, "it is renewed")
    assert keeper.call("is_held", "among", kind="read").result == 1
    waits = keeper.say("acquire", "among", kind="write", thread="w")
    until(lambda: server.channels(), 5)
    keeper.call("release", "among", kind="read").ok()
    waits.result(10).ok()
    keeper.call("release", "among", kind="write", thread="w").ok()
    assert server.call("DBSIZE") == 0


def test_a_dead_preferred_writer_holds_up_readers_for_seconds_at_most(server, make_keeper):
    victim, keeper = make_keeper(server.unix_url), make_keeper(server.unix_url)
    keeper.call("acquire", "late", kind="read-polite").ok()
    victim.say("acquire", "late", kind="write-preferred")
    until(lambda: server.call("EXISTS", WRITERS % "late"), 5)
    keeper.call("try", "late", kind="read-polite", thread="b").is_code("LK_EBUSY")
    keeper.call("try", "late", kind="read", thread="c").ok()
    never(lambda: keeper.call("try", "late", kind="read-polite", thread="b").code == "OK", 4,
          "a living writer is forgotten")
    victim.kill()
    assert keeper.call("acquire", "late", kind="read-polite", thread="b").ok().took < 8
    until(lambda: not server.call("EXISTS", WRITERS % "late"), 8, "the dead one is forgotten")
    for kind, thread in ("read-polite", "main"), ("read-polite", "b"), ("read", "c"):
        keeper.call("release", "late", kind=kind, thread=thread).ok()
    assert server.call("DBSIZE") == 0


def test_a_preferred_writer_leaves_and_readers_are_woken(server, make_keeper):
    writer, keeper = make_keeper(server.unix_url), make_keeper(server.unix_url)
    keeper.call("acquire", "left", kind="read-polite").ok()
    bare = Subscriber(server, "redisson_rwlock:{left}")
    waits = writer.say("acquire", "left", kind="write-preferred", cancel="token")
    until(lambda: server.call("EXISTS", WRITERS % "left"), 5)
    reads = keeper.say("acquire", "left", kind="read-polite", thread="b")
    until(lambda: keeper.stats().waiting == 1, 5)
    writer.cancel("token")
    waits.result(5).is_code("LK_ECANCELLED")
    until(lambda: [int(said) for said in bare.messages] == [1], 5, "its release says so")
    reads.result(5).ok()
    assert not server.call("EXISTS", WRITERS % "left")
    for thread in "main", "b":
        keeper.call("release", "left", kind="read-polite", thread=thread).ok()
    bare.stop()


# ---- connections that end ----
