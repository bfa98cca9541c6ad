"""Nodes and sentinels start again at other addresses, until nobody is left at those of the URL."""
from __future__ import annotations

import pytest

from clusters import PATIENT_MS
from deployments import MASTER
from waiting import never, until

SHARDS = range(3)


def is_known(keeper, cluster) -> bool:
    """A lock of each shard is granted. Its master may have begun anew, without those of before."""
    return all(keeper.call("within", cluster.name_on(index), wait=1000)["code"] == "OK"
               for index in SHARDS)


@pytest.mark.slow
@pytest.mark.parametrize("listed", [6, 1])
def test_every_node_of_a_cluster_moves(clusters, make_keeper, listed):
    """One after the other. They keep their ids; the client finds each by the words of the others.
    A failover afterwards is followed too."""
    cluster = clusters(node_timeout_ms=PATIENT_MS)
    url = "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:listed])
    keeper = make_keeper(url, command_timeout_ms=500)
    until(lambda: is_known(keeper, cluster), 20, "all are found")
    for node in cluster.nodes:
        node.restart_elsewhere()
        cluster.wait()
        until(lambda: is_known(keeper, cluster), 20, f"all are found when {node.port} has moved")
    for index in SHARDS:
        cluster.failover(index)
    until(lambda: is_known(keeper, cluster), 20, "the new masters are found")


@pytest.mark.parametrize("listed", [3, 1])
def test_every_sentinel_moves(watched, make_keeper, listed):
    """The client hears of a failover from them, where nobody of the URL is left."""
    trio = watched()
    places = ",".join(f"127.0.0.1:{each.port}" for each in trio.sentinels[:listed])
    keeper = make_keeper(f"redis-sentinel://{places}/{MASTER}")
    keeper.call("acquire", "before").ok()
    for sentinel in trio.sentinels:
        sentinel.restart_elsewhere()
        until(lambda: all(trio.knows_all(each) for each in trio.sentinels), 30, "they are three")
        until(lambda each=sentinel: each.clients("pubsub"), 20, "it is found where it is now")
    old = trio.master()
    old.kill()
    trio.switched(old)
    keeper.call("within", "after", wait=20_000).ok()


def test_an_outage_longer_than_any_round(clusters, make_keeper):
    """Nobody of the URL comes back. Those that others had named are not forgotten while there is
    nobody who could name them."""
    cluster = clusters(node_timeout_ms=60_000)
    seed, others = cluster.nodes[5], cluster.nodes[:5]
    keeper = make_keeper(f"redis-cluster://127.0.0.1:{seed.port}", command_timeout_ms=500)
    until(lambda: is_known(keeper, cluster), 20, "all are found")
    seed.kill()
    for node in others:
        node.pause()
    waits = keeper.say("within", cluster.name_on(0), thread="w", wait=60_000)
    never(lambda: waits.done, 8, "who is paused grants nothing")
    for node in others:
        node.resume()
    waits.result(20).ok()


def test_the_last_sentinel(watched, make_keeper):
    """Nobody names it any more, and it was not listed."""
    trio = watched()
    keeper = make_keeper(f"redis-sentinel://127.0.0.1:{trio.sentinels[0].port}/{MASTER}")
    keeper.call("acquire", "before").ok()
    until(lambda: all(each.clients("pubsub") for each in trio.sentinels), 10, "it hears all")
    for sentinel in trio.sentinels[:2]:
        sentinel.kill()
    last = trio.sentinels[2]
    never(lambda: not last.clients("pubsub"), 8, "it is forgotten")
    old = trio.master()
    new = trio.replicas()[0]
    trio.promote(new)
    last.call("SENTINEL", "REMOVE", MASTER)
    last.call("SENTINEL", "MONITOR", MASTER, "127.0.0.1", new.port, 1)
    keeper.call("within", "after", wait=20_000).ok()
    assert new.call("EXISTS", "after") and old is not new
