"""Requests of which a second copy was sent: the first may have run, whatever the second is told.

The proxy passes the first copy to the server, keeps its reply and cuts the connection; the second
copy never reaches the server, and is answered with a refusal.
"""
from __future__ import annotations

import pytest

from proxy import CUT_BEFORE, Replace
from waiting import until

REFUSALS = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "busy": b"-BUSY Redis is busy running a script.\r\n",
    "too few replicas": b"-NOREPLICAS Not enough good replicas to write.\r\n",
    "no snapshot": b"-MISCONF Redis is configured to save RDB snapshots\r\n",
    "memory": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
}


class SecondRefused:
    """A rule: of the calls on a key, the first reply is lost, the second request is refused."""

    def __init__(self, key: bytes, refusals: list[bytes]):
        self.key, self.refusals, self.lost, self.refused = key, refusals, 0, 0

    def __call__(self, message):
        if message.argv[0].upper() != b"EVALSHA" or message.lock != self.key:
            return None
        if message.reply and not self.lost:
            self.lost += 1
            return CUT_BEFORE
        if message.reply and self.refused < len(self.refusals):
            self.refused += 1
            return Replace(self.refusals[self.refused - 1])
        return None


@pytest.fixture
def through(proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url, watchdog_ms=3000, command_timeout_ms=2000)
    keeper.call("set", "warm", kind="latch", count=2).ok()
    keeper.call("down", "warm", kind="latch", count=1).ok()
    return keeper


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_count_that_may_have_changed_is_not_called_unchanged(server, proxy, through, refusal):
    through.call("set", "ready", kind="latch", count=3).ok()
    proxy.rule = rule = SecondRefused(b"ready", [REFUSALS[refusal]])
    answer = through.call("down", "ready", kind="latch", count=1)
    answer.is_code("LK_EMAYBEHELD")
    assert (rule.lost, rule.refused) == (1, 1)
    assert REFUSALS[refusal][1:-2].decode() in answer.message, "the server's own words"
    assert int(server.call("GET", "ready")) == 2


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_lock_that_may_be_held_is_released(server, proxy, through, refusal):
    proxy.rule = rule = SecondRefused(b"held", [REFUSALS[refusal]])
    answer = through.call("try", "held", lease=3_600_000)
    assert (rule.lost, rule.refused) == (1, 1)
    answer.is_code("OK", "LK_EMAYBEHELD")
    if answer.code == "OK":
        through.call("release", "held").ok()
    until(lambda: server.call("EXISTS", "held") == 0, 10, "it is released")


def test_a_release_that_may_have_run_is_not_called_lost(server, proxy, through):
    """The first copy frees it, the second finds no script, the third finds no lock."""
    through.call("acquire", "freed").ok()
    proxy.rule = rule = SecondRefused(b"freed", [b"-NOSCRIPT No matching script.\r\n"])
    through.call("release", "freed").ok()
    assert (rule.lost, rule.refused) == (1, 1)
    assert server.call("EXISTS", "freed") == 0


def test_a_refusal_of_the_only_copy_says_that_nothing_was_done(proxy, through):
    through.call("set", "ready", kind="latch", count=3).ok()
    refusal = REFUSALS["loading"]

    def rule(message):
        on = message.reply and message.argv[0].upper() == b"EVALSHA" and message.lock == b"ready"
        return Replace(refusal) if on else None
    proxy.rule = rule
    through.call("down", "ready", kind="latch", count=1).is_code("LK_EUNAVAILABLE")


KINDS = ["lock", "fair", "fenced", "spin", "plain", "read", "write", "multi"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_watchdog_survives_a_script_flush(server, make_keeper, kind):
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.listen()
    keeper.call("acquire", "kept", kind=kind).ok()
    until(lambda: keeper.stats().renewals > 0, 8, "it is renewed")
    for _ in range(2):
        renewals = keeper.stats().renewals
        server.call("SCRIPT", "FLUSH")
        until(lambda least=renewals: keeper.stats().renewals > least, 8, "also after a flush")
    keeper.call("release", "kept", kind=kind).ok()
    assert not keeper.events
