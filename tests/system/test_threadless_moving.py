"""Threadless clients whose masters move: the program's turns look for them, without a thread."""
from __future__ import annotations

import pytest

import moving
from keeper import Keeper
from waiting import never, until

KINDS = ("lock", "fair", "fenced", "spin", "plain", "read", "write")
LEASE_MS = 3000


class Threadless:
    """One process with one such client; all its calls go through a completion queue."""

    def __init__(self, keeper: Keeper, url: str, **options):
        self.keeper = keeper
        keeper.open(url, threadless=1, **options)

    def say(self, verb: str, name: str, **arguments):
        return self.keeper.say(verb, name, queue=1, **arguments)

    def call(self, verb: str, name: str, **arguments):
        return self.say(verb, name, **arguments).result(60)

    def use(self, names: list[str]) -> None:
        for name, kind in zip(names, KINDS):
            self.call("acquire", name, kind=kind).ok()
        for name, kind in zip(names, KINDS):
            self.call("release", name, kind=kind).ok()


@pytest.fixture
def threadless(make_keeper):
    return lambda url, **options: Threadless(make_keeper(), url, **options)


def names_of(prefix: str = "n") -> list[str]:
    return [f"{prefix}{kind}" for kind in KINDS]


@pytest.fixture(params=["replicas", "sentinel"])
def deployment(request, replicas, watched):
    return replicas(count=3) if request.param == "replicas" else watched()


def move(deployment):
    """Another server becomes the master, as planned. Returns it."""
    if hasattr(deployment, "failover"):
        return deployment.failover()
    new = deployment.replicas()[0]
    deployment.promote(new)
    return new


def test_no_thread(deployment, threadless, make_server):
    """As many as a client of a lone server has, which has none of its own."""
    lone, user = threadless(make_server().url), threadless(deployment.url)
    for each in (lone, user):
        each.use(names_of())
    assert moving.threads(lone.keeper) == moving.threads(user.keeper)


def test_moved_while_held_and_waited_for(deployment, threadless):
    holder, waiter = (threadless(deployment.url, watchdog_ms=LEASE_MS) for _ in range(2))
    holder.call("acquire", "held").ok()
    waits = waiter.say("within", "held", wait=120_000)
    until(lambda: waiter.keeper.stats().waiting == 1, 10, "it waits")
    new = move(deployment)
    never(lambda: waits.done, LEASE_MS / 1000 + 0.5, "another has it")
    assert holder.call("is_held", "held").result == 1
    assert holder.call("within", "other", wait=20_000).ok().took < 10
    holder.call("release", "held").ok()
    waits.result(20).ok()
    assert new.holders("held")


def test_a_silent_server_delays_nothing(replicas, threadless):
    """A turn waits for nobody, so one that does not answer keeps no other waiting."""
    pair = replicas(count=2)
    user = threadless(pair.url, replica_acks=0)
    pair.servers[1].pause()
    for number in range(5):
        assert user.call("acquire", f"some{number}").ok().took < 2


# ---- a cluster ----
