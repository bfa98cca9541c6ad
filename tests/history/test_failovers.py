"""Failovers under load: nobody gets what another has, and nothing that was granted is lost.

LOCKKEEPER_FAILOVERS says how many; half of them are planned, which are the worst case: the old
master grants until its clients hear of the new one. In the others the master is killed, or stopped.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import time

import pytest

import checker
from deployments import MASTER, Watched
from keeper import EVENT_LOST, Keeper
from test_kinds import end, load
from waiting import until

FAILOVERS = int(os.environ.get("LOCKKEEPER_FAILOVERS", "10"))
LEASE_MS = 600_000


@pytest.fixture
def trio(folder):
    deployment = Watched(folder)
    deployment.unix_url = deployment.url  # what load() opens
    yield deployment
    deployment.kill()


class Collector:
    """Takes one lock after the other and keeps them."""

    def __init__(self, keeper: Keeper):
        self.keeper, self.held, self.refused = keeper, [], 0
        keeper.listen()

    def take(self) -> None:
        name = f"kept{len(self.held) + self.refused}"
        if self.keeper.call("within", name, lease=LEASE_MS, wait=500).code == "OK":
            self.held.append(name)
        else:
            self.refused += 1

    def lost(self, master) -> list[str]:
        """What is not at the master, or of which its holder was told that it is lost."""
        told = {event.name for event in self.keeper.events_of(EVENT_LOST)}
        with master.connect() as connection:
            return [name for name in self.held
                    if name in told or connection.call("EXISTS", name) == 0]


def named(trio: Watched):
    """The master that the sentinels name: one that was replaced may say that it is one for 8 s."""
    port = trio.sentinels[0].names()
    return next(server for server in trio.servers if server.port == port)


def planned(trio: Watched) -> None:
    trio.failover()


def killed(trio: Watched) -> None:
    old = named(trio)
    old.kill()
    new = trio.switched(old)
    old.config["replicaof"] = f"127.0.0.1 {new.port}"
    old.start()


def stopped(trio: Watched) -> None:
    old = named(trio)
    old.pause()
    trio.switched(old)
    old.resume()


def settled(trio: Watched) -> bool:
    """Each sentinel knows two healthy replicas of one master, and they follow it."""
    with contextlib.suppress(OSError):
        one = len({sentinel.names() for sentinel in trio.sentinels}) == 1
        return one and all(trio.knows_all(s) for s in trio.sentinels) and trio.linked() == 2
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("lock", "fenced", "spin"), ("fair",) * 3], ids="-".join)
def test_failovers(trio, make_keeper, history, background, kinds):
    collector = Collector(make_keeper(trio.url))
    keepers, paths = load(trio, make_keeper, history, kinds, threads=2, lease=3000, wait=500,
                          hold_us=2000, pause_us=2000)
    background(collector.take, 0.01)
    ways = itertools.cycle((planned, killed, planned, stopped))
    for number in range(FAILOVERS // 2):
        before = len(collector.held)
        next(ways)(trio)
        until(lambda: len(collector.held) > before + 5, 30, "locks are granted again")
        until(lambda: settled(trio), 40, f"{MASTER} has its replicas")
        lost = collector.lost(named(trio))
        assert not lost, f"after {number + 1} failovers, of {len(collector.held)}: {lost}"
        time.sleep(0.2)
    records = end(keepers, paths)
    assert len(checker.check(records, over_allowed=20)) > 50
    print(f"{FAILOVERS // 2} failovers, {len(collector.held)} locks kept, "
          f"{collector.refused} refused, {len(records)} records")
