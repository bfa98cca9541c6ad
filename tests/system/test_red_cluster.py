"""The red lock where one of the nodes is a cluster: the master that has the name's slot votes.

Another master of the same shard goes on with its vote. Another shard that gets the slot has none
until the longest lease is over. One of the two other nodes is stopped where the cluster's vote has
to decide.
"""
from __future__ import annotations

import pytest

from deployments import refused_port
from test_cluster_slots import Move
from test_red_deployments import Caller
from waiting import boottime_ns, until

LEASE_MS = 3000
QUARANTINE_MS = 5000  # longer than any lease here
REMEMBER = {"quarantine": QUARANTINE_MS}


class Quorum:
    """A cluster and two servers. The name's slot is in the first shard, and goes to the second."""

    def __init__(self, move: Move, servers: list, make_keeper):
        self.move, self.cluster, self.servers = move, move.cluster, servers
        self.name, self.make_keeper = move.name("q"), make_keeper

    def caller(self, *urls: str, **options) -> Caller:
        keeper = self.make_keeper()
        urls = urls or (self.cluster.url, *(server.url for server in self.servers))
        for number, url in enumerate(urls):
            keeper.open(url, c=f"n{number}", **options)
        return Caller(keeper, self.name)

    def knowing(self, **options) -> Caller:
        """To its client the cluster is known: it was granted with its vote, without the last's."""
        caller = self.caller(**options)
        self.servers[1].pause()
        caller.votes(**REMEMBER)
        self.servers[1].resume()
        return caller

    def at(self):
        return self.cluster.node_of(self.name)

    def cluster_has_it(self) -> bool:
        return self.at().call("EXISTS", self.name) == 1

    def is_free(self) -> None:
        until(lambda: not self.cluster_has_it() and
              not any(server.call("EXISTS", self.name) for server in self.servers), 10, "no key")


@pytest.fixture
def quorum(cluster, make_server, make_keeper):
    move = Move(cluster)
    yield Quorum(move, [make_server() for _ in range(2)], make_keeper)
    move.back()


def test_a_slot_that_moved_without_its_keys(quorum):
    """The owner has the cluster and one server, another reaches the cluster and the other server.
    It gets the lock when the lease is over, and not before."""
    rival = quorum.knowing()
    owner = quorum.caller(quorum.cluster.url, quorum.servers[0].url,
                          f"redis://127.0.0.1:{refused_port()}")
    quorum.is_free()
    granted = owner.call("within", lease=LEASE_MS, wait=20_000, **REMEMBER).ok()
    quorum.move.begin()
    assert quorum.at().call("DEL", quorum.name) == 1
    quorum.move.end()
    rival.call("within", lease=LEASE_MS, wait=100, **REMEMBER).is_code(
        "LK_ENOQUORUM", "LK_ETIMEDOUT", "LK_EMAYBEHELD")
    rival.call("within", lease=LEASE_MS, wait=30_000, **REMEMBER).ok()
    assert boottime_ns() > granted.deadline_ns


def test_one_cluster_twice(quorum):
    """By other nodes of it, or by a node's own address: one vote, whoever has the slot."""
    url, one = quorum.cluster.url, quorum.servers[1]
    one.pause()
    last = f"redis-cluster://127.0.0.1:{quorum.cluster.nodes[-1].port}"
    replica = quorum.cluster.replicas(0)[0]
    for other in (last, quorum.at().url, replica.url, quorum.cluster.master(1).url):
        for urls in ((url, other, one.url), (other, one.url, url)):
            seen = quorum.caller(*urls).call("within", wait=5000).is_code("LK_EINVAL")
            assert "are one cluster" in seen.message and other in seen.message, seen.message
    one.resume()
    quorum.is_free()
