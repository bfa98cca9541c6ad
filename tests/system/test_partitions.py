"""The network is parted, and what was parted comes together again: the locks of each deployment.

A holder that is about to be cut off from its lock renews it; somebody on the other side wants it.
Judged from outside: the other is granted it only when the holder says no more that it holds it, and
the holder was told by then. When the network is whole again, both agree.
"""
from __future__ import annotations

import contextlib

import pytest

import moving
import networks
from clusters import Cluster
from deployments import Replicas, Watched
from keeper import DRIVER, EVENT_AT_RISK, EVENT_LOST
from resp import ErrorReply
from waiting import never, until

LEASE_MS = 3000
PATIENCE_MS = 90_000


@pytest.fixture(scope="module")
def sites():
    """The master's, that of all other servers, and the client's."""
    reason = networks.why_not()
    if reason:
        pytest.skip(reason)
    made = networks.Networks("old", "rest", "client")
    yield made
    made.close()


@pytest.fixture
def network(sites):
    yield sites
    sites.heal()


class Listed:
    """A master and two replicas. Nobody replaces it but an operator."""
    kind = Replicas

    def __init__(self, deploy, site, **options):
        self.made = deploy(self.kind, site=site, **options)
        self.old, self.name = self.made.servers[0], "held"

    @property
    def url(self) -> str:
        return self.made.url

    def fresh(self, like: str) -> str:
        return like

    def replaced(self):
        """The new master, on the other side."""
        new, third = self.made.servers[1:]
        new.call("REPLICAOF", "NO", "ONE")
        third.call("REPLICAOF", *self.made.place(new).split())
        return new

    def old_has(self, name: str) -> bool:
        with contextlib.suppress(ErrorReply):  # a node that is cut off from a cluster says nothing
            return self.old.call("EXISTS", name) == 1
        return False

    def healed(self, new) -> None:
        self.old.call("REPLICAOF", *self.made.place(new).split())


class Sentinels(Listed):
    kind = Watched

    def replaced(self):
        far = self.made.sentinels[1:]
        until(lambda: all(s.names() != self.old.port for s in far), 60, "another is the master")
        return next(server for server in self.made.servers if server.port == far[0].names())

    def healed(self, new) -> None:
        until(lambda: not self.made.is_master(self.old), 60, "the old master is demoted")


class Slots(Listed):
    kind = Cluster

    def __init__(self, deploy, site, **options):
        self.made = deploy(self.kind, site=site, **options)
        self.old = self.made.master(0)
        self.name = self.fresh("held")

    def fresh(self, like: str) -> str:
        return self.made.name_on(0, like)

    def replaced(self):
        heir = self.made.shards[0][1]
        until(lambda: heir.view()[heir.id].slots, 60, "its replica has its slots")
        return heir

    def healed(self, new) -> None:
        self.made.wait()


EACH = pytest.mark.parametrize("deployment", [Listed, Sentinels, Slots],
                               ids=["replicas", "sentinel", "cluster"])


class Sides:
    """A holder on one side and one who wants its lock on the other."""

    def __init__(self, holder, other, name: str):
        self.holder, self.other, self.name = holder, other, name
        holder.listen()
        holder.call("acquire", name).ok()
        other.call("try", name).is_code("LK_EBUSY")
        self.waits = other.say("within", name, wait=PATIENCE_MS)
        self.believed_ns = 0

    def holds(self) -> bool:
        """Whether the holder says so; and when it began to say so last."""
        answer = self.holder.call("is_held", self.name, thread="main")
        if answer.result == 1:
            self.believed_ns = answer.start_ns
        return answer.result == 1

    def is_lost_before_another_has_it(self) -> None:
        """And it was told: first of the risk, then of the loss."""
        until(lambda: not self.holds(), 60, "the holder has lost it")
        granted = self.waits.result(PATIENCE_MS / 1000).ok()
        assert granted.end_ns > self.believed_ns, "two owners"
        moving.is_told(self.holder, self.name, 1)
        assert self.holder.events_of(EVENT_AT_RISK, self.name), "it was told of the risk"
        assert not self.holds()

    def is_kept(self, lease_ms: int) -> None:
        """For longer than the lease that it had."""
        never(lambda: self.waits.done or not self.holds(), lease_ms / 1000 + 0.5, "it is lost")
        assert not self.holder.events_of(EVENT_LOST)

    def agree(self, server) -> None:
        """One has it, both say who, and so does the server."""
        loser, winner = self.holder, self.other
        loser.call("release", self.name).is_code("LK_ELOST")
        loser.call("try", self.name).is_code("LK_EBUSY")
        assert winner.call("is_held", self.name).result == 1
        assert len(server.holders(self.name)) == 1
        waits = loser.say("within", self.name, wait=PATIENCE_MS)
        winner.call("release", self.name).ok()
        waits.result(60).ok()

    def can_lock(self, name: str) -> None:
        self.holder.call("within", name, wait=30_000, limit=40).ok()


def sides_of(network, place, make_keeper, lease_ms: int = LEASE_MS, **options) -> Sides:
    """The holder in the client's network, the other in that of the rest."""
    holder, other = (make_keeper(place.url, program=(*network[name].prefix, DRIVER),
                                 watchdog_ms=lease_ms, command_timeout_ms=1000, **options)
                     for name in ("client", "rest"))
    return Sides(holder, other, place.name)


def test_client_with_master_and_a_sentinel(network, deploy, make_keeper):
    """That one sees replicas down of which the others make a master."""
    place = Sentinels(deploy, lambda number: network["old" if number in (0, 3) else "rest"])
    assert place.made.sentinels[0].host == place.old.host
    stays_alone(network, sides_of(network, place, make_keeper), place)


def stays_alone(network, sides, place) -> None:
    network.cut_off("rest")
    new = place.replaced()
    early = sides.holder.call("within", place.fresh("early"), thread="early", wait=2000)
    assert early.code != "OK", "the old master alone has granted it"
    sides.is_lost_before_another_has_it()
    network.heal()
    place.healed(new)
    sides.can_lock(place.fresh("again"))
    sides.agree(new)


@EACH
def test_client_with_master(network, deploy, make_keeper, deployment):
    """Both are cut off from the rest, where another becomes the master. The old one alone is not
    enough for a grant, nor to renew one."""
    place = deployment(deploy, lambda number: network["rest" if number else "old"])
    sides = sides_of(network, place, make_keeper,
                     **({"replica_acks": 1} if deployment is Listed else {}))
    stays_alone(network, sides, place)
