"""Every kind of lock behind proxies, and on programs that stand in for Redis: docs/servers.md.

Where the locks cannot work the first call ends at once, with an error that says what is missing.
`make check-servers` runs it.
"""
from __future__ import annotations

import pytest

import moving
import programs
from keeper import EVENT_LOST

LEASE_MS = 3000
EACH = [kind for kind in moving.EVERY_LOCK if kind != "multi"]


@pytest.fixture
def run(folder):
    """run(kind, …): a program, until the test ends."""
    made = []

    def make(kind, *words):
        place = folder / f"program{len(made)}"
        place.mkdir()
        made.append(kind(place, *words))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def every_kind_works(url: str, make_keeper, kinds: list | tuple = moving.EVERY_LOCK) -> None:
    """Held for longer than a lease and waited for, by calls and by a queue; the counters too."""
    for queued in (0, 1):
        holder, waiter = make_keeper(url, watchdog_ms=LEASE_MS), make_keeper(url)
        holder.listen()
        moving.hand_over_all(holder, waiter, kinds, queued)
        assert not holder.events_of(EVENT_LOST)
    moving.use_counters(holder, waiter)


def is_refused(url: str, make_keeper, *words: str) -> None:
    """Each first call of a client ends at once, or with its limit, with an error that has these
    words."""
    for kind in moving.EVERY_LOCK:
        for verb, limit in (("try", {}), ("acquire", {}), ("within", {"wait": 500})):
            refused = make_keeper(url).call(verb, f"{kind}-x", kind=kind, **limit)
            assert refused.code in ("LK_EUNREACHABLE", "LK_EDENIED", "LK_EREFUSED"), refused
            assert all(word in refused.message for word in words), refused.message
            assert refused.took < 5


def test_fakeredis(run, make_keeper):
    every_kind_works(run(programs.FakeRedis).url, make_keeper)


@pytest.mark.parametrize("clock", ["runs", "stands still"])
def test_miniredis(run, make_keeper, clock):
    every_kind_works(run(programs.Miniredis, *([clock] if clock == "runs" else [])).url,
                     make_keeper)


def test_jedis_mock(run, make_keeper):
    """Its Lua writes whole numbers as 1.0: fence tokens would all be alike."""
    url = run(programs.JedisMock).url
    is_refused(url, make_keeper, "its Lua writes 1 as 1.0", "use one of these")
    keeper = make_keeper(url)
    for kind in ("semaphore", "permits", "latch"):
        refused = keeper.call("set", kind, kind=kind, count=1).is_code("LK_EREFUSED")
        assert "its Lua writes 1 as 1.0" in refused.message


@pytest.mark.parametrize("engine, words", [
    (["LUAJ"], ["its Lua writes 1 as 1.0", "use one of these"]),
    ([], ["interpreter disabled", "it runs no scripts"])], ids=["LuaJ", "by default"])
def test_claudb(run, make_keeper, engine, words):
    url = run(programs.ClauDb, *engine).url
    is_refused(url, make_keeper, *words)
    refused = make_keeper(url).call("set", "latch", kind="latch", count=1)
    assert words[0] in refused.is_code("LK_EREFUSED", "LK_EDENIED").message


def test_infinispan(run, make_keeper):
    """Another script comes between the commands of one of its scripts: two owners."""
    url = run(programs.Infinispan).url
    words = ("it speaks RESP3 alone", "scripts are not atomic: use Redis or Valkey")
    is_refused(url, make_keeper, *words)
    for kind in ("semaphore", "permits", "latch"):
        refused = make_keeper(url).call("set", kind, kind=kind, count=1).is_code("LK_EREFUSED")
        assert all(word in refused.message for word in words), refused.message


@pytest.mark.parametrize("proxy", [programs.HaProxy, programs.EnvoyTcp])
def test_a_proxy_that_passes_bytes_on(run, make_server, make_keeper, proxy):
    """Connections that it ends in between cost nobody a lock."""
    every_kind_works(run(proxy, make_server()).url, make_keeper)


@pytest.mark.parametrize("count", [1, 2])
def test_envoy(run, make_server, make_keeper, count):
    """It has no SUBSCRIBE, and a TIME of its own. A lock of several names is refused."""
    servers = [make_server() for _ in range(count)]
    url = run(programs.Envoy, *servers).url
    every_kind_works(url, make_keeper, EACH)
    for verb in ("try", "within"):
        refused = make_keeper(url).call(verb, "a,b,c", kind="multi", wait=20_000)
        assert "spreads keys" in refused.is_code("LK_EINVAL").message
    assert not any(server.call("EXISTS", "a", "b", "c") for server in servers)
    if count > 1:
        assert all(server.call("DBSIZE") for server in servers), "both have keys"


def test_twemproxy(run, make_server, make_keeper):
    server = make_server()
    is_refused(run(programs.Twemproxy, server).url, make_keeper,
               "closed the connection", "a proxy that lacks commands? name the server itself")
    assert server.call("DBSIZE") == 0
