"""Semaphores and latches through connections that end: each change counts once, none is lost."""
from __future__ import annotations

import pytest

from proxy import CUT_BEFORE, SWALLOW, Cut, Once
from waiting import never, until

PLACES = {
    "before the request": (False, CUT_BEFORE),
    "in the request": (False, Cut(20)),
    "behind the request": (False, Cut(1 << 20)),
    "before the reply": (True, CUT_BEFORE),
    "in the reply": (True, Cut(2)),
    "behind the reply": (True, Cut(1 << 20)),
}
USED = "{pool}:timeout"


def script_on(name: bytes, reply: bool):
    """A call of a script with this key, or its answer."""
    return lambda m: m.reply == reply and m.what == "evalsha" and m.lock == name


@pytest.fixture
def through(proxy, make_keeper):
    """A client behind the proxy that is connected, and has used all the scripts."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=3000)
    for kind in ("semaphore", "permits", "latch"):
        keeper.call("set", f"warm-{kind}", kind=kind, count=2).ok()
    keeper.call("acquire", "warm-semaphore", kind="semaphore").ok()
    keeper.call("release", "warm-semaphore", kind="semaphore").ok()
    keeper.call("add", "warm-semaphore", kind="semaphore", count=1).ok()
    keeper.call("drain", "warm-semaphore", kind="semaphore").ok()
    ids = keeper.call("acquire", "warm-permits", kind="permits", count=1).ok()["ids"]
    keeper.call("release", "warm-permits", kind="permits", count=1, ids=ids).ok()
    keeper.call("down", "warm-latch", kind="latch", count=1).ok()
    keeper.call("down", "warm-latch", kind="latch", count=1).ok()
    keeper.call("acquire", "warm-latch", kind="latch").ok()
    return keeper


def count(server, name="pool") -> int:
    return int(server.call("GET", name) or 0)


def cut(proxy, name: bytes, place: str) -> Once:
    reply, verdict = PLACES[place]
    proxy.rule = Once(script_on(name, reply), verdict)
    return proxy.rule


@pytest.mark.parametrize("place", PLACES)
def test_semaphore_cut(server, proxy, through, place):
    server.call("SET", "pool", 5)
    for verb, permits, left in (("acquire", 2, 3), ("release", 1, 4), ("add", 3, 7),
                                ("drain", 1, 0)):
        once = cut(proxy, b"pool", place)
        result = through.call(verb, "pool", kind="semaphore", count=permits)
        assert once.hit.is_set()
        if verb == "drain":
            assert result.result == 7
        else:
            result.ok()
        never(lambda left=left: count(server) != left, 0.05, f"{verb} counts once")
    server.call("DEL", "pool")
    cut(proxy, b"pool", place)
    assert through.call("set", "pool", kind="semaphore", count=4).result == 1
    assert count(server) == 4


@pytest.mark.parametrize("place", PLACES)
def test_latch_cut(server, proxy, through, place):
    cut(proxy, b"ready", place)
    assert through.call("set", "ready", kind="latch", count=3).result == 1
    for left in (2, 1):
        once = cut(proxy, b"ready", place)
        through.call("down", "ready", kind="latch", count=1).ok()
        assert once.hit.is_set() and count(server, "ready") == left
    waits = through.say("acquire", "ready", kind="latch", thread="w")
    until(lambda: server.channels(), 5)
    cut(proxy, b"ready", place)
    through.call("down", "ready", kind="latch", count=1).ok()
    waits.result(10).ok()


def on_pool(keeper, queue: int):
    """A call on the permits of the pool, in the calling thread or through a queue."""
    return lambda verb, **words: keeper.call(verb, "pool", kind="permits", queue=queue, **words)


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_permits_cut(server, proxy, through, place, queue):
    call = on_pool(through, queue)
    server.call("SET", "pool", 5)
    cut(proxy, b"pool", place)
    ids = call("acquire", count=3).ok()["ids"].split(",")
    assert (count(server), server.call("ZCARD", USED)) == (2, 3)
    cut(proxy, b"pool", place)
    call("release", count=1, ids=ids[0]).ok()
    assert (count(server), server.call("ZCARD", USED)) == (3, 2)
    cut(proxy, b"pool", place)
    call("release", count=2, ids=",".join(ids[1:])).ok()
    assert (count(server), server.call("ZCARD", USED)) == (5, 0)
    cut(proxy, b"pool", place)
    call("add", count=2).ok()
    assert count(server) == 7


@pytest.mark.parametrize("queue", [0, 1])
def test_a_release_that_never_arrives(server, proxy, make_keeper, queue):
    """It may be held, says the call; long before the lease ends, nothing is."""
    call = on_pool(make_keeper(proxy.unix_url, command_timeout_ms=600), queue)
    server.call("SET", "pool", 5)
    ids = call("acquire", count=3, lease=600_000).ok()["ids"]
    call("release", count=3, ids=ids).ok()
    ids = call("acquire", count=3, lease=600_000).ok()["ids"]
    swallowed = []

    def swallow(message):
        if not message.reply and message.lock == b"pool":
            swallowed.append(message)
            return SWALLOW
        return None
    proxy.rule = swallow
    call("release", count=3, ids=ids).is_code("LK_EMAYBEHELD")
    assert swallowed and server.call("ZCARD", USED) == 3
    proxy.rule = None
    until(lambda: (count(server), server.call("ZCARD", USED)) == (5, 0), 20, "released")
    # On a connection that still lacks an answer it is sent twice, and says so.
    until(lambda: call("release", count=3, ids=ids).code == "LK_ENOTOWNER", 20, "ours are dropped")


def test_an_acquire_is_undone_after_a_long_outage(server, proxy, make_keeper):
    """No lease ends what was taken: the client has to come back for it."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=400, command_timeout_ms=200)
    server.call("SET", "pool", 5)
    keeper.call("try", "warm", kind="semaphore").is_code("LK_EBUSY")

    def rule(message):
        if not script_on(b"pool", True)(message):
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("within", "pool", kind="semaphore", count=2, wait=300).is_code("LK_EMAYBEHELD")
    never(lambda: count(server) != 3, 2)
    proxy.rule, proxy.refuse = None, False
    until(lambda: count(server) == 5, 10, "given back")
