"""What a holder keeps, and how soon it learns that it does not: renewals and looks, by kind."""
from __future__ import annotations

import pytest

from keeper import EVENT_LOST
from proxy import SWALLOW, reply_to
from waiting import until


def take(server, keeper, kind: str, **arguments) -> None:
    if kind == "permits":
        server.call("SET", "kept", 1)
        arguments["count"] = 1
    keeper.call("acquire", "kept", kind=kind, **arguments).ok()


def is_there(server, kind: str) -> bool:
    return bool(server.call("ZCARD", "{kept}:timeout") if kind == "permits"
                else server.call("EXISTS", "kept"))


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
