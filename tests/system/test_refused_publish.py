"""A user who may not publish: what is given up is free, and the caller is told so."""
from __future__ import annotations

import pytest

from waiting import until

KINDS = ["lock", "fair", "read", "write", "fenced", "fenced-java", "spin", "plain", "multi"]
FORCED = ["lock", "fair", "read", "write", "fenced", "spin", "plain"]


def held(server) -> list[bytes]:
    """Keys of locks; those that remember tokens and requests stay for a while."""
    return [key for key in server.call("KEYS", "*")
            if not key.startswith((b"lockkeeper_", b"redisson_lock_token"))]


@pytest.fixture
def make_mute(server, make_keeper):
    server.call("ACL", "SETUSER", "mute", "on", ">word", "~*", "&*", "+@all", "-publish")
    return lambda **options: make_keeper(server.unix_url, username="mute", password="word",
                                         **options)


@pytest.fixture
def mute(make_mute):
    return make_mute()


@pytest.mark.parametrize("kind", KINDS)
def test_release(server, mute, kind):
    name = "a,b" if kind == "multi" else "a"
    for _ in range(2):
        mute.call("acquire", name, kind=kind).ok()
        assert held(server)
        mute.call("release", name, kind=kind).ok()
        assert not held(server)


@pytest.mark.parametrize("kind", FORCED)
def test_forced_release(server, mute, kind):
    mute.call("acquire", "a", kind=kind).ok()
    assert mute.call("force", "a", kind=kind).ok().result == 1
    assert not held(server)
    assert mute.call("force", "a", kind=kind).ok().result == 0


@pytest.mark.parametrize("kind", ["fair", "write", "read"])
def test_release_with_others_waiting(server, make_mute, kind):
    """They are not told, and look again."""
    holder, other = make_mute(), make_mute()
    holder.call("acquire", "a", kind="write" if kind == "read" else kind, lease=3000).ok()
    waits = other.say("acquire", "a", kind=kind, lease=3000)
    until(server.channels, 5, "it waits")
    holder.call("release", "a", kind="write" if kind == "read" else kind).ok()
    waits.result(15).ok()
    other.call("release", "a", kind=kind).ok()
    assert not held(server)


def test_exchange_that_can_only_give_up(server, mute):
    """The taker is refused, the giver has given up."""
    mute.call("acquire", "a", lease=5000).ok()
    waits = mute.say("within", "a", thread="b", lease=5000, wait=400)
    until(lambda: mute.stats().waiting == 1, 5)
    server.call("ACL", "SETUSER", "mute", "-hset")
    mute.call("release", "a").ok()
    assert not held(server)
    waits.result(10)
    server.call("ACL", "SETUSER", "mute", "+hset")
    until(lambda: not held(server), 10)


def test_counts(server, mute):
    semaphore, permits, latch = ({"kind": kind} for kind in ("semaphore", "permits", "latch"))
    assert mute.call("set", "s", count=2, **semaphore).ok().result == 1
    mute.call("acquire", "s", count=2, **semaphore).ok()
    mute.call("release", "s", count=1, **semaphore).ok()
    mute.call("add", "s", count=3, **semaphore).ok()
    assert server.call("GET", "s") == b"4"
    assert mute.call("set", "p", count=2, **permits).ok().result == 1
    ids = mute.call("acquire", "p", count=2, **permits).ok().ids
    assert server.call("GET", "p") == b"0"
    mute.call("release", "p", ids=ids, **permits).ok()
    assert server.call("GET", "p") == b"2"
    assert mute.call("set", "l", count=2, **latch).ok().result == 1
    mute.call("down", "l", **latch).ok()
    mute.call("down", "l", **latch).ok()
    assert server.call("EXISTS", "l") == 0
    mute.call("set", "l", count=2, **latch).ok()
    assert mute.call("delete", "l", **latch).ok().result == 1
    assert server.call("EXISTS", "l") == 0
