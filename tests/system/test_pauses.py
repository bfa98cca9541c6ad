"""Processes that stop for longer than the lease: servers, holders, waiters, at any point."""
from __future__ import annotations

import random
import threading
import time

import pytest

import checker
from keeper import EVENT_LOST
from proxy import Once, Park, reply_to
from waiting import never, until

MS = 1_000_000
# Of threads that are stopped: a release may be without an answer when its lease is over.
USUAL = {"acquire_OK", "release_OK", "release_LK_ELOST", "acquire_LK_ELOST",
         "release_LK_EMAYBEHELD"}


def test_holder_stopped_beyond_its_lease(server, make_keeper):
    a, b = make_keeper(server.unix_url, watchdog_ms=800), make_keeper(server.unix_url)
    a.listen()
    a.call("acquire", "stopped").ok()
    a.pause()
    b.call("within", "stopped", wait=5000).ok()
    a.resume()
    assert a.call("is_held", "stopped").result == 0
    a.call("remaining", "stopped").is_code("LK_ELOST")
    until(lambda: a.events_of(EVENT_LOST), 5)
    a.call("acquire", "stopped").is_code("LK_ELOST")
    a.call("release", "stopped").is_code("LK_ELOST")
    never(lambda: server.call("HLEN", "stopped") != 1, 0.2)
    assert b.call("is_held", "stopped").result == 1
    b.call("release", "stopped").ok()


def test_lost_stays_lost_when_the_server_still_has_it(server, make_keeper):
    """The holder's clock says it is over: a key that is still there does not bring it back."""
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.listen()
    keeper.call("acquire", "sticky").ok()
    server.pause()
    until(lambda: keeper.events_of(EVENT_LOST), 5)
    server.resume()
    assert keeper.call("is_held", "sticky").result == 0
    never(lambda: keeper.call("is_held", "sticky").result, 0.3)
    keeper.call("release", "sticky").is_code("LK_ELOST")
    until(lambda: server.call("EXISTS", "sticky") == 0, 3)


def test_server_stopped_for_less_than_the_lease(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=6000, command_timeout_ms=500)
    keeper.listen()
    keeper.call("acquire", "kept").ok()
    for _ in range(3):
        server.pause()
        time.sleep(0.7)
        server.resume()
        assert keeper.call("within", "other", thread="o", wait=3000).code == "OK"
        keeper.call("release", "other", thread="o").ok()
    assert keeper.call("is_held", "kept").result == 1
    keeper.call("release", "kept").ok()
    assert keeper.events_of(EVENT_LOST) == []


@pytest.mark.parametrize("verb", ["try", "within"])
def test_asked_while_the_server_is_stopped(server, make_keeper, verb):
    """The request is executed when the server goes on: it must not leave a lock without owner."""
    keeper = make_keeper(server.unix_url, watchdog_ms=20000, command_timeout_ms=400)
    keeper.call("ping").ok()
    server.pause()
    answer = keeper.call(verb, "stopped", wait=600)
    answer.is_code("LK_EMAYBEHELD", "LK_EUNREACHABLE")
    assert answer.took < 4
    server.resume()
    until(lambda: server.call("EXISTS", "stopped") == 0, 10, "nobody has it")
    time.sleep(0.3)
    until(lambda: server.call("EXISTS", "stopped") == 0, 10, "nobody has it")
    keeper.call("within", "stopped", wait=5000).ok()


def test_released_while_the_server_is_stopped(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=1500, command_timeout_ms=300)
    keeper.call("acquire", "frozen").ok()
    server.pause()
    answer = keeper.call("release", "frozen")
    answer.is_code("LK_EMAYBEHELD", "LK_ELOST")
    assert answer.took < 4, "a release waits no longer than its lease"
    server.resume()
    until(lambda: server.call("EXISTS", "frozen") == 0, 4)


@pytest.mark.parametrize("verb", ["try", "within", "acquire"])
def test_stopped_while_the_grant_is_on_its_way(server, proxy, make_keeper, verb):
    """The grant is read when it is over: it must not be returned."""
    keeper = make_keeper(proxy.url, command_timeout_ms=20000, spin_us=0)
    keeper.call("ping").ok()
    gate = threading.Event()
    proxy.rule = once = Once(reply_to("acquire"), Park(event=gate))
    asked = keeper.say(verb, "late", lease=500, wait=10000)
    assert once.hit.wait(5)
    keeper.pause()
    gate.set()
    until(lambda: server.call("EXISTS", "late") == 0, 5, "the lease is over")
    keeper.resume()
    answer = asked.result(15)
    if answer.code == "OK":
        assert answer.deadline_ns > answer.end_ns, "a grant that is over"
        assert server.call("HLEN", "late") == 1, "granted anew"
        keeper.call("release", "late").ok()
    else:
        answer.is_code("LK_EBUSY", "LK_ETIMEDOUT", "LK_ELOST", "LK_EMAYBEHELD",
                       "LK_EUNREACHABLE")
        assert verb != "acquire", dict(answer)
    until(lambda: server.call("EXISTS", "late") == 0, 5)


def test_reply_later_than_the_lease(server, proxy, make_keeper):
    """As above without a stop: only the wire was slow."""
    keeper = make_keeper(proxy.url, command_timeout_ms=20000)
    keeper.call("ping").ok()
    proxy.rule = Once(reply_to("acquire"), Park(0.6))
    answer = keeper.call("within", "late", lease=300, wait=5000).ok()
    assert answer.deadline_ns > answer.end_ns
    assert server.call("HLEN", "late") == 1
    keeper.call("release", "late").ok()


@pytest.mark.slow
@pytest.mark.parametrize("threads, names", [(1, 1), (8, 1), (8, 4)])
def test_stopped_at_random_points(server, make_keeper, history, threads, names):
    """Two processes, stopped again and again beyond the lease, leader and followers alike."""
    generator = random.Random(threads * 10 + names)
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    paths = [history() for _ in keepers]
    runs = [keeper.say("stress", thread="s", name="stops", names=names, threads=threads,
                       pairs=1_000_000, lease=120, hold_us=200, history=path,
                       capacity=2_000_000, run=number)
            for number, (keeper, path) in enumerate(zip(keepers, paths))]
    for _ in range(14):
        time.sleep(generator.uniform(0.01, 0.06))
        victim = generator.choice(keepers)
        victim.pause()
        time.sleep(0.2)
        victim.resume()
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for run in runs:
        answer = run.result(30)
        odd = {key for key in answer if key.startswith(("acquire_", "release_"))} - USUAL
        assert not odd, dict(answer)
    records = checker.read(*paths)
    # A stop between the last look at the clock and our own record of it cannot be told apart.
    assert len(checker.check(records, over_allowed=2)) > 100
    until(lambda: server.call("DBSIZE") == 0, 5)


@pytest.mark.slow
@pytest.mark.parametrize("names", [1, 4])
def test_threads_stopped_at_any_point(server, make_keeper, history, names):
    """Single threads, the one that reads for the others among them, beyond the lease."""
    keeper, path = make_keeper(server.unix_url), history()
    run = keeper.say("stress", thread="s", name="frozen", names=names, threads=8, pairs=1_000_000,
                     lease=120, hold_us=200, freeze_us=20000, freeze_ms=200, history=path,
                     capacity=2_000_000)
    time.sleep(5)
    keeper.call("stop", thread="-")
    answer = run.result(30)
    odd = {key for key in answer if key.startswith(("acquire_", "release_"))} - USUAL
    assert not odd, dict(answer)
    assert len(checker.check(checker.read(path), over_allowed=2)) > 100
    until(lambda: server.call("DBSIZE") == 0, 5)


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
def test_server_stopped_at_random_points(server, make_keeper, history):
    generator = random.Random(5)
    keepers = [make_keeper(server.unix_url, command_timeout_ms=150) for _ in range(2)]
    paths = [history() for _ in keepers]
    runs = [keeper.say("stress", thread="s", name="stops", names=2, threads=4, pairs=1_000_000,
                       lease=200, wait=1000, hold_us=200, history=path, capacity=2_000_000,
                       run=number)
            for number, (keeper, path) in enumerate(zip(keepers, paths))]
    for _ in range(8):
        time.sleep(generator.uniform(0.05, 0.2))
        server.pause()
        time.sleep(0.35)
        server.resume()
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for run in runs:
        run.result(30)
    assert len(checker.check(checker.read(*paths))) > 100
    until(lambda: server.call("DBSIZE") == 0, 5)


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
