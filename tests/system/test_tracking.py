"""Told at once: a holder hears from the server that its key is gone, whoever ended it, and by which
command. The next renewal would be half a minute away."""
from __future__ import annotations

import pytest

from waiting import until

KINDS = ["lock", "fenced", "plain", "fair", "write", "multi"]
WATCHDOG_MS = 90_000
SOON_S = 5
ENDS = {
    "del": [("DEL", "some")],
    "unlink": [("UNLINK", "some")],
    "set": [("SET", "some", "another's")],
    "rename": [("RENAME", "some", "other")],
    "flushall": [("FLUSHALL",)],
    "flushdb": [("FLUSHDB",)],
    "expire": [("PEXPIRE", "some", "-1")],
    "overwrite": [("DEL", "some"), ("HSET", "some", "somebody:1", "1")],
}


@pytest.fixture
def keeper(server, make_keeper):
    made = make_keeper(server.unix_url, watchdog_ms=WATCHDOG_MS, look_again_ms=60_000)
    made.listen()
    return made


def tracked(server) -> int:
    return int(server.info("tracking_total_keys"))


def statistics(server) -> str:
    return server.call("INFO", "commandstats").decode()


def hold(server, keeper, name: str = "some", kind: str = "lock") -> None:
    before = tracked(server)
    keeper.call("acquire", name, kind=kind).ok()
    until(lambda: tracked(server) > before, SOON_S, "the server watches the key")


def told(keeper, name: str = "some", kind: str = "lock") -> None:
    until(lambda: keeper.events_of(2), SOON_S, "its owner is told")
    assert keeper.call("is_held", name, kind=kind).result == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(server, keeper, kind):
    hold(server, keeper, kind=kind, name="other,some" if kind == "multi" else "some")
    server.call("DEL", "some")
    told(keeper, kind=kind, name="other,some" if kind == "multi" else "some")


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_it(server, keeper, end):
    hold(server, keeper)
    for words in ENDS[end]:
        server.call(*words)
    told(keeper)


def test_a_shortened_lease_is_mended(server, keeper):
    hold(server, keeper)
    server.call("PEXPIRE", "some", "3000")
    until(lambda: server.call("PTTL", "some") > 3000, 2, "it is renewed")
    assert not keeper.events_of(2)


def test_behind_a_renewal(server, make_keeper):
    """The renewal's own write ends the tracking, and a look behind it begins it anew."""
    keeper = make_keeper(server.unix_url, watchdog_ms=6000)
    keeper.listen()
    keeper.call("acquire", "some").ok()
    renewals = keeper.stats().renewals
    until(lambda: keeper.stats().renewals > renewals, 10, "it is renewed")
    until(lambda: tracked(server) == 1, SOON_S, "the server watches the key")
    server.call("DEL", "some")
    until(lambda: keeper.events_of(2), 1.5, "its owner is told before the next renewal")


@pytest.mark.parametrize("lost", ["pubsub", "normal", "both"])
def test_a_lost_connection(server, keeper, lost):
    """RESP2 tells nobody that the other connection is gone: all begins anew, and is looked at."""
    hold(server, keeper)
    for kind in ("pubsub", "normal") if lost == "both" else (lost,):
        server.call("CLIENT", "KILL", "TYPE", kind)
    until(lambda: tracked(server) == 1, SOON_S, "the server watches the key again")
    server.call("DEL", "some")
    told(keeper)


def test_gone_while_nobody_could_tell(server, keeper):
    hold(server, keeper)
    with server.connect() as other:
        other.call("MULTI")
        other.call("CLIENT", "KILL", "TYPE", "pubsub")
        other.call("DEL", "some")
        other.call("EXEC")
    told(keeper)


def test_the_table_is_full(server, keeper):
    """The server forgets keys then, and says so: that is no change, and the lock stays."""
    hold(server, keeper)
    server.call("CONFIG", "SET", "tracking-table-max-keys", "1")
    for number in range(20):
        keeper.call("acquire", f"name{number}").ok()
    until(lambda: 0 < tracked(server) <= 2, SOON_S, "it forgets")
    assert not keeper.events_of(2)
    assert keeper.call("is_held", "some").result == 1


def test_short_holds_pay_nothing(server, keeper):
    for _ in range(200):
        keeper.call("acquire", "some").ok()
        keeper.call("release", "some").ok()
    assert "cmdstat_client|caching" not in statistics(server)


def test_switched_off(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=6000, tracking="off")
    keeper.call("acquire", "some").ok()
    renewals = keeper.stats().renewals
    until(lambda: keeper.stats().renewals > renewals, 10, "it is renewed")
    assert "cmdstat_client|caching" not in statistics(server)
