"""Every kind of lock and every counter, held and waited for, while their master is replaced."""
from __future__ import annotations

import contextlib
import os

import pytest

import moving
from clusters import Cluster
from deployments import PATIENT, Replicas, Watched
from keeper import EVENT_LOST
from moving import EVERY_LOCK, Contest
from resp import Closed, ErrorReply
from waiting import boottime_ns, until

COUNTERS = ("semaphore", "permits", "latch")
LEASE_MS = 12_000  # longer than a failover and what replicas need behind it
SOON_S = 5 * float(os.environ.get("LK_TEST_SLOW", "1"))


class Listed:
    """A master and two replicas, which an operator replaces."""
    kind = Replicas
    options: dict = {}

    def __init__(self, deploy):
        self.made = deploy(self.kind, **self.options)
        self.url = self.made.url

    def name(self, like: str) -> str:
        return like

    def master(self):
        return self.made.master()

    def heirs(self) -> list:
        return self.made.replicas()

    def planned(self) -> None:
        self.made.promote(self.heirs()[0])

    def killed(self) -> None:
        """Returns when the clients can find the new master, or before."""
        new, other = self.heirs()
        self.master().kill()
        new.call("REPLICAOF", "NO", "ONE")
        other.call("REPLICAOF", "127.0.0.1", new.port)


class Sentinels(Listed):
    kind = Watched
    options = {"more": PATIENT}

    def master(self):
        """Whom they name: one that was replaced may say that it is one for some seconds."""
        port = self.made.sentinels[0].names()
        return next(server for server in self.made.servers if server.port == port)

    def planned(self) -> None:
        self.made.failover()

    def killed(self) -> None:
        self.master().kill()


class Shard(Listed):
    """The first of a cluster."""
    kind = Cluster
    options: dict = {}

    def name(self, like: str) -> str:
        return self.made.name_on(0, like)

    def master(self):
        return self.made.master(0)

    def heirs(self) -> list:
        return self.made.replicas(0)

    def planned(self) -> None:
        self.made.failover(0)

    def killed(self) -> None:
        self.master().kill()


EACH = pytest.mark.parametrize("deployment", [Listed, Sentinels, Shard],
                               ids=["replicas", "sentinel", "cluster"])


class Counters:
    """A permit of each semaphore is taken, and another client waits for it; and for a latch."""

    def __init__(self, make_keeper, place):
        self.names = {kind: place.name(kind) for kind in COUNTERS}
        self.holder = make_keeper(place.url, watchdog_ms=LEASE_MS)
        self.waiter = make_keeper(place.url, watchdog_ms=LEASE_MS)
        self.holder.listen()
        for kind, name in self.names.items():
            self.holder.call("set", name, kind=kind, count=2).ok()
        self.holder.call("acquire", self.names["semaphore"], kind="semaphore", count=2).ok()
        self.ids = self.holder.call("acquire", self.names["permits"], kind="permits",
                                    count=2).ok()["ids"]
        self.holder.call("down", self.names["latch"], kind="latch", count=1).ok()
        self.waits = {kind: self.waiter.say("within", name, thread=kind, kind=kind, count=2,
                                            wait=120_000) for kind, name in self.names.items()}
        until(lambda: self.waiter.stats().waiting == len(self.names), 10, "all wait")
        until(lambda: moving.asleep(self.waiter), 20, "all have asked")

    def are_kept(self) -> None:
        for kind, verb, value in (("semaphore", "available", 0), ("permits", "taken", 2),
                                  ("permits", "available", 0), ("latch", "count", 1)):
            assert self.holder.call(verb, self.names[kind], kind=kind).result == value, (kind, verb)
        ended = [wait.answer for wait in self.waits.values() if wait.done]
        assert not ended, ended
        assert not self.holder.events_of(EVENT_LOST)

    def hand_over(self) -> None:
        """Each waiter hears of it, and the counts are what they were."""
        for kind, verb in (("semaphore", "release"), ("permits", "release"), ("latch", "down")):
            count = 1 if kind == "latch" else 2
            done = self.holder.call(verb, self.names[kind], kind=kind, count=count,
                                    ids=self.ids).ok()
            granted = self.waits[kind].result(20).ok()
            assert granted.end_ns - done.end_ns < SOON_S * 10**9, f"{kind}: it was not heard"
        for kind in ("semaphore", "permits"):
            self.waiter.call("release", self.names[kind], thread=kind, kind=kind, count=2,
                             ids=self.waits[kind].result().get("ids", "")).ok()
            assert self.holder.call("available", self.names[kind], kind=kind).result == 2, kind


@EACH
@pytest.mark.parametrize("how", ["planned", "killed"])
def test_every_kind(deploy, make_keeper, deployment, how):
    """All replicas had them, so nothing is lost, and each release is heard."""
    place = deployment(deploy)
    contest = Contest(make_keeper, place.url, {k: place.name(k) for k in EVERY_LOCK}, LEASE_MS)
    counters = Counters(make_keeper, place)
    old = place.master()
    getattr(place, how)()
    contest.holder.call("within", place.name("next"), thread="next", wait=60_000, limit=70).ok()
    assert place.master() is not old
    counters.are_kept()
    contest.is_kept()
    counters.are_kept()
    contest.hand_over()
    counters.hand_over()


def takes_writes_ns(servers: list, key: str) -> int:
    """When the first of them does."""
    def taken() -> bool:
        for server in servers:
            with contextlib.suppress(ErrorReply, OSError, Closed):  # who is promoted cuts it off
                return server.call("SET", key, 1) is not None
        return False

    until(taken, 60, "one of them takes a write")
    return boottime_ns()


@EACH
def test_no_waiter_sleeps_on(deploy, make_keeper, deployment):
    """What no replica had is free at the new master: who waits for it has it soon after that takes
    writes, and who held it is told."""
    place = deployment(deploy)
    holder, waiter = (make_keeper(place.url, replica_acks=0) for _ in range(2))
    holder.listen()
    old, heirs, name, mark = place.master(), place.heirs(), place.name("gone"), place.name("mark")
    holder.call("acquire", place.name("other"), thread="other").ok()
    moving.without_replication(old)
    holder.call("acquire", name).ok()
    waiter.call("try", name).is_code("LK_EBUSY")
    waits = waiter.say("within", name, wait=120_000)
    until(lambda: moving.asleep(waiter), 10, "it waits")
    place.killed()
    up_ns = takes_writes_ns(heirs, mark)
    granted = waits.result(30).ok()
    assert granted.end_ns - up_ns < SOON_S * 10**9, "the waiter slept on"
    moving.is_told(holder, name, SOON_S)
    holder.call("release", name).is_code("LK_ELOST")
