"""The read/write lock under faults: processes that die, connections that end, Java beside it."""
from __future__ import annotations

import threading
import time

import pytest

import checker
from redisson_rw import JavaReadWriteLock
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


# ---- connections that end ----
