"""What may be held and nobody wants is given back: however long the server is away, whatever its
clock does, and before the client is closed."""
from __future__ import annotations

import time

import pytest

from keeper import CLOSE_ABANDON, CLOSE_IF_IDLE
from proxy import Park
from redisson_fair import keys_of
from waiting import never, until

LOCK, QUEUE, SCORES, OURS = keys_of("f")
LIMIT_MS = 300


def answer_to(name: bytes):
    return lambda m: m.reply and m.argv[0] == b"EVALSHA" and m.lock == name


def away(proxy) -> None:
    proxy.deafen()
    proxy.cut_all()


def taken_unknown(server, proxy, make_keeper, kind: str):
    """A client whose try took a permit, or the lock, and whose answer is lost with the server."""
    if kind in ("semaphore", "permits"):
        server.call("SET", "pool", 5)
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=LIMIT_MS, backoff_max_ms=50)
    keeper.call("ping").ok()
    if kind == "plain":  # it first asks what the server can do, and names its key there
        keeper.call("try", "other", kind=kind).ok()
        keeper.call("release", "other", kind=kind).ok()

    def rule(message):
        if not answer_to(b"pool")(message):
            return None
        proxy.refuse = True
        return Park(60)
    proxy.rule = rule
    keeper.call("try", "pool", kind=kind, count=2).is_code("LK_EMAYBEHELD")
    proxy.rule = None
    return keeper


def is_whole(server, kind: str) -> bool:
    if kind == "semaphore":
        return server.call("GET", "pool") == b"5"
    if kind == "permits":
        return server.call("GET", "pool") == b"5" and server.call("ZCARD", "{pool}:timeout") == 0
    return server.call("EXISTS", "pool") == 0


@pytest.mark.parametrize("kind", ["lock", "fair", "semaphore", "permits", "plain", "read"])
def test_close_releases_what_may_be_held(server, proxy, make_keeper, kind):
    keeper = taken_unknown(server, proxy, make_keeper, kind)
    assert not is_whole(server, kind)
    proxy.refuse = False
    keeper.call("close", how=CLOSE_IF_IDLE).ok()
    assert is_whole(server, kind)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
@pytest.mark.parametrize("ends", ["close", "free"])
def test_a_failed_close_can_be_called_again(server, proxy, make_keeper, kind, ends):
    keeper = taken_unknown(server, proxy, make_keeper, kind)
    for _ in range(2):
        answer = keeper.call("close", how=CLOSE_ABANDON).is_code("LK_EMAYBEHELD")
        assert answer.took < 5
        keeper.call("try", "pool", kind=kind).is_code("LK_ECLOSED")
    assert not is_whole(server, kind)
    proxy.refuse = False
    if ends == "close":
        keeper.call("close", how=CLOSE_ABANDON).ok()
    else:
        keeper.call("free")
    assert is_whole(server, kind)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
def test_a_server_that_is_back_is_asked_at_once(server, proxy, make_keeper, kind):
    """An outage of any length leaves pauses no longer than backoff_max_ms between attempts."""
    keeper = taken_unknown(server, proxy, make_keeper, kind)
    never(lambda: is_whole(server, kind), 4)
    begun, proxy.refuse = time.monotonic(), False
    until(lambda: is_whole(server, kind), 10, "it is given back")
    assert time.monotonic() - begun < 1.5
    keeper.call("close", how=CLOSE_IF_IDLE).ok()


def test_a_failed_close_continues_by_itself(server, proxy, make_keeper):
    keeper = taken_unknown(server, proxy, make_keeper, "semaphore")
    keeper.call("close", how=CLOSE_ABANDON).is_code("LK_EMAYBEHELD")
    proxy.refuse = False
    until(lambda: is_whole(server, "semaphore"), 10, "given back without a further call")


def test_places_of_waiters_that_gave_up_while_the_server_was_away(server, proxy, make_keeper):
    """For longer than their limit, the command limit and the lease together."""
    holder = make_keeper(server.unix_url)
    holder.call("acquire", "f", kind="fair").ok()
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=LIMIT_MS, watchdog_ms=400)
    waits = [keeper.say("within", "f", kind="fair", thread=f"w{number}", wait=1500)
             for number in range(4)]
    until(lambda: server.call("LLEN", QUEUE) == 4, 10, "they wait")
    away(proxy)
    for wait in waits:
        wait.result(10).is_code("LK_ETIMEDOUT", "LK_EUNREACHABLE", "LK_EMAYBEHELD")
    never(lambda: server.call("LLEN", QUEUE) < 4, 2.5)
    proxy.hear()
    until(lambda: server.call("LLEN", QUEUE) == 0, 15, "no place is left")
    holder.call("release", "f", kind="fair").ok()
    holder.call("close").ok()
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "spin", "plain", "read", "write",
                                  "multi", "permits"])
def test_a_grant_that_comes_later_than_its_lease(server, proxy, make_keeper, kind):
    """Held for a while by nobody: every kind says the same, and nothing of it stays."""
    keeper = make_keeper(proxy.unix_url)
    keeper.call("ping").ok()
    server.call("SET", "pool", 5) if kind == "permits" else None
    proxy.rule = lambda m: Park(0.4) if answer_to(b"pool")(m) else None
    keeper.call("try", "pool", kind=kind, lease=200, count=2).is_code("LK_EMAYBEHELD")
    proxy.rule = None
    keeper.call("close", how=CLOSE_IF_IDLE).ok()
    assert is_whole(server, kind)
