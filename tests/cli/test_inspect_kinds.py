"""lockkeeper ls and show name every kind, its holders, and its waiters in order."""
from __future__ import annotations

import json

import pytest

from keeper import Keeper
from waiting import until

OWNER = "b30d6a0e-5b4a-4b0e-9d6f-0a4f5e1c2d3e"


@pytest.fixture
def keeper(server):
    made = Keeper(server.unix_url)
    yield made
    made.stop()


@pytest.fixture
def show(cli):
    def ask(name: str) -> dict:
        result = cli("show", "--json", name)
        assert result.returncode in (0, 3), result.stderr
        return json.loads(result.stdout)
    return ask


def listed(cli) -> dict[str, str]:
    """Types by name, as ls has them in text; in JSON they are the same."""
    text = [line.split("\t") for line in cli("ls").stdout.splitlines()[1:]]
    found = {row[0]: row[1] for row in text}
    assert found == {lock["name"]: lock["type"] for lock in json.loads(cli("ls", "--json").stdout)}
    return found


def owners(rows: list[dict]) -> list[str]:
    return [row["owner"] for row in rows]


@pytest.mark.parametrize("kind, type", [
    ("lock", "lock"), ("spin", "lock"), ("fair", "lock"), ("fenced", "fenced lock"),
    ("fenced-java", "fenced lock"), ("plain", "plain lock"), ("write", "read/write lock"),
    ("read", "read/write lock")])
def test_kind_that_is_held(cli, keeper, show, kind, type):
    granted = keeper.call("acquire", "held", kind=kind, lease=50000).ok()
    assert listed(cli) == {"held": type}
    lock = show("held")
    assert (lock["type"], lock["locked"], lock["count"]) == (type, True, None)
    (holder,) = lock["holders"]
    field = keeper.call("export", "held", kind=kind).ok().field
    assert holder["owner"] == field + (":write" if kind == "write" else "")
    assert 30000 < holder["ttl_ms"] <= 50000 and 30000 < lock["ttl_ms"] <= 50000
    assert lock["fence"] == granted.get("fence")
    text = cli("show", "held").stdout
    assert f"type: {type}\nstate: locked" in text and field in text


def test_fair_queue_in_order(cli, server, keeper, show):
    keeper.call("acquire", "line", kind="fair").ok()
    waits = []
    for number in range(3):
        waits.append(keeper.say("acquire", "line", thread=f"w{number}", kind="fair"))
        until(lambda: server.call("LLEN", "redisson_lock_queue:{line}") == len(waits), 10)
    queue = [field.decode() for field in server.call("LRANGE", "redisson_lock_queue:{line}", 0, -1)]
    assert listed(cli) == {"line": "fair lock"}
    lock = show("line")
    assert (lock["type"], owners(lock["waiters"])) == ("fair lock", queue)
    assert lock["waiting_clients"] == 1, "three waiters of one client"
    other = cli.start("run", "--fair", "line", "true")
    until(lambda: len(show("line")["waiters"]) == 4, 10)
    assert "waiting clients: 2\n" in cli("show", "line").stdout
    other.terminate()
    other.wait(20)
    until(lambda: len(show("line")["waiters"]) == 3, 10)
    text = cli("show", "line").stdout
    assert [f"waiter {place}: {field}, another client" for place, field in enumerate(queue, 1)] == \
        [line for line in text.splitlines() if line.startswith("waiter ")]
    keeper.call("release", "line", kind="fair").ok()
    for number, wait in enumerate(waits):
        wait.result().ok()
        keeper.call("release", "line", thread=f"w{number}", kind="fair").ok()
    assert show("line")["type"] == "none"


def test_readers_with_their_ends_and_a_waiting_writer(cli, server, keeper, show):
    keeper.call("acquire", "book", thread="a", kind="read", lease=20000).ok()
    keeper.call("acquire", "book", thread="b", kind="read", lease=60000).ok()
    waits = keeper.say("acquire", "book", thread="c", kind="write-preferred")
    until(lambda: server.call("EXISTS", "lockkeeper_writers:{book}"), 10, "it waits")
    lock = show("book")
    assert lock["type"] == "read/write lock"
    assert {holder["role"] for holder in lock["holders"]} == {"reader"}
    ends = sorted(holder["ttl_ms"] for holder in lock["holders"])
    assert 10000 < ends[0] <= 20000 and 40000 < ends[1] <= 60000
    assert len(lock["waiters"]) == 1 and lock["waiters"][0] not in lock["holders"]
    assert listed(cli) == {"book": "read/write lock"}
    for thread in ("a", "b"):
        keeper.call("release", "book", thread=thread, kind="read").ok()
    waits.result().ok()
    (writer,) = show("book")["holders"]
    assert writer["role"] == "writer" and writer["owner"].endswith(":write")
    assert f"writer: {writer['owner']}" in cli("show", "book").stdout


def test_an_expired_reader_is_shown_as_expired(server, show):
    """Redisson's layout, written by hand: one re-entered, one dead."""
    for field, count in (("mode", "read"), (f"{OWNER}:1", 2), (f"{OWNER}:2", 1)):
        server.call("HSET", "old", field, count)
    server.call("PEXPIRE", "old", 30000)
    server.call("SET", f"{{old}}:{OWNER}:1:rwlock_timeout:1", "1", "PX", 10000)
    server.call("SET", f"{{old}}:{OWNER}:1:rwlock_timeout:2", "1", "PX", 30000)
    ends = {holder["owner"]: (holder["hold_count"], holder["ttl_ms"])
            for holder in show("old")["holders"]}
    assert ends[f"{OWNER}:2"] == (1, 0)
    count, ttl_ms = ends[f"{OWNER}:1"]
    assert count == 2 and 10000 < ttl_ms <= 30000


def test_five_hundred_readers_are_shown(cli, server, show):
    fields = [word for number in range(500) for word in (f"{OWNER}:{number}", "1")]
    server.call("HSET", "crowd", "mode", "read", *fields)
    assert len(show("crowd")["holders"]) == 500
    assert listed(cli) == {"crowd": "read/write lock"}


def test_permits_with_their_ends(cli, server, keeper, show):
    keeper.call("set", "pool", kind="permits", count=5)
    assert listed(cli) == {"pool": "semaphore or latch"}
    taken = keeper.call("acquire", "pool", kind="permits", count=2, lease=40000).ok()
    server.call("ZADD", "{pool}:timeout", "922337203685477", "java's permit id")
    server.call("ZADD", "{pool}:timeout", "1000", "one that is over")
    lock = show("pool")
    assert (lock["type"], lock["count"]) == ("permit semaphore", 3)
    ends = {holder["owner"]: holder["ttl_ms"] for holder in lock["holders"]}
    assert ends.pop(b"java's permit id".hex()) == -1
    assert set(ends) == set(taken["ids"].split(","))
    assert all(20000 < end <= 40000 for end in ends.values())
    assert listed(cli) == {"pool": "permit semaphore"}
    used = len(lock["holders"])
    assert f"count: 3\npermits: {3 + used}, 3 free, {used} in use\n" in cli("show", "pool").stdout


@pytest.mark.parametrize("kind", ["semaphore", "latch"])
def test_counters_are_told_apart_by_who_waits(cli, server, keeper, show, kind):
    keeper.call("set", "number", kind=kind, count=1)
    assert listed(cli) == {"number": "semaphore or latch"}
    lock = show("number")
    assert (lock["type"], lock["count"], lock["locked"]) == ("semaphore or latch", 1, False)
    waits = keeper.say("within", "number", thread="w", kind=kind, count=2, wait=30000)
    until(server.channels, 10, "one waits")
    lock = show("number")
    assert (lock["type"], lock["waiting_clients"]) == (kind, 1)
    assert listed(cli) == {"number": kind}
    keeper.call("release" if kind == "semaphore" else "down", "number", kind=kind, count=1).ok()
    waits.result().ok()


def test_plain_locks_of_others(cli, server, show):
    tokens = {"redis-py": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "redsync": "q83vEjRWeJq83vEjRWeJqw==",
              "timeless": "00112233445566778899aabbccddeeff"}
    for name, token in tokens.items():
        server.call("SET", name, token)
        if name != "timeless":
            server.call("PEXPIRE", name, 30000)
    assert listed(cli) == {name: "plain lock" for name in tokens}
    assert owners(show("redsync")["holders"]) == [tokens["redsync"]]
    assert show("timeless")["ttl_ms"] == -1
    server.call("SET", "odd", "any text", "PX", 30000)
    assert show("odd")["type"] == "plain lock", "whoever asks by name means one"
    assert "odd" not in listed(cli), "but nobody else does"


def test_a_key_that_is_not_a_lock(cli, server):
    server.call("SET", "text", "no lock")
    server.call("SET", "float", "1.5")
    server.call("SET", "long", "9" * 30)
    server.call("HSET", "hash", "mode", "fast", "colour", "red")
    server.call("RPUSH", "list", "1")
    server.call("SET", "lockkeeper_sc:{pool}:x:1", "1")
    server.call("SET", f"{{book}}:{OWNER}:1:rwlock_timeout:1", "1")
    assert listed(cli) == {}
    for name in ("hash", "list"):
        assert cli("show", name).returncode == 125
    for name in ("text", "float", "long"):
        assert "it may be data" in cli("show", name).stdout
