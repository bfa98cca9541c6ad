"""A quorum of a cluster, a master that sentinels watch, and a server, under load.

One node at a time fails over, is stopped, or gives the name's slot to another shard, and processes
are stopped beyond the lease.
"""
from __future__ import annotations

import itertools
import time

import pytest

import checker
from clusters import Cluster
from deployments import Watched
from test_cluster_slots import Move
from test_kinds import end
from waiting import until

LEASE_MS = 1000
NODES = "n0,n1,n2"


class Mixture:
    def __init__(self, folder, make_server):
        for name in ("cluster", "sentinel"):
            (folder / name).mkdir()
        self.cluster = Cluster(folder / "cluster")
        self.trio = Watched(folder / "sentinel")
        self.lone = make_server()
        self.move = Move(self.cluster)

    @property
    def urls(self) -> list[str]:
        return [self.cluster.url, self.trio.url, self.lone.url]

    def kill(self) -> None:
        self.cluster.kill()
        self.trio.kill()

    def away(self) -> None:
        self.move.to = self.cluster.master(1)
        self.move.whole()

    def faults(self, keepers: list) -> list:
        """What happens, in turn."""
        stops = [lambda victim=victim: stopped(victim) for victim in (*keepers, self.lone)]
        return [lambda: self.cluster.failover(0), stops[0], self.away, stops[1],
                self.trio.failover, lambda: stopped(self.cluster.master(1)), stops[2],
                lambda: self.cluster.failover(1, "TAKEOVER"), self.move.back, stops[3]]


def stopped(victim) -> None:
    victim.pause()
    time.sleep(1.2 * LEASE_MS / 1000)
    victim.resume()


@pytest.fixture
def mixture(folder, make_server):
    made = Mixture(folder, make_server)
    yield made
    made.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind, queue", [("red", 0), ("red-plain", 1)])
def test_never_two_owners(mixture, make_keeper, history, kind, queue):
    keepers, paths = [make_keeper() for _ in range(3)], [history() for _ in range(3)]
    for number, (keeper, path) in enumerate(zip(keepers, paths)):
        for index, url in enumerate(mixture.urls):
            keeper.open(url, c=f"n{index}", command_timeout_ms=500)
        keeper.run = keeper.say("stress", thread="s", kind=kind, c="n0", nodes=NODES,
                                name=mixture.move.name("hot"), threads=2, pairs=1_000_000,
                                run=number, lease=LEASE_MS, quarantine=LEASE_MS, queue=queue,
                                hold_us=300, pause_us=2000, history=path, capacity=400_000)

    def goes_on() -> None:
        before = sum(keeper.stats("n0").acquires for keeper in keepers)
        until(lambda: sum(keeper.stats("n0").acquires for keeper in keepers) > before + 10, 30)

    goes_on()
    for fault in itertools.chain(mixture.faults(keepers), mixture.faults(keepers)):
        fault()
        goes_on()
    assert len(checker.check(end(keepers, paths), over_allowed=6)) > 200
