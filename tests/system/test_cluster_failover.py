"""redis-cluster://: a replica of a shard becomes its master, planned or not, and locks are kept."""
from __future__ import annotations

import time

import pytest

import moving
from keeper import EVENT_LOST
from moving import EVERY_LOCK, Contest
from waiting import until

HOW = ["", "FORCE", "TAKEOVER"]
IDS = ["planned", "force", "takeover"]


def names_on(cluster, index: int) -> dict[str, str]:
    return {kind: cluster.name_on(index, kind) for kind in EVERY_LOCK}


@pytest.mark.parametrize("how, messages", [*((how, "plain") for how in HOW),
                                           ("", "sharded"), ("", "both")],
                         ids=[*IDS, "sharded", "both"])
def test_a_failover_while_held(cluster, make_keeper, how, messages):
    """Twice, so that the first master has the shard again. Who was woken by mistake waits on."""
    contest = Contest(make_keeper, cluster.url, names_on(cluster, 0), 4000, messages=messages)
    for _ in range(2):
        new = cluster.failover(0, how)
        assert all(new.call("EXISTS", name) for name in contest.names.values())
    contest.is_kept()
    assert contest.holder.call("acquire", cluster.name_on(0), thread="next").ok().took < 5
    contest.hand_over()


def copy_has(replica, name: str) -> bool:
    with replica.connect() as connection:
        connection.call("READONLY")
        return connection.call("EXISTS", name) == 1


@pytest.mark.slow
def test_the_master_is_killed(clusters, make_keeper):
    """Its replica had every grant, so none is lost. A lock that was free meanwhile is granted."""
    cluster = clusters()
    contest = Contest(make_keeper, cluster.url, names_on(cluster, 0), lease_ms=12_000)
    old = cluster.master(0)
    old.kill()
    free = contest.waiter.say("within", cluster.name_on(0, "free"), thread="free", wait=60_000)
    new = cluster.switched(old)
    free.result().ok()
    assert all(new.call("EXISTS", name) for name in contest.names.values())
    contest.is_kept()
    contest.hand_over()
    old.restart()
    cluster.wait()
    later = cluster.name_on(0, "later")
    contest.holder.call("acquire", later).ok()
    until(lambda: copy_has(old, later), 10, "the old master is a replica like others")


def test_what_was_not_replicated_is_told(clusters, make_keeper):
    """Without acknowledgement it is granted all the same, and its holder is told of the loss."""
    cluster = clusters()
    keeper, other = (make_keeper(cluster.url, replica_acks=0) for _ in range(2))
    keeper.listen()
    old = cluster.master(0)
    gone, elsewhere = cluster.name_on(0, "gone"), cluster.name_on(1, "elsewhere")
    moving.without_replication(old)
    keeper.call("acquire", gone).ok()
    keeper.call("acquire", elsewhere).ok()
    other.call("try", gone).is_code("LK_EBUSY")
    waits = other.say("within", gone, wait=60_000)
    until(lambda: moving.asleep(other), 10, "it waits")
    old.kill()
    cluster.switched(old)
    waits.result(30).ok()
    moving.is_told(keeper, gone)
    keeper.call("release", gone).is_code("LK_ELOST")
    assert [event.name for event in keeper.events_of(EVENT_LOST)] == [gone]
    keeper.call("release", elsewhere).ok()


def test_other_shards_go_on(clusters, make_keeper):
    """A master hangs, and the cluster does not know. Only its own names wait for it."""
    cluster = clusters(node_timeout_ms=60_000)
    keeper = make_keeper(cluster.url, command_timeout_ms=500, watchdog_ms=2000)
    keeper.listen()
    stuck, *names = [cluster.name_on(index) for index in range(3)]
    held = [cluster.name_on(index, "held") for index in (1, 2)]
    for name in (stuck, *names):
        keeper.call("acquire", name).ok()
        keeper.call("release", name).ok()
    for name in held:
        keeper.call("acquire", name).ok()
    old = cluster.shards[0][0]
    old.pause()
    waits = keeper.say("within", stuck, thread="stuck", wait=60_000)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for name in names:
            assert keeper.call("acquire", name).ok().took < 2
            assert keeper.call("release", name).ok().took < 2
    assert not waits.done and not keeper.events
    assert all(keeper.call("is_held", name).result == 1 for name in held)
    old.resume()
    waits.result().ok()
