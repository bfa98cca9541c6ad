"""Semaphores and permit semaphores of C and of Java on one name."""
from __future__ import annotations

import time

import pytest

import mixed
from servers import Subscriber
from waiting import boottime_ns, until

SOON_S = 3.0
NAME = "pool"
CHANNEL = f"redisson_sc:{{{NAME}}}"
BOTH = pytest.mark.parametrize("kind", ["semaphore", "permits"])


@pytest.fixture(params=["ours-java", "java-ours"])
def pair(request, ours, java):
    """The two libraries in both roles."""
    return (ours, java) if request.param == "ours-java" else (java, ours)


def call(keeper, verb: str, kind: str, thread: str = "main", **options):
    return keeper.call(verb, NAME, kind=kind, thread=thread, **options)


def free(keeper, kind: str) -> int:
    return call(keeper, "available", kind).ok()["result"]


def listening(server, count: int = 1) -> None:
    until(lambda: server.call("PUBSUB", "NUMSUB", CHANNEL)[1] >= count, 10)


@BOTH
def test_one_sets_the_other_takes(pair, kind):
    first, second = pair
    assert call(first, "set", kind, count=3).ok()["result"] == 1
    assert call(second, "set", kind, count=9).ok()["result"] == 0
    mine = call(second, "try", kind, count=2).ok()
    assert free(first, kind) == 1
    call(first, "try", kind, count=2).is_code("LK_EBUSY")
    other = call(first, "try", kind).ok()
    call(second, "within", kind, wait=100).is_code("LK_ETIMEDOUT")
    # Whoever gives them back.
    call(first, "release", kind, count=2, ids=mine.get("ids", "")).ok()
    call(second, "release", kind, ids=other.get("ids", "")).ok()
    assert free(first, kind) == free(second, kind) == 3


@BOTH
def test_released_permit_wakes_the_other(server, pair, kind):
    first, second = pair
    call(first, "set", kind, count=1).ok()
    taken = call(first, "try", kind).ok()
    pending = second.say("acquire", NAME, kind=kind, thread="waiter")
    listening(server)
    released = call(first, "release", kind, ids=taken.get("ids", "")).ok()
    assert (pending.result().ok()["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    assert free(first, kind) == 0


@BOTH
def test_we_are_woken_by_a_message(server, ours, java, kind):
    """Ours looks each second as well; the message is to be sooner."""
    call(java, "set", kind, count=1).ok()
    woken_s = []
    for _ in range(5):
        taken = call(java, "try", kind).ok()
        pending = ours.say("acquire", NAME, kind=kind, thread="waiter")
        listening(server)
        released = call(java, "release", kind, ids=taken.get("ids", "")).ok()
        answer = pending.result().ok()
        woken_s.append((answer["end_ns"] - released["start_ns"]) / 1e9)
        call(ours, "release", kind, ids=answer.get("ids", "")).ok()
    assert min(woken_s) < 0.5, woken_s
    assert ours.stats()["messages"] >= 1


@BOTH
def test_added_permits_wake_both(server, pair, kind):
    first, second = pair
    call(first, "set", kind, count=0).ok()
    waiters = [keeper.say("acquire", NAME, kind=kind, thread="waiter") for keeper in pair]
    listening(server, 2)
    added = call(second, "add", kind, count=2).ok()
    for waiter in waiters:
        assert (waiter.result().ok()["end_ns"] - added["start_ns"]) / 1e9 < SOON_S


@BOTH
def test_waiter_for_two(server, pair, kind):
    """Goes on when both are free, given back one by one."""
    first, second = pair
    call(first, "set", kind, count=2).ok()
    taken = [call(first, "try", kind).ok() for _ in range(2)]
    pending = second.say("acquire", NAME, kind=kind, thread="waiter", count=2)
    listening(server)
    call(first, "release", kind, ids=taken[0].get("ids", "")).ok()
    assert not pending.done
    released = call(first, "release", kind, ids=taken[1].get("ids", "")).ok()
    assert (pending.result().ok()["end_ns"] - released["start_ns"]) / 1e9 < SOON_S


@BOTH
def test_never_more_out_than_there_are(ours, java, history, kind):
    mixed.take_permits(ours, java, history, NAME, kind, (200, 80))


def test_negative_numbers_are_not_published(server, ours, java):
    """Redisson's listener would end on one: its waiter is to live, and be woken afterwards."""
    call(ours, "set", "semaphore", count=0).ok()
    pending = java.say("acquire", NAME, kind="semaphore", thread="waiter")
    listening(server)
    subscriber = Subscriber(server, CHANNEL)
    call(ours, "add", "semaphore", count=-2).ok()
    assert free(java, "semaphore") == -2
    call(ours, "release", "semaphore").ok()
    call(ours, "add", "semaphore", count=2).ok()
    pending.result().ok()
    subscriber.stop()
    assert all(int(message) >= 0 for message in subscriber.messages), subscriber.messages


def test_drain(pair):
    first, second = pair
    call(first, "set", "semaphore", count=4).ok()
    assert call(second, "drain", "semaphore").ok()["result"] == 4
    call(first, "try", "semaphore").is_code("LK_EBUSY")


def test_each_ends_and_extends_the_others_permit(pair):
    first, second = pair
    call(first, "set", "permits", count=1).ok()
    permit = call(first, "within", "permits", wait=1000, lease=20000).ok()["ids"]
    assert 10000 < call(second, "lease", "permits", ids=permit).ok()["value"] <= 20000
    call(second, "extend", "permits", ids=permit, lease=60000).ok()
    assert 50000 < call(first, "lease", "permits", ids=permit).ok()["value"] <= 60000
    assert call(second, "taken", "permits").ok()["result"] == 1
    call(second, "release", "permits", ids=permit).ok()
    assert free(first, "permits") == 1


def test_permit_comes_back_with_its_lease(pair):
    first, second = pair
    call(first, "set", "permits", count=1).ok()
    taken = call(first, "within", "permits", wait=1000, lease=700).ok()
    granted = call(second, "acquire", "permits", thread="waiter").ok()
    assert 0.69 <= (granted["end_ns"] - taken["start_ns"]) / 1e9 < 0.7 + SOON_S


def test_permit_without_end_is_respected(ours, java):
    """Java's permits without a lease are for ever, in its own number."""
    call(java, "set", "permits", count=1).ok()
    permit = call(java, "acquire", "permits").ok()["ids"]
    call(ours, "within", "permits", wait=500).is_code("LK_ETIMEDOUT")
    assert call(ours, "lease", "permits", ids=permit).ok()["value"] == -1
    call(ours, "release", "permits", ids=permit).ok()
    call(ours, "try", "permits").ok()


def test_our_watchdog_keeps_a_permit(make_ours, java):
    ours = make_ours(watchdog_ms=1000)
    call(ours, "set", "permits", count=1).ok()
    permit = call(ours, "acquire", "permits").ok()["ids"]
    call(java, "within", "permits", wait=2200).is_code("LK_ETIMEDOUT")
    call(ours, "release", "permits", ids=permit).ok()
    call(java, "try", "permits").ok()


def test_killed_processes_give_their_permits_back(make_ours, make_jvm, ours, java):
    """Ours by its watchdog that has ended, Java's by its lease."""
    doomed, dead_jvm = make_ours(watchdog_ms=1200), make_jvm()
    call(doomed, "set", "permits", count=2).ok()
    call(doomed, "acquire", "permits").ok()
    call(dead_jvm, "within", "permits", wait=1000, lease=1200).ok()
    doomed.kill()
    dead_jvm.kill()
    killed_ns = boottime_ns()
    for keeper in (java, ours):
        granted = call(keeper, "acquire", "permits", thread="waiter").ok()
        assert (granted["end_ns"] - killed_ns) / 1e9 < 1.2 + SOON_S
    assert free(ours, "permits") == 0


def test_clocks_of_the_permit_ends(server, ours, java):
    """Java writes its own wall clock, ours the server's: on one machine they are the same."""
    call(java, "set", "permits", count=2).ok()
    call(java, "within", "permits", wait=1000, lease=30000).ok()
    call(ours, "within", "permits", wait=1000, lease=30000).ok()
    ends = server.call("ZRANGE", f"{{{NAME}}}:timeout", 0, -1, "WITHSCORES")[1::2]
    assert all(0 < float(end) - time.time() * 1000 <= 30000 for end in ends), ends
