"""Clusters that change as a whole: their nodes are replaced, their slots served by nobody, their
addresses of another kind."""
from __future__ import annotations

from types import SimpleNamespace

import pytest

import moving
from clusters import PATIENT_MS, slot_of
from keeper import EVENT_LOST
from moving import takes_each
from rights import need_ipv6
from waiting import until


@pytest.mark.slow
def test_every_node_of_the_url_is_replaced(clusters, make_keeper):
    """By new ones, with ids of their own. The locks are kept, and a waiter hears of the release."""
    cluster = clusters(node_timeout_ms=5000)  # about as long as news take to get around
    url = "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.shards[0])
    before = set(cluster.shards[0])
    holder, waiter = (make_keeper(url, watchdog_ms=60_000) for _ in range(2))
    holder.listen()
    name = cluster.name_on(0)
    holder.call("acquire", name).ok()
    wait = waiter.say("within", name, thread="waits", wait=300_000)
    until(lambda: moving.asleep(waiter), 20, "it has asked")
    cluster.replace(0)
    assert before.isdisjoint(cluster.nodes)
    takes_each(holder, cluster)
    assert not holder.events_of(EVENT_LOST) and not wait.done
    released = holder.call("release", name).ok()
    granted = wait.result(60).ok()
    assert granted.end_ns - released.end_ns < 10 * 10**9, "it was not heard"


@pytest.mark.parametrize("held", [True, False])
def test_a_slot_that_nobody_serves(clusters, make_keeper, held):
    """The whole cluster is down then (cluster-require-full-coverage). A try says so, a wait goes on
    when it is up again, and what is held meanwhile is kept."""
    cluster = clusters(node_timeout_ms=PATIENT_MS)
    keeper, name = make_keeper(cluster.url, watchdog_ms=30_000), cluster.name_on(0)
    keeper.listen()
    takes_each(keeper, cluster)
    if held:
        keeper.call("acquire", name).ok()
    slot, owner = slot_of("nobody's"), cluster.node_of("nobody's")
    for node in cluster.nodes:
        node.call("CLUSTER", "DELSLOTS", slot)
    until(lambda: not any(node.is_ok() for node in cluster.nodes), 20, "it is down")
    if not held:
        answer = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
        assert "CLUSTERDOWN" in answer.message
    wait = keeper.say("within", cluster.name_on(1), thread="waits", wait=60_000)
    until(lambda: keeper.stats().waiting == 1, 5, "it waits")
    owner.call("CLUSTER", "ADDSLOTS", slot)
    until(lambda: all(node.is_ok() for node in cluster.masters()), 30, "it is up")
    wait.result(20).ok()
    keeper.call("within", "nobody's", wait=20_000).ok()
    assert not held or keeper.call("is_held", name).result == 1
    assert not keeper.events_of(EVENT_LOST)


def test_ipv6(clusters, make_keeper):
    """The map and the redirects have addresses with colons."""
    need_ipv6()
    site = SimpleNamespace(host="::1", prefix=())
    cluster = clusters(node_timeout_ms=PATIENT_MS, site=lambda number: site)
    keeper = make_keeper(f"redis-cluster://[::1]:{cluster.nodes[0].port}")
    takes_each(keeper, cluster)
    cluster.failover(0)
    takes_each(keeper, cluster)
