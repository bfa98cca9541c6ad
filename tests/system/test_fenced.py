"""Fenced and spin locks of several processes: who owned when, with which token, under faults."""
from __future__ import annotations

import random
import time

import pytest

import checker
from proxy import CUT_BEFORE, HOLE, Cut, Once, Park, reply_to, request
from redisson import JavaLock
from waiting import until

TOKEN_KEY = "lockkeeper_fence:{lock}"
FENCED = "evalsha"  # its script is none of those that the proxy knows by their shape
PLACES = {
    "in the request": (request, Cut(20)),
    "behind the request": (request, Cut(1 << 20)),
    "before the reply": (reply_to, CUT_BEFORE),
    "in the reply": (reply_to, Cut(2)),
}


def newest(server) -> int:
    return int(server.call("GET", TOKEN_KEY))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["fenced", "fenced-java"])
def test_an_acquire_sent_twice_answers_its_own_token(server, proxy, make_keeper, place, kind):
    keeper = make_keeper(proxy.unix_url)
    first = keeper.call("acquire", "lock", kind=kind).ok().fence
    keeper.call("release", "lock", kind=kind).ok()
    where, verdict = PLACES[place]
    proxy.rule = once = Once(where(FENCED), verdict)
    token = keeper.call("acquire", "lock", kind=kind).ok().fence
    assert once.hit.is_set()
    assert first < token == newest(server), "the repetition neither raised nor lost it"
    assert list(server.holders("lock").values()) == [b"1"]
    keeper.call("release", "lock", kind=kind).ok()
    assert server.call("EXISTS", "lock") == 0


def test_an_acquire_whose_answer_never_comes(server, proxy, make_keeper):
    """It may have been granted: that token is spent, the next is greater, and nothing stays."""
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=300)
    first = keeper.call("acquire", "lock", kind="fenced").ok().fence
    keeper.call("release", "lock", kind="fenced").ok()
    proxy.rule = once = Once(reply_to(FENCED), HOLE)
    keeper.call("within", "lock", kind="fenced", wait=100).is_code("LK_EMAYBEHELD", "LK_ETIMEDOUT")
    assert once.hit.is_set()
    proxy.rule = None
    until(lambda: server.call("EXISTS", "lock") == 0, 10, "it is released")
    assert keeper.call("within", "lock", kind="fenced", wait=5000).ok().fence > first


def test_a_hand_over_inside_a_client_sent_twice(server, proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url, term_ms=1000)
    first = keeper.call("acquire", "lock", kind="fenced").ok().fence
    waits = keeper.say("acquire", "lock", kind="fenced", thread="next")
    until(lambda: keeper.stats().waiting == 1 and keeper.is_asleep(), 10, "one waits")
    proxy.rule = once = Once(reply_to(FENCED), CUT_BEFORE)
    keeper.call("release", "lock", kind="fenced").ok()
    second = waits.result().ok().fence
    assert once.hit.is_set()
    assert first < second == newest(server)
    keeper.call("release", "lock", kind="fenced", thread="next").ok()
    assert server.call("EXISTS", "lock") == 0


def test_a_late_grant_is_discarded_and_the_next_has_a_greater_token(server, proxy, make_keeper):
    """The answer comes after the lease: the token was given to nobody."""
    keeper = make_keeper(proxy.unix_url)
    keeper.call("acquire", "warm", kind="fenced").ok()
    proxy.rule = once = Once(reply_to(FENCED), Park(0.5))
    token = keeper.call("within", "lock", kind="fenced", lease=200, wait=10000).ok().fence
    assert once.hit.is_set()
    assert token == newest(server)
    assert keeper.call("is_held", "lock", kind="fenced").result == 1


# ---- histories ----

def bad_wire(generator: random.Random):
    """A rule that treats about one message in a hundred badly."""
    def rule(message):
        dice = generator.random()
        if dice > 0.01:
            return None
        if dice < 0.004:
            return Cut(generator.randrange(len(message.data) + 1), generator.random() < 0.5)
        return Park(generator.uniform(0, 0.3))
    return rule


def contest(keepers, kinds, seconds: float, history, lock: str = "lock"):
    """Lets each process run each kind in a few threads; the answers and the records."""
    runs, paths = [], []
    for number, keeper in enumerate(keepers):
        for place, kind in enumerate(kinds):
            paths.append(history())
            runs.append(keeper.say("stress", thread=f"s{place}", name=lock, names=1, threads=3,
                                   pairs=1_000_000, run=number * 10 + place, history=paths[-1],
                                   capacity=200_000, **kind))
    time.sleep(seconds)  # the length of the contest, not a wait for something
    for keeper in keepers:
        keeper.call("stop", thread="-")
    return [run.result(40) for run in runs], paths


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("kinds", [["fenced"], ["fenced-java"], ["fenced", "fenced-java", "lock"]],
                         ids=lambda kinds: "+".join(kinds))
def test_tokens_rise_from_owner_to_owner(server, proxy, make_keeper, history, kinds, faults):
    keepers = [make_keeper(proxy.unix_url, command_timeout_ms=250, watchdog_ms=400)
               for _ in range(3)]
    for keeper in keepers:
        keeper.call("ping").ok()
    if faults:
        proxy.rule = bad_wire(random.Random(4))
    answers, paths = contest(keepers, [{"kind": kind, "lease": lease, "hold_us": 200}
                                       for kind in kinds for lease in (0, 200)], 3, history)
    proxy.rule = None
    records = checker.read(*paths)
    checker.check(records, over_allowed=3)
    tokens = [record.fence for record in records
              if record.fence and record.phase == checker.GRANTED]
    assert len(tokens) > 50 and len(set(tokens)) == len(tokens)
    assert all(answer["grants"] for answer in answers), "nobody starved"
    until(lambda: server.call("EXISTS", "lock") == 0, 10, "nothing stays locked")


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True])
def test_spinners_exclude_each_other(server, proxy, make_keeper, history, faults):
    keepers = [make_keeper(proxy.unix_url, command_timeout_ms=250, watchdog_ms=400)
               for _ in range(3)]
    for keeper in keepers:
        keeper.call("ping").ok()
    if faults:
        proxy.rule = bad_wire(random.Random(5))
    kinds = [{"kind": "spin", "lease": lease, "hold_us": 200, "wait": wait}
             for lease, wait in ((0, -1), (200, -1), (0, 50), (0, 0))]
    answers, paths = contest(keepers, kinds, 3, history)
    proxy.rule = None
    checker.check(checker.read(*paths), over_allowed=3)
    assert sum(answer["grants"] for answer in answers) > 50
    assert server.channels() == []
    until(lambda: server.call("DBSIZE") == 0, 10, "nothing stays locked")


@pytest.mark.slow
def test_a_mutant_without_rising_tokens_is_caught(server, make_keeper, history):
    """The history bites: the newest token is thrown away and set back while the lock is used."""
    keeper = make_keeper(server.unix_url)
    path = history()
    run = keeper.say("stress", thread="s", name="lock", names=1, threads=2, pairs=1_000_000,
                     kind="fenced", history=path, capacity=200_000, hold_us=200)
    ahead = 2**52
    end = time.monotonic() + 1
    while time.monotonic() < end:
        server.call("SET", TOKEN_KEY, ahead)
    keeper.call("stop", thread="-")
    run.result(20)
    with pytest.raises(AssertionError, match="bad fence"):
        checker.check(checker.read(path))


# ---- with others ----

def test_java_waits_for_ours_and_is_woken(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    keeper.call("acquire", "lock", kind="fenced").ok()
    java = JavaLock(server, "lock")
    assert java.ask() > 0
    java.messages.call("SUBSCRIBE", java.channel)
    keeper.call("release", "lock", kind="fenced").ok()
    java.wait(10)
    assert java.ask() is None
    java.leave()


def test_ours_waits_for_java_and_is_woken(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    java = JavaLock(server, "lock", lease_ms=600_000)
    assert java.ask() is None
    waits = keeper.say("acquire", "lock", kind="fenced")
    until(lambda: server.channels(), 10, "ours listens")
    java.unlock()
    assert waits.result(20).ok().fence > 0


def test_a_spinner_gets_what_java_released(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    java = JavaLock(server, "lock", lease_ms=600_000)
    assert java.ask() is None
    waits = keeper.say("acquire", "lock", kind="spin")
    until(lambda: keeper.stats().busy >= 3, 10, "it has asked several times")
    assert server.channels() == []
    java.unlock()
    waits.result(20).ok()
    keeper.call("release", "lock", kind="spin").ok()
