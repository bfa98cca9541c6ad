"""The red lock where one of the nodes is a cluster: the master that has the name's slot votes.

Another master of the same shard goes on with its vote. Another shard that gets the slot has none
until the longest lease is over. One of the two other nodes is stopped where the cluster's vote has
to decide.
"""
from __future__ import annotations

import os
import signal
import subprocess

import pytest

import moving
from deployments import refused_port
from keeper import BUILD, EVENT_LOST
from test_cluster import command
from test_cluster_slots import Move
from test_red_deployments import Caller
from waiting import boottime_ns, never, until

CLUSTER_NODE_TIMEOUT_MS = 3000
COMMAND = BUILD / "cli" / "lockkeeper"
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


@pytest.mark.parametrize("kind", ["red", "red-plain"])
@pytest.mark.parametrize("queue", [0, 1])
def test_its_vote_decides(quorum, kind, queue):
    """Also in the first try of a client, which has not heard of the slots yet."""
    caller = quorum.caller()
    quorum.servers[1].pause()
    for verb in ("try", "acquire"):
        caller.call(verb, lease=LEASE_MS, kind=kind, queue=queue).ok()
        assert quorum.cluster_has_it()
        caller.call("extend", lease=2 * LEASE_MS, kind=kind, queue=queue).ok()
        caller.call("release", kind=kind, queue=queue).ok()
        assert not quorum.cluster_has_it()


@pytest.mark.parametrize("how", ["", "TAKEOVER"], ids=["planned", "takeover"])
def test_a_failover_keeps_its_vote(quorum, how):
    """Every replica had each grant. The waiter knows the first master, and gets it with the vote of
    the second, long before it would trust another history."""
    remember = {"quarantine": 20_000}
    owner, waiter = (quorum.caller() for _ in range(2))
    quorum.servers[1].pause()
    owner.call("within", wait=60_000, **remember).ok()
    waits = waiter.say("within", wait=120_000, **remember)
    until(lambda: waiter.keeper.stats("n0").busy > 2, 20, "it knows them")
    begun_ns = boottime_ns()
    quorum.cluster.failover(0, how)
    owner.call("release").ok()
    assert waits.result(60).ok().end_ns - begun_ns < 20 * 10**9


def test_a_slot_that_moved_costs_the_vote(quorum):
    """With its keys, and nobody knows which replicas have them."""
    caller = quorum.knowing()
    quorum.servers[1].pause()
    moves_ns = boottime_ns()
    quorum.move.whole()
    refused = caller.call("try", lease=LEASE_MS, **REMEMBER)
    refused.is_code("LK_ENOQUORUM", "LK_EMAYBEHELD")
    assert any(words in refused.message for words in (
        "another master of the cluster has the slot now", "has taken over")), refused.message
    granted = caller.call("within", lease=LEASE_MS, wait=30_000, **REMEMBER).ok()
    assert granted.end_ns - moves_ns > QUARANTINE_MS * 10**6
    assert quorum.cluster_has_it()


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


def test_no_vote_within_a_move(quorum):
    """The new master grants what is not at the old one, and which of them has the slot changes.
    What it has granted goes back."""
    caller = quorum.knowing()
    quorum.is_free()
    quorum.servers[1].pause()
    quorum.move.begin()
    refused = caller.call("try", lease=60_000).is_code("LK_ENOQUORUM", "LK_EMAYBEHELD")
    assert "another master of the cluster has the slot now" in refused.message, refused.message
    until(lambda: quorum.move.to.call("CLUSTER", "COUNTKEYSINSLOT", quorum.move.slot) == 0, 10,
          "it is given back")
    quorum.move.keys()
    quorum.move.end()
    caller.call("within", lease=LEASE_MS, wait=20_000).ok()
    assert quorum.cluster_has_it()


def test_a_hold_outlives_moves_and_failovers(quorum):
    """It is renewed where its slot is, and released there."""
    owner, rival = (quorum.knowing(watchdog_ms=LEASE_MS) for _ in range(2))
    owner.keeper.listen("n0")
    quorum.is_free()
    quorum.servers[1].pause()
    owner.call("within", wait=20_000, **REMEMBER).ok()
    waits = rival.say("within", wait=200_000, **REMEMBER)
    for step in (lambda: quorum.cluster.failover(0), quorum.move.whole,
                 lambda: quorum.cluster.failover(1), quorum.move.back):
        step()
        assert quorum.cluster_has_it()
        never(lambda: waits.done and dict(waits.result()), LEASE_MS / 1000 + 0.5, "another has it")
        assert owner.call("is_held").result == 1
    assert not owner.keeper.events_of(EVENT_LOST)
    owner.call("release").ok()
    quorum.servers[1].resume()
    waits.result(20).ok()


def test_a_lost_connection_puts_it_in_doubt(quorum):
    """Two nodes have lost the lock. Nothing would be renewed for 10 s. No renewal waits for a
    replica: it would believe what the others had said before they lost it."""
    owner = quorum.caller(replica_acks="0")
    owner.keeper.listen("n0")
    owner.call("acquire").ok()
    until(quorum.cluster_has_it, 10, "the cluster has it")
    master = quorum.at()
    until(lambda: moving.asleep(owner.keeper), 20, "its connections are up, and it has looked")
    assert master.call("DEL", quorum.name) == quorum.servers[0].call("DEL", quorum.name) == 1
    master.call("CLIENT", "KILL", "TYPE", "normal")
    until(lambda: owner.keeper.events_of(EVENT_LOST), 5, "its holder is told")


def test_a_master_is_stopped_while_it_is_held(quorum):
    """Its replica takes over, and gets the lock; with two other nodes the majority goes."""
    owner = quorum.knowing(watchdog_ms=LEASE_MS, command_timeout_ms=1000)
    owner.keeper.listen("n0")
    owner.call("within", wait=20_000, **REMEMBER).ok()
    until(quorum.cluster_has_it, 10, "the cluster has it")
    old = quorum.at()
    old.pause()
    until(lambda: quorum.at() is not old, 60, "another is the master")
    until(quorum.cluster_has_it, 20, "the new master has it")
    old.resume()
    quorum.cluster.wait()
    assert owner.call("is_held").result == 1 and not owner.keeper.events_of(EVENT_LOST)
    for server in quorum.servers:
        server.kill()
    until(lambda: owner.keeper.events_of(EVENT_LOST), 3 * LEASE_MS / 1000, "its holder is told")


def test_the_command_over_a_mixture(quorum, watched):
    """One list of URLs, some of which list addresses themselves. Two of the nodes decide."""
    trio, lone = watched(count=2), quorum.servers[0]
    nodes = {"cluster": quorum.cluster_has_it,
             "sentinel": lambda: trio.master().call("EXISTS", quorum.name),
             "single": lambda: lone.call("EXISTS", quorum.name)}
    listed = ",".join([quorum.cluster.url, trio.url, lone.url])
    job = ("-l", "2s", "--quarantine", "2s", quorum.name, "sleep", "600")
    with subprocess.Popen([COMMAND, "run", *job], env={**os.environ, "LOCKKEEPER_URL": listed},
                          stdin=subprocess.DEVNULL) as process:
        until(lambda: all(has() for has in nodes.values()), 30, "each node has it")
        lone.pause()
        assert command(quorum.cluster, "run", "-n", *job, url=listed).returncode == 124
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert not nodes["cluster"]() and not nodes["sentinel"]()


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
