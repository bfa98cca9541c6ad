"""What a holder keeps, and how soon it learns that it does not: renewals and looks, by kind."""
from __future__ import annotations

import threading

import pytest

from keeper import CLOSE_RELEASE, EVENT_LOST
from proxy import SWALLOW, Once, Park, reply_to
from waiting import boottime_ns, never, until

# fast enough for a test, and slow enough that a look is seen to come before the end
LEASE_MS = 3000
KINDS = ("lock", "fair", "fenced", "fenced-java", "spin", "plain", "read", "write", "multi",
         "permits")


def take(server, keeper, kind: str, **arguments) -> None:
    if kind == "permits":
        server.call("SET", "kept", 1)
        arguments["count"] = 1
    keeper.call("acquire", "kept", kind=kind, **arguments).ok()


def is_there(server, kind: str) -> bool:
    return bool(server.call("ZCARD", "{kept}:timeout") if kind == "permits"
                else server.call("EXISTS", "kept"))


@pytest.mark.parametrize("kind", KINDS)
def test_scripts_flushed_under_the_watchdog(server, make_keeper, kind):
    """Renewals find their script gone, and load it."""
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.listen()
    take(server, keeper, kind)
    for _ in range(3):
        server.call("SCRIPT", "FLUSH")
        never(lambda: not is_there(server, kind) or keeper.events_of(EVENT_LOST),
              0.9, "it was lost")
    assert keeper.stats().lost == 0
    keeper.call("close", how=CLOSE_RELEASE).ok()
    until(lambda: not is_there(server, kind), 5, "it is released")


def free_behind_its_back(server, stranger, kind: str) -> None:
    if kind == "permits":
        assert server.call("DEL", "{kept}:timeout") == 1
    else:
        assert stranger.call("force", "kept", kind=kind).result == 1


@pytest.mark.parametrize("lease,watchdog", [(LEASE_MS, 60_000), (600_000, LEASE_MS)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forced_release_is_noticed_within_a_third(server, make_keeper, kind, lease, watchdog):
    """Of a named lease, or of the watchdog's where that is shorter."""
    keeper, stranger = make_keeper(server.unix_url, watchdog_ms=watchdog), \
        make_keeper(server.unix_url)
    keeper.listen()
    take(server, keeper, kind, lease=lease)
    free_behind_its_back(server, stranger, kind)
    freed_ns = boottime_ns()
    until(lambda: keeper.events_of(EVENT_LOST), LEASE_MS / 1000 * 0.8, "it is told")
    assert keeper.events_of(EVENT_LOST)[0].at_ns - freed_ns < LEASE_MS * 0.8e6
    assert keeper.stats().renewals == 0


@pytest.mark.parametrize("kind", ["lock", "plain", "read", "write", "fair"])
def test_a_look_changes_nothing(server, make_keeper, kind):
    """Somebody took the time to live away: a look does not end the lock."""
    keeper = make_keeper(server.unix_url)
    keeper.listen()
    take(server, keeper, kind, lease=900)
    assert server.call("PERSIST", "kept") == 1
    before = keeper.stats().commands
    until(lambda: keeper.stats().commands > before, 5, "it looks")
    assert server.call("PTTL", "kept") == -1
    keeper.call("release", "kept", kind=kind).is_code("OK", "LK_ELOST")
    server.call("DEL", "kept")


def test_a_forced_release_between_the_grant_and_its_answer(server, proxy, make_keeper):
    """Its message is heard before the answer: the grant is looked at when that comes."""
    keeper, stranger = make_keeper(proxy.unix_url), make_keeper(server.unix_url)
    keeper.listen()
    for number, name in enumerate(("other", "kept"), 1):
        stranger.call("acquire", name).ok()
        keeper.say("acquire", name, thread="t-" + name)  # the first one reads all messages
        until(lambda tries=2 * number: keeper.stats().busy >= tries, 5, "it listens and waits")
    gate = threading.Event()
    proxy.rule = once = Once(lambda m: m.reply and m.what == "acquire" and m.lock == b"kept",
                             Park(event=gate))
    stranger.call("release", "kept").ok()
    until(once.hit.is_set, 5, "it is granted")
    heard = keeper.stats().messages
    assert stranger.call("force", "kept").result == 1
    until(lambda: keeper.stats().messages > heard, 5, "it has heard of it")
    gate.set()
    until(lambda: keeper.events_of(EVENT_LOST), 3, "it is told")
    stranger.call("release", "other").ok()


@pytest.mark.parametrize("kind", ["lock", "fair", "plain", "write", "permits"])
def test_what_an_unanswered_renewal_kept_is_given_back(server, proxy, make_keeper, kind):
    """The server has renewed it, and the client never hears so: it goes with the loss, and not with
    the lease that the server counts from the last renewal."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=9000, command_timeout_ms=1000)
    keeper.listen()
    take(server, keeper, kind)
    proxy.rule = lambda message: SWALLOW if reply_to("renew")(message) else None
    until(lambda: keeper.events_of(EVENT_LOST), 20, "it is lost")
    until(lambda: not is_there(server, kind), 3, "it is given back")
