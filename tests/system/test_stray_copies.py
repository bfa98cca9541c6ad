"""A copy of a request that was delayed on the way runs when it is long answered.

What was sent is recorded, the lease is made longer, and then the copy runs: no lease is shorter
afterwards, whatever the kind and whatever it was that was sent.
"""
from __future__ import annotations

import socket

import pytest

import lua
from keeper import CLOSE_RELEASE, EVENT_LOST
from proxy import CUT_BEFORE
from waiting import until

KINDS = ["lock", "fair", "read", "write", "fenced", "fenced-java", "spin", "plain", "multi"]
LEASE, LONGER, LEFT = 5000, 90000, 80000


class Recorder:
    """A proxy's rule that keeps the scripts' calls and plain commands of a connection's key."""

    def __init__(self, key: bytes):
        self.key, self.sent = key, []

    def __call__(self, message):
        if not message.reply and self.key in message.argv and message.what != "subscribe":
            self.sent.append(message.data)


def replay(server, sent: list[bytes]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(server.path)
        for data in [*sent, b"*1\r\n$4\r\nPING\r\n"]:
            connection.sendall(data)
        seen = b""
        while b"+PONG\r\n" not in seen:
            seen += connection.recv(65536)
    assert b"LATE" not in seen and b"NOSCRIPT" not in seen, seen


def cut_first(proxy, key: bytes) -> list[bytes]:
    """The first request for the key is cut off on the way: what it was."""
    copies = []

    def rule(message):
        if message.reply or key not in message.argv or copies:
            return None
        copies.append(message.data)
        return CUT_BEFORE
    proxy.rule = rule
    return copies


@pytest.fixture
def recorded(proxy, make_keeper):
    """A client whose requests have a long deadline, so that a copy is never late."""
    proxy.rule = Recorder(b"n")
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=30000, term_ms=1000)
    keeper.call("ping").ok()
    return keeper


def lives(server) -> bool:
    """Every key that has to do with the lock lives as long as the extended lease."""
    kept = [key for key in server.call("KEYS", "*") if not key.startswith(b"lockkeeper_")
            and not key.startswith(b"redisson_lock_token")]
    return bool(kept) and all(server.call("PTTL", key) > LEFT for key in kept)


@pytest.mark.parametrize("kind", KINDS)
def test_acquire(server, proxy, recorded, kind):
    recorded.call("acquire", "n", kind=kind, lease=LEASE).ok()
    copies = list(proxy.rule.sent)
    recorded.call("extend", "n", kind=kind, lease=LONGER).ok()
    assert copies and lives(server)
    for _ in range(2):
        replay(server, copies)
        assert lives(server), "a stray acquire has shortened the lease"
    recorded.call("release", "n", kind=kind).ok()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", ["release", "close"])
def test_acquire_behind_a_loss(server, proxy, make_keeper, kind, parts):
    """A copy of the acquire was cut off on the way, and runs when the lock is long lost: nobody
    would own what it takes."""
    name = "n,o" if kind == "multi" else "n"
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=1500, watchdog_ms=600)
    keeper.listen()
    keeper.call("ping").ok()
    copies = cut_first(proxy, b"n")
    keeper.call("acquire", name, kind=kind, lease=60000).ok()
    assert copies
    for key in server.call("KEYS", "[no]"):
        server.call("DEL", key)
    until(lambda: keeper.events_of(EVENT_LOST), 5)
    replay(server, copies)
    if parts == "close":
        keeper.call("close", how=CLOSE_RELEASE)
    else:
        keeper.call("release", name, kind=kind).is_code("LK_ELOST")
    until(lambda: not server.call("KEYS", "[no]"), 10, "long before the lease ends")


@pytest.mark.parametrize("kind", ["lock", "fenced", "plain"])
def test_exchange(server, proxy, recorded, kind):
    recorded.call("acquire", "n", kind=kind, lease=LEASE).ok()
    waits = recorded.say("acquire", "n", thread="b", kind=kind, lease=LEASE)
    until(lambda: recorded.stats().waiting == 1, 5)
    before = len(proxy.rule.sent)
    recorded.call("release", "n", kind=kind).ok()
    waits.result(5).ok()
    copies = proxy.rule.sent[before:]
    assert copies, "handed on by an exchange"
    recorded.call("extend", "n", thread="b", kind=kind, lease=LONGER).ok()
    replay(server, copies)
    assert lives(server), "a stray exchange has shortened the lease"
    recorded.call("release", "n", thread="b", kind=kind).ok()


def test_hand_over_of_a_fair_lock(server, proxy, recorded):
    """Copies of the tries of one who was handed the lock meanwhile."""
    fair = {"kind": "fair"}
    recorded.call("acquire", "n", lease=LEASE, **fair).ok()
    before = len(proxy.rule.sent)
    waits = recorded.say("acquire", "n", thread="b", lease=LEASE, **fair)
    until(lambda: recorded.stats().waiting == 1 and len(proxy.rule.sent) > before + 1, 5)
    copies = proxy.rule.sent[before:]
    recorded.call("release", "n", **fair).ok()
    waits.result(5).ok()
    recorded.call("extend", "n", thread="b", lease=LONGER, **fair).ok()
    replay(server, copies)
    assert server.call("PTTL", "n") > LEFT
    recorded.call("release", "n", thread="b", **fair).ok()


def test_permits(server, proxy, recorded):
    permits = {"kind": "permits"}
    recorded.call("set", "n", count=3, **permits).ok()
    before = len(proxy.rule.sent)
    ids = recorded.call("acquire", "n", count=2, lease=LEASE, **permits).ok().ids.split(",")
    copies = proxy.rule.sent[before:]
    for permit in ids:
        recorded.call("extend", "n", ids=permit, lease=LONGER, **permits).ok()
    replay(server, copies)
    for permit in ids:
        assert recorded.call("lease", "n", ids=permit, **permits).ok().value > LEFT
    assert server.call("GET", "n") == b"1"


def test_update_of_a_permit(proxy, server, recorded):
    permits = {"kind": "permits"}
    recorded.call("set", "n", count=3, **permits).ok()
    (permit,) = recorded.call("acquire", "n", lease=LEASE, **permits).ok().ids.split(",")
    before = len(proxy.rule.sent)
    recorded.call("extend", "n", ids=permit, lease=2 * LEASE, **permits).ok()
    copies = proxy.rule.sent[before:]
    replay(server, copies)
    assert recorded.call("lease", "n", ids=permit, **permits).ok().value <= 2 * LEASE


def test_fence_write(server, proxy, recorded):
    """The reply to the first write is lost; its copy runs after the second."""
    recorded.call("fence_write", "n", token=7, value="first").ok()
    first = list(proxy.rule.sent)
    recorded.call("fence_write", "n", token=7, value="second").ok()
    replay(server, first)
    assert server.call("HGET", "n", "value") == b"second"


def test_fence_check_repeated_with_one_token(server):
    """Two writes under one token: a copy of the first leaves the longer time to live."""
    text = lua.text_of("fenced", "check")
    server.call("EVAL", text, 1, "n", 7, LEASE)
    server.call("EVAL", text, 1, "n", 7, LONGER)
    server.call("EVAL", text, 1, "n", 7, LEASE)
    assert server.call("PTTL", "n") > LEFT
    server.call("EVAL", text, 1, "n", 8, LEASE)
    assert server.call("PTTL", "n") <= LEASE, "another bearer says anew how long"
