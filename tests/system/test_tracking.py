"""Told at once: a holder hears from the server that its key is gone, whoever ended it, and by which
command. The next renewal would be half a minute away."""
from __future__ import annotations

import re
import time

import pytest

from keeper import CLOSE_IF_IDLE, ROOT
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


# ---- waiters ----


def waiters(make_keeper, server, count: int = 1, kind: str = "lock", **options) -> list:
    """So many clients that wait for it, each beside the ones before it in the order of turns."""
    made = []
    for _ in range(count):
        keeper = make_keeper(server.unix_url, watchdog_ms=WATCHDOG_MS,
                             **{"look_again_ms": 60_000, **options})
        made.append((keeper, keeper.say("within", "some", kind=kind, wait=60_000)))
        until(lambda: server.call("ZCARD", "lockkeeper_turns:{some}") == len(made), SOON_S, "place")
    return made


ENDS_OF_OTHERS = {name: ENDS[name] for name in ("del", "unlink", "rename", "expire", "flushdb")}


@pytest.mark.parametrize("kind", ["lock", "plain", "fenced"])
@pytest.mark.parametrize("end", ENDS_OF_OTHERS)
def test_a_waiter_hears_that_it_is_gone(server, make_keeper, end, kind):
    hold = ("SET", "some", "a") if kind == "plain" else ("HSET", "some", "a:1", "1")
    server.call(*hold)
    server.call("PEXPIRE", "some", "60000")
    [(_, waits)] = waiters(make_keeper, server, kind=kind)
    until(lambda: tracked(server) == 1, SOON_S, "the server watches the key")
    for words in ENDS_OF_OTHERS[end]:
        server.call(*words)
    waits.result(SOON_S).ok()


def test_only_the_front_is_told(server, make_keeper):
    server.call("HSET", "some", "a:1", "1")
    server.call("PEXPIRE", "some", "60000")
    made = waiters(make_keeper, server, 3)
    until(lambda: tracked(server) == 1, SOON_S, "the server watches the key")
    busy = [keeper.stats().busy for keeper, _ in made]
    server.call("DEL", "some")
    made[0][1].result(SOON_S).ok()
    assert [keeper.stats().busy for keeper, _ in made] == busy, "the others stay where they are"
    made[0][0].call("release", "some").ok()
    made[1][1].result(SOON_S).ok()
    made[1][0].call("release", "some").ok()
    made[2][1].result(SOON_S).ok()


def test_a_waiter_outlives_a_lost_connection(server, make_keeper):
    server.call("HSET", "some", "a:1", "1")
    server.call("PEXPIRE", "some", "60000")
    [(_, waits)] = waiters(make_keeper, server)
    for kind in ("pubsub", "normal", "pubsub"):
        until(lambda: tracked(server) == 1, SOON_S, "the server watches the key")
        server.call("CLIENT", "KILL", "TYPE", kind)
    until(lambda: tracked(server) == 1, SOON_S, "the server watches the key")
    server.call("DEL", "some")
    waits.result(SOON_S).ok()


def settled(server, made) -> list[int]:
    """Each has asked for its rank; how often each was refused so far."""
    until(lambda: tracked(server) == 1, SOON_S, "the front watches the key")
    time.sleep(2.4)  # the first sleep, and the least time between two questions
    return [keeper.stats().busy for keeper, _ in made]


HELD = {"lock": ("a:1", "1"), "write": ("mode", "write", "a:1:write", "1")}


@pytest.mark.parametrize("kind", HELD)
def test_waiters_are_quiet(server, make_keeper, kind):
    """Renewals wake the front, which looks and does not try; the others sleep on."""
    server.call("HSET", "some", *HELD[kind])
    server.call("PEXPIRE", "some", "60000")
    made = waiters(make_keeper, server, 5, kind, look_again_ms=1000)
    busy = settled(server, made)
    for _ in range(3):
        time.sleep(1.2)
        server.call("PEXPIRE", "some", "60000")
    until(lambda: tracked(server) == 1, SOON_S, "the front watches the key again")
    assert [keeper.stats().busy for keeper, _ in made] == busy, "nobody tries"
    server.call("DEL", "some")
    made[0][1].result(SOON_S).ok()


def test_a_preferred_writer_is_not_quiet(server, make_keeper):
    """Readers stand back for one that comes again and again, and take any other for dead."""
    server.call("HSET", "some", *HELD["write"])
    server.call("PEXPIRE", "some", "60000")
    made = waiters(make_keeper, server, 1, "write-preferred")
    busy = settled(server, made)
    until(lambda: made[0][0].stats().busy > busy[0] + 2, SOON_S, "it comes again, and again")


LEASE_MS = {"dies": 6000, "leaves": 60_000}
ROUND_TRIP_S = 0.5


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("ends", LEASE_MS)
def test_the_front_is_gone(server, make_keeper, ends, kind):
    """The one behind it notices, within a second of the end of the lease or at once; and nobody
    further back is before it."""
    server.call("HSET", "some", *HELD[kind])
    server.call("PEXPIRE", "some", str(LEASE_MS[ends]))
    made = waiters(make_keeper, server, 3, kind)
    settled(server, made)
    if ends == "dies":
        made[0][0].kill()
        assert server.call("HEXISTS", "some", HELD[kind][-2]), "it has died before the end"
        until(lambda: server.call("EXISTS", "some") == 0, LEASE_MS[ends] / 1000, "the end")
        made[1][1].result(1 + ROUND_TRIP_S).ok()
    else:
        made[0][0].call("close", thread="other", how=CLOSE_IF_IDLE).ok()
        until(lambda: tracked(server) == 1, SOON_S, "the next one watches the key")
        server.call("DEL", "some")
        made[1][1].result(SOON_S).ok()


def test_everything_is_flushed(server, make_keeper):
    """The others have lost their places: they look soon, though they were told of no turn."""
    server.call("HSET", "some", "a:1", "1")
    server.call("PEXPIRE", "some", "60000")
    made = waiters(make_keeper, server, 3, look_again_ms=2000)
    settled(server, made)
    server.call("FLUSHALL")
    made[0][1].result(SOON_S).ok()
    until(lambda: server.call("ZCARD", "lockkeeper_turns:{some}") >= 2, SOON_S, "their places")


# ---- where it cannot be had, and other deployments ----


@pytest.mark.parametrize("right", ["-client|id", "-client|tracking", "-client|caching",
                                   "resetchannels &redisson*"])
def test_without_the_right(server, make_keeper, right):
    """The feature is lost, and no lock."""
    _, _, *rules = (ROOT / "docs" / "acl" / "locks.acl").read_text().split()
    server.call("ACL", "SETUSER", "lk", *rules, ">pw", *right.split())
    keeper = make_keeper(server.unix_url, watchdog_ms=3000, username="lk", password="pw")
    keeper.call("acquire", "app:some").ok()
    renewals = keeper.stats().renewals
    until(lambda: keeper.stats().renewals > renewals + 1, 10, "it is renewed")
    assert tracked(server) == 0
    stats = statistics(server)
    asked = re.findall(r"cmdstat_client.(?:tracking|caching):calls=(\d+)", stats)
    assert sum(map(int, asked)) <= 2, "it does not ask again and again"
    keeper.call("release", "app:some").ok()


def whole(servers, name: str = "some") -> bool:
    return all(int(server.info("tracking_total_keys")) > 0 for server in servers)


def test_red_as_its_majority_is_gone(make_server, make_keeper):
    servers = [make_server() for _ in range(3)]
    keeper = make_keeper(servers[0].unix_url, watchdog_ms=WATCHDOG_MS)
    keeper.listen()
    for number, server in enumerate(servers):
        keeper.open(server.unix_url, c=f"n{number}", watchdog_ms=WATCHDOG_MS)
        keeper.listen(f"n{number}")
    keeper.call("acquire", "q", kind="red", c="n0", nodes="n0,n1,n2").ok()
    until(lambda: whole(servers), SOON_S, "each server watches its key")
    servers[2].call("DEL", "q")
    until(lambda: servers[2].call("EXISTS", "q"), SOON_S, "the node is given it again")
    until(lambda: whole(servers), SOON_S, "each server watches its key")
    assert keeper.call("is_held", "q", kind="red", c="n0", nodes="n0,n1,n2").result == 1
    servers[0].pause()
    servers[2].call("DEL", "q")
    servers[1].call("DEL", "q")
    servers[0].resume()
    until(lambda: keeper.events_of(2) or servers[1].call("EXISTS", "q"), SOON_S, "it is told")


def test_red_is_overwritten(make_server, make_keeper):
    """A node that has something else there cannot be given the lock again."""
    servers = [make_server() for _ in range(3)]
    keeper = make_keeper(servers[0].unix_url, watchdog_ms=WATCHDOG_MS)
    for number, server in enumerate(servers):
        keeper.open(server.unix_url, c=f"n{number}", watchdog_ms=WATCHDOG_MS)
        keeper.listen(f"n{number}")
    keeper.call("acquire", "q", kind="red", c="n0", nodes="n0,n1,n2").ok()
    until(lambda: whole(servers), SOON_S, "each server watches its key")
    for server in servers[:2]:
        server.call("SET", "q", "another's")
    until(lambda: keeper.events_of(2), SOON_S, "it is told")


def test_in_a_cluster(cluster, make_keeper):
    keeper = make_keeper(cluster.url, watchdog_ms=WATCHDOG_MS)
    keeper.listen()
    for index in range(3):
        name = cluster.name_on(index, "told")
        node = cluster.node_of(name)
        before = tracked(node)
        keeper.call("acquire", name).ok()
        until(lambda: tracked(node) > before, SOON_S, "the node watches the key")
        node.call("DEL", name)
        until(lambda: keeper.events_of(2, name), SOON_S, "its owner is told")


def test_behind_a_failover(watched, make_keeper):
    made = watched()
    keeper = make_keeper(made.url, watchdog_ms=WATCHDOG_MS)
    keeper.listen()
    keeper.call("acquire", "some").ok()
    until(lambda: tracked(made.master()) == 1, SOON_S, "the master watches the key")
    master = made.failover()
    until(lambda: tracked(master) == 1, 30, "so does the next one")
    master.call("DEL", "some")
    told(keeper)
