"""Releases that keep the lock from everybody for a time: lost answers, replicas, late requests."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import moving
from keeper import CLOSE_ABANDON
from proxy import CUT_BEFORE, Cut, Once, reply_to, request
from redisson import JavaLock
from waiting import never, until

KEEP_MS = 600_000
PLACES = {
    "before the request": (request, CUT_BEFORE),
    "in the request": (request, Cut(20)),
    "behind the request": (request, Cut(1 << 20)),
    "before the reply": (reply_to, CUT_BEFORE),
    "in the reply": (reply_to, Cut(2)),
}


def kept(server, name: str) -> bool:
    """By nobody, for about the whole time."""
    text = repr(server.call("GET", name) if server.call("TYPE", name) == "string"
                else server.call("HKEYS", name))
    left_ms = server.call("PTTL", name)
    return ":kept:" in text and KEEP_MS - 60_000 < left_ms <= KEEP_MS


@pytest.mark.parametrize("queued", [0, 1])
@pytest.mark.parametrize("kind", ["lock", "fair", "plain", "read", "write", "multi"])
@pytest.mark.parametrize("place", PLACES)
def test_sent_again_after_a_lost_connection(server, proxy, make_keeper, kind, place, queued):
    keeper = make_keeper(proxy.url, watchdog_ms=3000)
    name = "a,b" if kind == "multi" else "a"
    keeper.call("acquire", name, kind=kind, queue=queued).ok()
    where, verdict = PLACES[place]
    proxy.rule = once = Once(where("keep"), verdict)
    keeper.call("release", name, kind=kind, queue=queued, keep=KEEP_MS).ok()
    assert once.hit.is_set()
    assert all(kept(server, part) for part in name.split(","))
    keeper.call("try", name, kind=moving.RIVALS.get(kind, kind), queue=queued).is_code("LK_EBUSY")
    keeper.call("close", how=CLOSE_ABANDON).ok()
    assert all(kept(server, part) for part in name.split(","))


@pytest.mark.parametrize("kind", moving.LOCKS)
def test_replicas_acknowledge_it(replicas, make_keeper, kind):
    """Each has it at the moment at which it is told; and where one has it not, that is told."""
    three = replicas()
    keeper = make_keeper(three.url, watchdog_ms=20_000)
    for number in range(10):
        name = f"lock{number}"
        keeper.call("acquire", name, kind=kind).ok()
        keeper.call("release", name, kind=kind, keep=KEEP_MS).ok()
        assert all(kept(server, name) for server in three.servers), name
    keeper.call("acquire", "some", kind=kind, lease=2000).ok()
    three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[2].port)
    keeper.call("release", "some", kind=kind, keep=KEEP_MS).is_code("LK_EMAYBEHELD")
    never(lambda: not kept(three.servers[0], "some"), 0.3, "what the master has done stays")


@pytest.mark.parametrize("kind", moving.LOCKS)
def test_a_renewal_that_comes_late_prolongs_nothing(server, make_keeper, kind):
    """Nor does what is released elsewhere by the old field free it."""
    keeper, other = make_keeper(server.unix_url), make_keeper(server.unix_url)
    keeper.call("acquire", "a", kind=kind).ok()
    field = "" if kind == "multi" else keeper.call("export", "a", kind=kind).ok()["field"]
    keeper.call("release", "a", kind=kind, keep=KEEP_MS).ok()
    if field:
        other.call("extend_field", "a", kind=kind, field=field,
                   lease=2 * KEEP_MS).is_code("LK_ENOTOWNER")
        other.call("release_field", "a", kind=kind, field=field).is_code("LK_ENOTOWNER")
    assert kept(server, "a")


@pytest.mark.parametrize("kind", ["lock", "fair", "read", "write", "multi"])
def test_the_time_to_live_is_set_last(server, make_keeper, kind):
    """A short one may be over at once, and the key with it: what is written behind that would stay
    for ever."""
    keeper = make_keeper(server.unix_url)
    keeper.call("acquire", "a", kind=kind).ok()
    monitor = server.monitor()
    keeper.call("release", "a", kind=kind, keep=1).ok()

    def writes():
        found = [words for words in monitor.commands(of_scripts=True)
                 if words[0].upper() in ("HSET", "HDEL", "PEXPIRE") and words[1] == "a"]
        return found if len(found) >= 3 else None
    assert until(writes, 20)[-1][0].upper() == "PEXPIRE"
    until(lambda: not server.call("EXISTS", "a"), 20)


def test_memory_pressure_does_not_hinder_it(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    kinds = ("lock", "fair", "plain", "read", "write", "fenced", "spin")
    for kind in kinds:
        keeper.call("acquire", kind, kind=kind).ok()
    server.set("maxmemory", 1)
    for kind in kinds:
        keeper.call("release", kind, kind=kind, keep=KEEP_MS).ok()
        assert kept(server, kind)


def test_java_waits_for_it(server, make_keeper):
    """It hears once that the end has changed, and sleeps until then."""
    keeper, java = make_keeper(server.unix_url), JavaLock(server, "a")
    keeper.call("acquire", "a").ok()
    with ThreadPoolExecutor(1) as pool:
        granted = pool.submit(java.lock, 60)
        until(lambda: java.tries == 2 and server.channels(), 20, "Java sleeps for the whole lease")
        keeper.call("release", "a", keep=1000).ok()
        granted.result(60)
    assert java.tries <= 5
    assert java.unlock() == 1
    java.close()
