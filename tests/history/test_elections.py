"""Elections under faults, judged by what each candidate believed: at most one leads at a time, by
the deadlines that it was told, and terms rise. LOCKKEEPER_ELECTIONS: how many."""
from __future__ import annotations

import os
import random
import time

import pytest

import checker
from waiting import until

ELECTIONS = int(os.environ.get("LOCKKEEPER_ELECTIONS", "300"))
LEASE_MS = 150
CANDIDATES = 4  # processes, with two candidates each


def started(server, make_keeper, history, number: int):
    keeper = make_keeper(server.unix_url, command_timeout_ms=500, watchdog_ms=LEASE_MS)
    keeper.call("ping").ok()
    path = history()
    keeper.run = keeper.say("stress", thread="s", kind="election", name="web", threads=2,
                            pairs=1_000_000, run=number, history=path, capacity=400_000,
                            hold_us=3000, pause_us=1000)
    return keeper, path


def pause(victim) -> None:
    """Stops a candidate, or the server, for longer than the lease."""
    victim.pause()
    time.sleep(2.2 * LEASE_MS / 1000)
    victim.resume()


def cut(server) -> None:
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.call("CLIENT", "KILL", "TYPE", "pubsub")


@pytest.mark.slow
def test_elections_under_faults(make_server, make_keeper, history):
    generator = random.Random()
    seed = generator.randrange(2**32)
    generator.seed(seed)
    server = make_server(appendonly="yes", appendfsync="always")
    running = [started(server, make_keeper, history, number) for number in range(CANDIDATES)]
    paths = [path for _, path in running]
    keepers = [keeper for keeper, _ in running]
    until(lambda: all(keeper.stats().acquires > 3 for keeper in keepers), 20)
    faults = {"stopped": 0, "server": 0, "cut": 0, "killed": 0, "restarted": 0}
    until_s = time.monotonic() + 900
    while time.monotonic() < until_s:
        time.sleep(generator.uniform(0.02, 0.1))
        fault = generator.choice(list(faults))
        faults[fault] += 1
        if fault == "stopped":
            pause(generator.choice(keepers))
        elif fault == "server":
            pause(server)
        elif fault == "cut":
            cut(server)
        elif fault == "restarted":
            server.restart()
        else:
            victim = generator.randrange(CANDIDATES)
            keepers[victim].kill()
            keepers[victim], path = started(server, make_keeper, history, len(paths))
            paths.append(path)
        if int(server.call("HGET", "lockkeeper_election:{web}", "count") or 0) >= ELECTIONS:
            break
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for keeper in keepers:
        answer = keeper.run.result(60)
        assert not answer.overflowed, dict(answer)
    records = checker.read(*paths)
    # A stop between the last look at the clock and our own record of it cannot be told apart.
    grants = checker.check(records, over_allowed=3 + faults["stopped"])
    print(f"seed {seed}: {len(grants)} elections, {faults}")
    assert len(grants) >= ELECTIONS // 2
