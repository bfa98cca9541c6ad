"""A latch that C and Java count down and wait for."""
from __future__ import annotations

import pytest

from waiting import until

SOON_S = 3.0
NAME = "ready"
CHANNEL = f"redisson_countdownlatch__channel__{{{NAME}}}"


@pytest.fixture(params=["ours-java", "java-ours"])
def pair(request, ours, java):
    """The two libraries in both roles."""
    return (ours, java) if request.param == "ours-java" else (java, ours)


def latch(keeper, verb: str, **options):
    return keeper.call(verb, NAME, kind="latch", **options)


def waiters(server, *keepers) -> list:
    """One of each that waits, when all listen."""
    pending = [keeper.say("acquire", NAME, kind="latch", thread="waiter") for keeper in keepers]
    until(lambda: server.call("PUBSUB", "NUMSUB", CHANNEL)[1] >= len(keepers), 10)
    return pending


def all_soon(pending, since) -> None:
    for one in pending:
        assert (one.result().ok()["end_ns"] - since["start_ns"]) / 1e9 < SOON_S


def test_both_count_down_and_both_wait(server, pair):
    """Redisson's await has no timer: it goes on by our message or not at all."""
    first, second = pair
    assert latch(first, "set", count=4).ok()["result"] == 1
    assert latch(second, "set", count=9).ok()["result"] == 0
    pending = waiters(server, first, second)
    for number, keeper in enumerate((first, second, first)):
        latch(keeper, "down").ok()
        assert latch(second, "count").ok()["result"] == 3 - number
        assert not any(one.done for one in pending)
    down = latch(second, "down").ok()
    all_soon(pending, down)
    assert latch(first, "count").ok()["result"] == 0
    latch(first, "acquire").ok()


def test_deleted_latch_is_open(server, pair):
    """Redisson's own deletion leaves its waiters where they are; ours wakes them as well."""
    first, second = pair
    latch(first, "set", count=2).ok()
    pending = waiters(server, second)
    deleted = latch(first, "delete").ok()
    assert deleted["result"] == 1
    all_soon(pending, deleted)


def test_wait_limits(pair):
    first, second = pair
    latch(first, "set", count=1).ok()
    for keeper in pair:
        latch(keeper, "within", wait=200).is_code("LK_ETIMEDOUT")
    latch(second, "down").ok()
    for keeper in pair:
        latch(keeper, "within", wait=200).ok()


def test_no_waiter_goes_on_early(ours, java):
    """Twice sixty are counted by both at once: the latch opens at the last one, and is used again.
    """
    for count in (60, 60):
        latch(ours, "set", count=count).ok()
        pending = [keeper.say("acquire", NAME, kind="latch", thread=f"waiter{number}")
                   for keeper in (ours, java) for number in range(3)]
        downs = [keeper.say("down", NAME, kind="latch", thread=f"down{number % 5}")
                 for number in range(count // 2) for keeper in (ours, java)]
        counted = [down.result().ok() for down in downs]
        opened_ns = max(answer["start_ns"] for answer in counted)
        for one in pending:
            assert one.result().ok()["end_ns"] >= opened_ns
        assert latch(java, "count").ok()["result"] == 0
