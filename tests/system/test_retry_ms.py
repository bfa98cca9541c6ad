"""A wait without limit while the server is away: it ends `retry_ms` after the loss."""
from __future__ import annotations

import pytest

from waiting import boottime_ns, never, until

KINDS = ("lock", "fair", "fenced", "spin", "plain", "read", "write")
RETRY_MS = 1500


def waiting_behind_a_long_lease(server, proxy, make_keeper, kind):
    holder, keeper = make_keeper(server.unix_url), make_keeper(proxy.unix_url, retry_ms=RETRY_MS)
    held = {"read": "write"}.get(kind, kind)
    holder.call("acquire", "long", kind=held, lease=600_000).ok()
    waits = [keeper.say("acquire", "long", kind=kind, thread=f"w{i}") for i in range(2)]
    until(lambda: keeper.stats().waiting == 2 and keeper.stats().busy > 0, 10, "they wait")
    if kind != "spin":
        until(lambda: server.channels() and keeper.is_asleep(), 10, "they listen")
    return holder, keeper, waits


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_without_limit_ends_behind_a_long_lease(server, proxy, make_keeper, kind):
    _, _, waits = waiting_behind_a_long_lease(server, proxy, make_keeper, kind)
    proxy.deafen()
    proxy.cut_all()
    lost_ns = boottime_ns()
    for wait in waits:
        answer = wait.result(15).is_code("LK_EUNREACHABLE", "LK_EMAYBEHELD")
        assert answer.end_ns - lost_ns > RETRY_MS * 0.9e6


@pytest.mark.parametrize("kind", ["lock", "fair"])
def test_a_wait_outlasts_a_shorter_loss(server, proxy, make_keeper, kind):
    holder, _, waits = waiting_behind_a_long_lease(server, proxy, make_keeper, kind)
    proxy.deafen()
    proxy.cut_all()
    never(lambda: any(wait.done for wait in waits), RETRY_MS / 3000)
    proxy.hear()
    until(lambda: server.channels(), 5, "it listens again")
    never(lambda: any(wait.done for wait in waits), RETRY_MS / 1000)
    holder.call("release", "long", kind=kind).ok()
    until(lambda: any(wait.done for wait in waits), 5, "it is granted")
