"""How connections are made, given up and made again, seen from the server's side."""
from __future__ import annotations

import os
import resource

import pytest

import resp
from fake_server import FakeServer
from keeper import EVENT_LOST
from proxy import CUT_BEFORE
from waiting import never, until

GREETING = ("auth", "select", "client", "time", "script")


def no_descriptors(keeper):
    """From now on the keeper's process can open nothing; returns what undoes that."""
    before = resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE)
    used = sorted(int(name) for name in os.listdir(f"/proc/{keeper.pid}/fd"))
    free = next(number for number in range(len(used) + 1) if number not in used)
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, (free, before[1]))
    return lambda: resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, before)


def test_a_server_that_closes_after_the_greeting_is_not_stormed(proxy, make_keeper):
    """It answers the handshake, and then closes at the first command of ours."""
    keeper = make_keeper(proxy.unix_url, backoff_min_ms=10, backoff_max_ms=500)
    keeper.call("ping").ok()
    proxy.rule = lambda m: None if m.what in GREETING else CUT_BEFORE
    before, logged = proxy.accepted, len(keeper.logs)
    waits = keeper.say("within", "storm", thread="w", wait=3000)
    assert not never(lambda: proxy.accepted - before > 40, 2.5, "connections")
    assert len(keeper.logs) - logged < 80
    waits.result(20)
    proxy.rule = None
    keeper.call("acquire", "storm", thread="v").ok()


class TakesScripts(FakeServer):
    """It answers the handshake and SCRIPT, and closes at the first call of a script."""

    def run(self, client, words):
        verb = words[0].upper()
        if verb == b"EVALSHA":
            raise resp.Closed
        if verb == b"SCRIPT" and words[1].upper() == b"LOAD":
            return b"0" * 40
        return [0] * (len(words) - 2) if verb == b"SCRIPT" else super().run(client, words)

    def greetings(self) -> int:
        with self.mutex:
            return sum(words[0].upper() == "TIME" for words in self.seen)


def test_a_server_that_closes_behind_a_load_is_not_stormed(folder, make_keeper):
    """No caller has asked for what it has answered."""
    server = TakesScripts(str(folder / "takes.sock"))
    keeper = make_keeper(server.unix_url, backoff_min_ms=10, backoff_max_ms=500)
    try:
        keeper.call("ping").ok()
        waits = keeper.say("within", "storm", thread="w", wait=3000)
        never(lambda: server.greetings() > 40, 2.5, "connections")
        assert server.greetings() > 3, "it tries again and again"
        waits.result(20)
    finally:
        server.stop()


def test_a_subscription_that_is_never_confirmed_is_not_stormed(server, proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url, backoff_min_ms=10, backoff_max_ms=500)
    server.call("HSET", "storm", "another:1", 1)
    server.call("PEXPIRE", "storm", 60000)
    keeper.call("ping").ok()
    proxy.rule = lambda m: CUT_BEFORE if m.what == "subscribe" else None
    before = proxy.accepted
    waits = keeper.say("within", "storm", thread="w", wait=3000)
    never(lambda: proxy.accepted - before > 40, 2.5, "connections")
    waits.result(20)


def connects_again(keeper):
    """Whether another connection is made for a lock that was held for a moment."""
    keeper.call("acquire", "short").ok()
    keeper.call("release", "short").ok()
    try:
        never(lambda: keeper.stats().connects > 1, 0.5)
    except AssertionError:
        return True
    return False


def test_a_lock_held_for_a_moment_needs_one_connection(server, make_keeper):
    """On a slow machine one of them may have been held for longer, but not each."""
    assert not all(connects_again(make_keeper(server.unix_url)) for _ in range(10))


def test_a_held_lock_is_renewed_without_descriptors(server, make_keeper):
    """The background's own connection cannot be opened: the one that is there serves it."""
    keeper = make_keeper(server.unix_url, watchdog_ms=2400)
    keeper.listen()
    keeper.call("acquire", "leased", lease=60000).ok()
    restore = no_descriptors(keeper)
    keeper.call("acquire", "kept").ok()
    until(lambda: keeper.stats().renewals > 3, 20, "it is renewed, for longer than a lease")
    assert server.call("EXISTS", "kept") and not keeper.events_of(EVENT_LOST)
    connects = keeper.stats().connects
    restore()
    until(lambda: keeper.stats().connects > connects, 20, "its own connection is made after all")
    keeper.call("release", "kept").ok()


def test_no_descriptor_for_the_first_connection(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    restore = no_descriptors(keeper)
    keeper.call("ping").is_code("LK_ESYSTEM")
    restore()
    until(lambda: keeper.call("ping").code == "OK", 5)


def test_the_background_connects_soon_after_the_first_grant_that_is_renewed(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=60000, tracking="off")
    keeper.call("acquire", "leased", lease=60000).ok()
    never(lambda: keeper.stats().connects > 1, 0.1, "nothing is renewed yet")
    keeper.call("acquire", "kept").ok()
    until(lambda: keeper.stats().connects == 2, 5, "long before the first renewal")


FIRST_CALLS = {
    "lock": ("acquire", {}), "fair": ("acquire", {}), "fenced": ("acquire", {}),
    "plain": ("acquire", {}), "read": ("acquire", {}), "write": ("acquire", {}),
    "multi": ("acquire", {}), "semaphore": ("set", {"count": 2}),
    "permits": ("set", {"count": 2}), "latch": ("set", {"count": 2}),
}


@pytest.mark.parametrize("kind", FIRST_CALLS)
def test_the_first_call_is_not_late(proxy, make_keeper, kind):
    """A deadline in server time is made only once the server's clock is known."""
    late = []
    proxy.rule = lambda m: late.append(m.what) if m.reply and m.data.startswith(b"+LATE") else None
    keeper = make_keeper(proxy.unix_url)
    verb, arguments = FIRST_CALLS[kind]
    assert keeper.call(verb, "first", kind=kind, **arguments).result >= 0
    assert not late
