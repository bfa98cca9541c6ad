"""Redisson and we in one cluster: its messages are sharded there, by its default."""
from __future__ import annotations

import pathlib
import tempfile

import pytest

import checker
import mixed
from clusters import Cluster
from waiting import until

KINDS = ["lock", "fair", "write", "fenced-java"]
SOON_S = 3.0  # a waiter woken by the end of a lease would need 30


@pytest.fixture(scope="module")
def cluster():
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        made = Cluster(pathlib.Path(folder), replicas=0)
        yield made
        made.kill()


@pytest.fixture(params=["sharded", "both"])
def ours(make_ours, cluster, request):
    return make_ours(cluster.url, messages=request.param)


@pytest.fixture
def java(jvm, cluster):
    jvm.open(f"redis-cluster://127.0.0.1:{cluster.nodes[0].port}")
    yield jvm
    jvm.call("close", thread="-")


def wakes(cluster, giver, taker, kind: str) -> None:
    for index in range(3):
        name = cluster.name_on(index, kind)
        giver.call("acquire", name, kind=kind).ok()
        waits = taker.say("acquire", name, kind=kind, thread="waiter")
        until(lambda node=cluster.node_of(name), like=name.encode(): any(
            like in channel for channel in node.call("PUBSUB", "SHARDCHANNELS")), 10, "it listens")
        released = giver.call("release", name, kind=kind).ok()
        assert (waits.result().ok().end_ns - released.start_ns) / 1e9 < SOON_S
        taker.call("release", name, kind=kind, thread="waiter").ok()


@pytest.mark.parametrize("kind", KINDS)
def test_java_is_woken_by_our_release(cluster, ours, java, kind):
    wakes(cluster, ours, java, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_we_are_woken_by_javas_release(cluster, ours, java, kind):
    wakes(cluster, java, ours, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_exclusion_under_load(ours, java, history, kind):
    claims = checker.check(mixed.contend(ours, java, history, kind=kind, hold_us=200,
                                         ours_pairs=100, theirs_pairs=50, pause_us=300))
    assert mixed.switches(claims) > 10


@pytest.mark.parametrize("kind", ["semaphore", "permits"])
def test_a_permit_of_the_other_wakes(cluster, ours, java, kind):
    for giver, taker in ((ours, java), (java, ours)):
        name = cluster.name_on(2, kind)
        ours.call("set", name, kind=kind, count=1).ok()
        ids = giver.call("acquire", name, kind=kind, count=1).ok().get("ids", "")
        waits = taker.say("acquire", name, kind=kind, count=1, thread="waiter")
        until(lambda node=cluster.node_of(name): node.call("PUBSUB", "SHARDCHANNELS"), 10)
        released = giver.call("release", name, kind=kind, count=1, ids=ids).ok()
        assert (waits.result().ok().end_ns - released.start_ns) / 1e9 < SOON_S
