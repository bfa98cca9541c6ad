"""A latch never opens early, whatever happens to those who count it down."""
from __future__ import annotations

import random

import pytest

import checker
from checker import GRANTED, LATCH_WAIT
from proxy import CUT_BEFORE, Once, reply_to, request
from recorder import Recorder
from waiting import until

COUNT = 6
KIND = {"kind": "latch"}


def waiters(recorder, keepers, name: str, count: int = 4) -> list:
    return [recorder.say(keeper, "within", name, thread=f"waits{number}", wait=20000, **KIND)
            for keeper in keepers for number in range(count)]


def passed(recorder: Recorder) -> int:
    """Checks the history, and returns how many passed the latch."""
    records = recorder.records()
    checker.check(records, count=COUNT)
    return sum(record.phase == GRANTED and record.mode == LATCH_WAIT for record in records)


def count_down(recorder, keepers, name: str, times: int, thread: str = "downs") -> list:
    return [recorder.say(keepers[number % len(keepers)], "down", name, thread=f"{thread}{number}",
                         count=1, **KIND).result() for number in range(times)]


def test_opens_at_the_last_count(server, make_keeper):
    recorder, keepers = Recorder(), [make_keeper(server.unix_url) for _ in range(3)]
    assert keepers[0].call("set", "gate", count=COUNT, **KIND).result == 1
    waits = waiters(recorder, keepers, "gate")
    count_down(recorder, keepers, "gate", COUNT - 1)
    late = recorder.say(keepers[0], "within", "gate", thread="late", wait=200, **KIND)
    late.result().is_code("LK_ETIMEDOUT")
    assert not any(wait.done for wait in waits)
    count_down(recorder, keepers, "gate", 1, "last")
    for wait in waits:
        wait.result().ok()
    assert passed(recorder) == len(waits)


@pytest.mark.parametrize("place", [request, reply_to], ids=["request", "reply"])
def test_counted_once_though_sent_again(server, proxy, make_keeper, place):
    """The connection ends around a count-down: what is sent again is not counted twice."""
    recorder = Recorder()
    direct, cut = make_keeper(server.unix_url), make_keeper(proxy.unix_url)
    cut.call("set", "warm", count=1, **KIND)
    cut.call("down", "warm", count=1, **KIND).ok()
    assert direct.call("set", "gate", count=COUNT, **KIND).result == 1
    waits = waiters(recorder, [direct], "gate")
    for number in range(COUNT - 1):
        proxy.rule = once = Once(place("evalsha"), CUT_BEFORE)
        recorder.say(cut, "down", "gate", thread=f"d{number}", count=1, **KIND).result().ok()
        assert once.hit.is_set()
    proxy.rule = None
    assert direct.call("count", "gate", **KIND).result == 1
    assert not any(wait.done for wait in waits)
    count_down(recorder, [direct], "gate", 1)
    for wait in waits:
        wait.result().ok()
    assert passed(recorder) == len(waits)


@pytest.mark.slow
def test_while_all_are_stopped_in_turn(server, make_keeper):
    generator = random.Random(6)
    recorder, keepers = Recorder(), [make_keeper(server.unix_url) for _ in range(3)]
    for turn in range(6):
        name = f"gate{turn}"
        assert keepers[0].call("set", name, count=COUNT, **KIND).result == 1
        waits = waiters(recorder, keepers, name)
        victim = generator.choice([server, *keepers])
        victim.pause()
        downs = [recorder.say(keepers[number % 3], "down", name, thread=f"downs{number}", count=1,
                              **KIND) for number in range(COUNT)]
        until(lambda: victim is server or sum(down.done for down in downs) >= COUNT * 2 // 3, 20)
        assert not any(wait.done for wait in waits)
        victim.resume()
        for pending in downs + waits:
            pending.result().ok()
    assert passed(recorder) == 6 * 12
