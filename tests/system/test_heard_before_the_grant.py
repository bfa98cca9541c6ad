"""A forced release between the moment the server grants and the moment the answer is read."""
from __future__ import annotations

import threading

import pytest

from keeper import EVENT_LOST
from proxy import Park
from waiting import until


@pytest.mark.parametrize("lease", [0, 30000])
@pytest.mark.parametrize("kind", ["lock", "write", "plain"])
def test_forced_release_is_not_forgotten(server, make_proxy, make_keeper, kind, lease):
    proxy, gate, parked = make_proxy(server.path), threading.Event(), threading.Event()
    a = make_keeper(server.unix_url)
    b = make_keeper(proxy.unix_url, command_timeout_ms=30000)
    named = {"kind": kind, **({"lease": lease} if lease else {})}
    b.listen()
    for name in ("n", "other"):
        a.call("acquire", name, kind=kind).ok()
    other = b.say("acquire", "other", thread="reader", kind=kind)
    until(server.channels, 10, "whoever waits for another lock reads the messages")
    waits = b.say("acquire", "n", **named)
    until(lambda: any(channel.endswith(b"{n}") for channel in server.channels()) and b.is_asleep(),
          10, "b waits and listens")
    holder = server.call("GET", "n") if kind == "plain" else server.holders("n")

    def taken() -> bool:
        now = server.call("GET", "n") if kind == "plain" else server.holders("n")
        return bool(now) and now != holder

    def rule(message):
        if message.reply and b"n" in message.argv and taken():  # not an earlier one
            parked.set()
            return Park(event=gate)
        return None
    proxy.rule = rule
    a.call("release", "n", kind=kind).ok()
    until(lambda: taken() and parked.is_set(), 10, "b has it, and does not know")
    heard = b.stats().messages
    assert a.call("force", "n", kind=kind).ok().result == 1
    until(lambda: b.stats().messages > heard, 10, "b has heard of it")
    proxy.rule = None
    gate.set()
    waits.result(10).ok()
    until(lambda: b.events_of(EVENT_LOST, "n"), 4, "long before its lease, or a renewal")
    b.call("release", "n", kind=kind).is_code("LK_ELOST")
    a.call("release", "other", kind=kind).ok()
    other.result(10).ok()
    b.call("release", "other", thread="reader", kind=kind).ok()
