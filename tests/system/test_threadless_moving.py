"""Threadless clients whose masters move: the program's turns look for them, without a thread."""
from __future__ import annotations

import pytest

import moving
from clusters import slot_of
from deployments import refused_port
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


def test_every_kind(deployment, threadless):
    user = threadless(deployment.url)
    user.use(names_of())
    assert moving.our_clients(deployment.master()) >= 1


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


def test_the_master_is_killed(watched, threadless):
    deployment = watched()
    user = threadless(deployment.url)
    user.call("acquire", "held").ok()
    old = deployment.master()
    old.kill()
    assert user.call("within", "other", wait=30_000).ok().took < 20
    assert user.call("is_held", "held").result == 1
    user.call("release", "held").ok()


def test_a_pause_ends_when_another_is_the_master(watched, threadless):
    """An attempt at the dead master failed, and the next one would be far away."""
    deployment = watched()
    user = threadless(deployment.url, replica_acks=0, backoff_min_ms=60_000, backoff_max_ms=60_000)
    user.call("acquire", "held").ok()
    deployment.master().kill()
    assert user.call("within", "other", wait=50_000).ok().took < 25


def test_nobody_answers(threadless):
    ports = [refused_port() for _ in range(2)]
    for url in ("redis-replicas://" + ",".join(f"127.0.0.1:{port}" for port in ports),
                f"redis-sentinel://127.0.0.1:{ports[0]}/m",
                f"redis-cluster://127.0.0.1:{ports[0]}"):
        user = threadless(url)
        assert str(ports[0]) in user.call("try", "some").is_code("LK_EUNREACHABLE").message


def test_a_silent_server_delays_nothing(replicas, threadless):
    """A turn waits for nobody, so one that does not answer keeps no other waiting."""
    pair = replicas(count=2)
    user = threadless(pair.url, replica_acks=0)
    pair.servers[1].pause()
    for number in range(5):
        assert user.call("acquire", f"some{number}").ok().took < 2


def test_closed_while_it_looks(threadless):
    """Nothing is left of it."""
    user = threadless(f"redis-sentinel://127.0.0.1:{refused_port()}/m")
    waits = user.say("within", "some", wait=600)
    user.keeper.call("close", how=2).is_code("OK", "LK_ECLOSED")
    waits.result(20)


# ---- a cluster ----

def test_every_kind_on_every_shard(cluster, threadless):
    user = threadless(cluster.url)
    for index in range(3):
        user.use([cluster.name_on(index, f"t{kind}") for kind in KINDS])


def test_a_slot_moves_while_held(cluster, threadless):
    holder, waiter = (threadless(cluster.url, watchdog_ms=LEASE_MS) for _ in range(2))
    name = cluster.name_on(0, "moved")
    holder.call("acquire", name).ok()
    waits = waiter.say("within", name, wait=60_000)
    until(lambda: waiter.keeper.stats().waiting == 1, 10, "it waits")
    slot, home = slot_of(name), cluster.master(0)
    cluster.move_slot(slot, cluster.master(1))
    never(lambda: waits.done, LEASE_MS / 1000 + 0.5, "another has it")
    assert holder.call("is_held", name).result == 1
    holder.call("release", name).ok()
    waits.result(20).ok()
    waiter.call("release", name).ok()
    cluster.move_slot(slot, home)


def test_a_silent_master_is_left(clusters, threadless):
    """It accepts connections and greets nobody: an attempt there would last for its whole limit."""
    cluster = clusters()
    user = threadless(cluster.url, connect_timeout_ms=60_000, command_timeout_ms=300)
    user.call("acquire", cluster.name_on(0, "held")).ok()
    cluster.master(0).pause()
    assert user.call("within", cluster.name_on(0, "free"), wait=50_000).ok().took < 25


def test_a_shard_fails_over(clusters, threadless):
    cluster = clusters()
    user = threadless(cluster.url)
    names = [cluster.name_on(index, "held") for index in range(3)]
    for name in names:
        user.call("acquire", name).ok()
    old = cluster.master(0)
    old.kill()
    free = user.say("within", cluster.name_on(0, "free"), wait=60_000)
    for _ in range(20):
        other = cluster.name_on(1, "other")
        assert user.call("acquire", other).ok().took < 2
        user.call("release", other).ok()
    free.result(60).ok()
    assert all(user.call("is_held", name).result == 1 for name in names)
