"""A holder that is stopped beyond its lease, one whose reader is stopped, and killed ones."""
from __future__ import annotations

import random
import threading
import time

import pytest

import checker
from keeper import EVENT_LOST
from proxy import Once, Park, reply_to
from waiting import never, until


def test_renewals_continue_while_the_reader_is_stopped(server, proxy, make_keeper):
    """The thread that reads for all is stopped for longer than the lease: the watchdog is not."""
    keeper = make_keeper(proxy.url, watchdog_ms=900, command_timeout_ms=20000)
    keeper.listen()
    keeper.call("acquire", "kept").ok()
    gate = threading.Event()
    proxy.rule = once = Once(reply_to("acquire"), Park(event=gate))
    reader = keeper.say("acquire", "other", thread="reader", lease=60000)
    assert once.hit.wait(5)
    follower = keeper.say("acquire", "third", thread="follower", lease=60000)
    until(lambda: all(keeper.is_asleep() for _ in range(20)), 5, "the reader sleeps")
    keeper.call("freeze", thread="-", target="reader", ms=2500)
    gate.set()
    never(lambda: server.call("EXISTS", "kept") != 1, 2.2, "the lock was lost")
    reader.result(5).ok()
    follower.result(5).ok()
    assert keeper.events_of(EVENT_LOST, "kept") == []
    for name, thread in (("kept", "main"), ("other", "reader"), ("third", "follower")):
        keeper.call("release", name, thread=thread).ok()


@pytest.mark.slow
def test_killed_at_random_points(server, make_keeper, history):
    """kill -9 of processes under load: the rest goes on, and all is free one lease later."""
    generator = random.Random(3)
    survivor, paths = make_keeper(server.unix_url), [history()]
    run = survivor.say("stress", thread="s", name="kill", threads=4, pairs=1_000_000, lease=300,
                       hold_us=200, history=paths[0], capacity=2_000_000)
    for number in range(1, 9):
        victim = make_keeper(server.unix_url)
        paths.append(history())
        victim.say("stress", thread="s", name="kill", threads=4, pairs=1_000_000, lease=300,
                   hold_us=200, history=paths[-1], capacity=500_000, run=number)
        until(lambda: victim.stats().acquires > 3, 10)
        time.sleep(generator.uniform(0, 0.05))
        victim.kill()
    before = survivor.stats().acquires
    until(lambda: survivor.stats().acquires > before + 50, 10, "the survivor goes on")
    survivor.call("stop", thread="-")
    answer = run.result(20)
    assert answer["acquire_OK"] == answer["release_OK"], dict(answer)
    checker.check(checker.read(*paths))
    until(lambda: server.call("DBSIZE") == 0, 3)
