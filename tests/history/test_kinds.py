"""Every kind of lock under load, while processes and the server are stopped beyond the lease."""
from __future__ import annotations

import random
import time

import pytest

import checker
from sightings import Sightings
from waiting import until

# What each of three processes uses of one lock.
KINDS = [("lock",) * 3, ("fair",) * 3, ("fenced",) * 3, ("spin",) * 3, ("plain",) * 3,
         ("lock", "fenced", "spin"), ("multi",) * 3, ("multi", "lock", "lock"),
         ("write", "read", "read"),
         ("write-preferred", "read-polite", "read-polite"), ("write", "read-polite", "write")]
SERVER = 3  # stands for it among the victims


def load(server, make_keeper, history, kinds, threads=3, **options):
    """Three processes with some threads each, which run until they are told to stop."""
    keepers = [make_keeper(server.unix_url, command_timeout_ms=500) for _ in kinds]
    paths = [history() for _ in kinds]
    for number, (keeper, kind, path) in enumerate(zip(keepers, kinds, paths)):
        keeper.call("ping").ok()
        name = "cold,hot,warm" if kind == "multi" else "hot"
        keeper.run = keeper.say("stress", thread="s", kind=kind, name=name, threads=threads,
                                pairs=1_000_000, run=number, history=path, capacity=400_000,
                                **options)
    return keepers, paths


def end(keepers, paths) -> list[checker.Record]:
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for keeper in keepers:
        answer = keeper.run.result(60)
        assert not answer.overflowed, dict(answer)
        assert answer.get("acquire_OK", 0) > 0, dict(answer)
    return checker.read(*paths)


def stop(process) -> None:
    """Stops a process, or the server, for longer than any lease here."""
    process.pause()
    time.sleep(0.25)
    process.resume()


def test_load_ends_that_was_stopped_before_it_began(keeper):
    """The driver of these tests: the load waits for its thread when it is told to stop."""
    keeper.call("acquire", "busy").ok()
    before = keeper.say("acquire", "busy", thread="s")
    run = keeper.say("stress", "hot", thread="s", pairs=1_000_000, hold_us=1000)
    keeper.call("stop", thread="-")
    keeper.call("release", "busy").ok()
    before.result().ok()
    assert run.result(10)["grants"] == 0
    again = keeper.call("stress", "hot", thread="s", pairs=3)
    assert again["grants"] == 3, dict(again)


# The same asynchronously.
QUEUED = [("multi", "lock", "multi"), ("fair",) * 3]


@pytest.mark.slow
@pytest.mark.parametrize("kinds, queue",
                         [*((kinds, 0) for kinds in KINDS), *((kinds, 1) for kinds in QUEUED)],
                         ids=lambda value: "-".join(value) if isinstance(value, tuple)
                         else "queued" if value else "")
def test_stopped_beyond_the_lease(server, make_keeper, history, kinds, queue):
    generator = random.Random("-".join(kinds))
    # Those who spin get it by luck alone, and preferred writers come first: where one of them
    # never pauses, others may wait for ever.
    pauses = "spin" in kinds or "write-preferred" in kinds
    threads, pause_us = (1, 2000) if pauses else (3, 200)
    keepers, paths = load(server, make_keeper, history, kinds, threads, lease=150, hold_us=300,
                          pause_us=pause_us, queue=queue)
    until(lambda: all(keeper.stats().acquires > 10 for keeper in keepers), 20)
    for victim in [0, 1, 2, SERVER] * 2:
        time.sleep(generator.uniform(0.02, 0.1))
        stop(server if victim == SERVER else keepers[victim])
    # A stop between the last look at the clock and our own record of it cannot be told apart.
    records = end(keepers, paths)
    assert len(checker.check(records, over_allowed=3)) > 50


@pytest.mark.slow
@pytest.mark.parametrize("kind, lease", [("semaphore", 0), ("permits", 150)])
def test_permits_out(server, make_keeper, history, kind, lease):
    """Five permits, of which each thread takes two: nobody who dies, so that none is lost."""
    permits = 5
    make_keeper(server.unix_url).call("set", "hot", kind=kind, count=permits).ok()
    keepers, paths = load(server, make_keeper, history, (kind,) * 3, lease=lease, hold_us=300,
                          pause_us=200, count=2)
    until(lambda: all(keeper.stats().acquires > 10 for keeper in keepers), 20)
    for victim in [0, 1, 2, SERVER] * 2:
        stop(server if victim == SERVER else keepers[victim])
    records = end(keepers, paths)
    assert len(checker.check(records, over_allowed=3, permits=permits)) > 50
    with pytest.raises(AssertionError, match="too many permits"):
        checker.check(records, over_allowed=3, permits=permits - 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind, queue", [("red", 0), ("red-plain", 0), ("red", 1)])
def test_red_lock_over_three_servers(make_server, make_keeper, history, kind, queue):
    """A process, or one of three servers, is stopped beyond the lease: a majority is there."""
    servers = [make_server() for _ in range(3)]
    keepers = [make_keeper() for _ in range(3)]
    for keeper in keepers:
        for number, server in enumerate(servers):
            keeper.open(server.unix_url, c=f"n{number}", command_timeout_ms=500)
    paths = [history() for _ in keepers]
    for number, (keeper, path) in enumerate(zip(keepers, paths)):
        keeper.run = keeper.say("stress", thread="s", kind=kind, c="n0", nodes="n0,n1,n2",
                                name="hot", threads=2, pairs=1_000_000, run=number, lease=300,
                                queue=queue, hold_us=300, pause_us=2000, history=path,
                                capacity=400_000)
    until(lambda: all(keeper.stats("n0").acquires > 5 for keeper in keepers), 30)
    for victim in (keepers + servers) * 2:
        victim.pause()
        time.sleep(0.45)
        victim.resume()
    records = end(keepers, paths)
    assert len(checker.check(records, over_allowed=3)) > 30


@pytest.mark.slow
def test_fair_lock_in_order(server, make_keeper, history):
    keepers, paths = load(server, make_keeper, history, ("fair",) * 3, hold_us=2000, pause_us=500)
    sightings = Sightings(server, "hot")
    until(lambda: len(sightings.seen) > 1000, 60, "enough was seen")
    seen = sightings.end()
    checker.check(end(keepers, paths))
    assert not checker.overtaken(seen), checker.overtaken(seen)[:5]
    assert sum(len(sighting.queue) > 2 for sighting in seen) > 100, "there was a queue"
