"""The locks of other libraries, with keys written as the table of their forms says."""
from __future__ import annotations

import json
import random
import sys
import time

import pytest

from command import ROOT
from proxy import CUT_BEFORE, Proxy
from servers import Subscriber, channel_of
from test_notify import Popper
from waiting import until

sys.path.append(str(ROOT / "scripts"))

import beside_page  # noqa: E402  (behind the path)
import foreign_table  # noqa: E402
import lua_scripts  # noqa: E402

ROWS = [row for row in foreign_table.rows() if row.kind not in ("UNSEEN", "OURS")]
CONFIGURED = foreign_table.also()
WAKERS = [row for row in ROWS if row.notify]
LOCKS = [row for row in ROWS if row.kind in ("PLAIN", "ZSET", "HASH", "FIELD")]
TYPES = {"PLAIN": "plain lock", "ZSET": "foreign lock", "HASH": "foreign lock",
         "FIELD": "foreign lock", "POOL": "foreign semaphore", "COUNT": "semaphore or latch",
         "BESIDE": "counter beside a lock"}


def title(row) -> str:
    return f"{row.name} {row.value}"


def write(server, row, number: int, ttl_ms: int = 60000) -> bytes:
    """Writes what the library writes; returns the key."""
    source = random.Random(number)
    key = foreign_table.sample(row.key, [f"j{number}", f"k{number}", f"l{number}"], source)
    value = foreign_table.sample(row.value, [f"a{number}", "b"], source)
    if row.kind in ("ZSET", "POOL"):
        score = int(time.time() * 1000) + (60000 if row.kind == "ZSET" else 0)
        if row.value == "__write__":
            server.call("ZADD", key, score, "the owner's token")
        server.call("ZADD", key, score, value)
    elif row.kind in ("HASH", "FIELD"):
        server.call("HSET", key, value, "1")
    else:
        server.call("SET", key, value)
    if ttl_ms:
        server.call("PEXPIRE", key, ttl_ms)
    return key


def listed(cli, *options: str) -> dict[bytes, dict]:
    result = cli("ls", "--json", *options)
    assert result.returncode == 0, result.stderr
    return {lock["name"].encode(): lock for lock in json.loads(result.stdout)}


@pytest.fixture
def written(server) -> dict[bytes, foreign_table.Row]:
    """A server that carries a lock of each library."""
    rows = ROWS
    return {write(server, row, number): row for number, row in enumerate(rows)
            if row.key != "symfony_check_support_time"}


def test_ls_all_names_the_library_of_each(cli, server, written):
    """Redisson's has the layout of ours, and no client that is known."""
    server.call("HSET", "orders", "b30d6a0e-5b4a-4b0e-9d6f-0a4f5e1c2d3e:42", "1")
    assert "\tlock\t" in cli("ls", "orders").stdout
    assert "another client" in cli("ls", "orders").stdout
    found = listed(cli, "--all")
    assert found.pop(b"orders")["looks_like"] is None
    assert set(found) == set(written)
    for key, row in written.items():
        lock = found[key]
        assert (lock["type"], row.name in lock["looks_like"]) == (TYPES[row.kind], True), lock
        others = "cannot be known" in lock["looks_like"]
        assert row.certainty != "SURE" or not others, lock


def test_ls_without_all_leaves_out_what_may_be_data(cli, written):
    found, everything = listed(cli), listed(cli, "--all")
    assert {key for key in everything if not everything[key]["may_be_data"]} == set(found)
    for key, row in written.items():
        assert (key in found) == (beside_page.listed_by(row) == "`ls`"), row
    assert any(row.certainty == "GUESS" and key not in found for key, row in written.items())


@pytest.mark.parametrize("row", CONFIGURED, ids=lambda row: f"{row.name} {row.key}")
def test_a_prefix_of_your_own_is_no_riddle(cli, server, row):
    key = write(server, row, 1)
    (lock,) = listed(cli, "--all").values()
    assert lock["name"].encode() == key and row.name in lock["looks_like"], lock
    assert (key in listed(cli)) == (beside_page.listed_by(row) == "`ls`")
    assert row.certainty != "GUESS" or "cannot be known" in lock["looks_like"] or \
        lock["may_be_data"], lock


def test_a_plain_lock_of_ours_is_not_said_to_be_of_bullmq(cli, server):
    name = "shop:orders:1:lock"
    assert cli("lock", "--plain", "-l", "60", name).returncode == 0
    (lock,) = listed(cli).values()
    assert lock["looks_like"] == \
        "bullmq, a job's lock, Lockkeeper --plain (which of them cannot be known)"
    assert cli("break", "--yes", name).returncode == 0 and not server.call("EXISTS", name)


def looks_like(cli, name: str) -> str | None:
    """What show says, which ls says too."""
    (lock,) = listed(cli, name).values()
    shown = json.loads(cli("show", "--json", name).stdout)
    assert shown["looks_like"] == lock["looks_like"]
    return shown["looks_like"]


def test_a_counter_of_ours_is_not_said_to_be_of_dramatiq(cli, server):
    """Permits in use and a waiter tell it apart, as does a count that dramatiq's lock never has. A
    0 or 1 without them is either's."""
    cli.start("run", "--permits", "2", "permits", "sleep", "60")
    until(lambda: server.call("GET", "permits") == b"1", 10, "one is in use")
    assert looks_like(cli, "permits") is None
    assert "looks like" not in cli("ls", "permits").stdout, "of the permit's holder neither"
    assert cli("sem", "set", "--ttl", "1h", "sem", "0").returncode == 0
    either = ("dramatiq ConcurrentRateLimiter(limit=1), a counter of Lockkeeper or Redisson "
              "(which of them cannot be known)")
    assert looks_like(cli, "sem") == either
    assert cli("latch", "set", "--ttl", "1h", "latch", "2").returncode == 0
    assert looks_like(cli, "latch") is None
    assert cli("latch", "down", "latch").returncode == 0
    assert looks_like(cli, "latch") == either
    cli.start("latch", "wait", "latch")
    until(lambda: json.loads(cli("show", "--json", "latch").stdout)["type"] == "latch", 10,
          "it waits")
    assert looks_like(cli, "latch") is None


@pytest.mark.parametrize("ttl_ms", [60000, 0], ids=["with a ttl", "without"])
@pytest.mark.parametrize("row", LOCKS, ids=title)
def test_break_frees_each(cli, server, row, ttl_ms):
    key = write(server, row, 1, ttl_ms)
    server.call("HSET", "huey.results.other", "task", "its result")
    text = cli("show", key).stdout
    assert "state: locked" in text and "looks like " in text and row.name in text
    assert cli("wait", "-n", key).returncode == 124
    broken = cli("break", "--yes", key)
    assert broken.returncode == 0 and "was not locked" not in broken.stderr
    assert cli("show", key).returncode == 3 and cli("wait", "-n", key).returncode == 0
    left = [name for name in server.call("KEYS", "*") if name != b"huey.results.other"]
    assert len(left) <= row.notify.startswith("push") and key not in left
    assert all(0 < server.call("PTTL", name) <= 30000 for name in left), "which end by themselves"


def told(row, key: bytes) -> tuple[str, str, bytes]:
    """What its release does: the verb, the channel or list, the message."""
    first, _, second = key.decode().partition(":")
    parts = {"*": [key.decode()], "*:*": [first, second]}.get(row.key, ["j1"])
    words = row.notify
    for number, part in enumerate(parts, 1):
        words = words.replace(f"{{{number}}}", part)
    verb, target, message = words.split()[:3]
    return verb, target, message.encode()


@pytest.mark.parametrize("row", WAKERS, ids=title)
def test_break_wakes_its_waiters_as_its_own_release_does(cli, server, row):
    key = write(server, row, 1)
    verb, target, message = told(row, key)
    if verb == "push":
        popper = Popper(server, target)
        assert cli("break", "--yes", key).returncode == 0
        assert popper.join() == [target.encode(), message]
    else:
        heard = Subscriber(server, target)
        assert cli("break", "--yes", key).returncode == 0
        until(lambda: heard.messages == [message], 10, "it is told")
        heard.stop()
    assert server.call("DBSIZE") == 0
    assert cli("break", "--yes", key).returncode == 0
    assert server.call("DBSIZE") == 0, "nothing was freed, so nobody is told"


@pytest.mark.parametrize("script, arguments", [
    ("plain", ["channel"]), ("foreign", ["zset", ""]), ("foreign", ["hash", "index"])])
def test_who_finds_nothing_to_free_wakes_nobody(server, script, arguments):
    text = lua_scripts.text_of(ROOT / "src/sync" / script / "force_release.lua")
    arguments += ["push", "list", "1", "60000"]
    if "index" in arguments:
        server.call("HSET", "key", "another", "1")
    assert server.call("EVAL", text, 1, "key", *arguments) == 0
    assert server.call("EXISTS", "list") == 0


def test_break_wakes_waiters_of_ours_too(cli, server):
    """Redis-py and redis-lock-py write the same: ours beside the one, and theirs, are told."""
    server.call("SET", "orders", "0123456789abcdef" * 2)
    ours, theirs = Subscriber(server, channel_of("orders")), Subscriber(server,
                                                                       "rlock-channel:orders")
    assert cli("break", "--yes", "orders").returncode == 0
    until(lambda: ours.messages == [b"0"] and theirs.messages == [b"ok"], 10, "both are told")
    ours.stop()
    theirs.stop()


def test_break_by_a_user_with_few_rights(cli, server):
    """A user who may not push frees it all the same; one who may run no scripts is told so."""
    few = {"LOCKKEEPER_USERNAME": "few", "LOCKKEEPER_PASSWORD": "x"}
    key = write(server, next(row for row in WAKERS if row.name == "python-redis-lock"), 1)
    server.call("ACL", "SETUSER", "few", "on", "nopass", "~*", "&*", "+@all", "-eval", "-evalsha")
    refused = cli("break", "--yes", key, **few)
    assert refused.returncode == 125 and "NOPERM" in refused.stderr and "evalsha" in refused.stderr
    server.call("ACL", "SETUSER", "few", "+@all", "resetkeys", "~lock:*")
    broken = cli("break", "--yes", key, **few)
    assert broken.returncode == 0, broken.stderr
    assert server.call("EXISTS", key, "lock-signal:j1") == 0


@pytest.mark.parametrize("name", ["python-redis-lock", "redfour"])
def test_break_whose_answer_is_lost_is_sent_once(cli, server, folder, name):
    """Another may have taken the lock by then: a second copy would throw that one out."""
    row = next(row for row in WAKERS if row.name == name)
    key = write(server, row, 1)
    kind = server.call("TYPE", key)
    proxy = Proxy(server.path, str(folder / "proxy.sock"))
    freed = []

    def lose(message):
        if not message.reply or message.argv[0].upper() != b"EVALSHA" or message.value != 1:
            return None
        freed.append(message.argv[3])
        write(server, row, 1)
        return CUT_BEFORE
    proxy.rule = lose
    try:
        seen = cli("break", "--yes", key, LOCKKEEPER_URL=proxy.unix_url)
    finally:
        proxy.stop()
    assert freed == [key], "one copy, and it has run"
    assert server.call("TYPE", key) == kind, "the next holder has it"
    assert seen.returncode == 125 and "the connection was closed" in seen.stderr, seen.stderr


def test_what_the_value_of_shedlock_tells(cli, server):
    server.call("SET", "job-lock:default:orders", "ADDED:2026-11-27T03:12:11.123Z@web-1:"
                "b30d6a0e-5b4a-4b0e-9d6f-0a4f5e1c2d3e", "PX", 60000)
    line = "looks like ShedLock: added 2026-11-27 03:12 on host web-1"
    assert line in cli("show", "job-lock:default:orders").stdout.splitlines()
    assert line in cli("ls").stdout


def test_a_token_of_redis_py_tells_time_and_machine(cli, server):
    server.call("SET", "orders", "f2d5a6c0cb6311f0a1b20242ac110002", "PX", 60000)
    assert "looks like redis-py: taken 2025-11-27 07:37 by machine 0242ac110002\n" in \
        cli("show", "orders").stdout


def test_a_time_is_no_semaphore(cli, server):
    server.call("SET", "lock.orders", "1795751903123", "PX", 60000)
    shown = json.loads(cli("show", "--json", "lock.orders").stdout)
    assert (shown["type"], shown["locked"], shown["count"]) == ("plain lock", True, None)


def test_a_free_zset_lock_is_free(cli, server):
    server.call("ZADD", "orders", 1000, "token", 1000, "__write__")
    assert cli("show", "orders").returncode == 3
    assert listed(cli, "--all") == {}


def test_break_of_what_may_be_data_says_what_it_deletes(cli, server):
    server.call("SET", "text", "hello world")
    broken = cli("break", "--yes", "text")
    assert broken.returncode == 0 and server.call("EXISTS", "text") == 0
    assert broken.stderr == ("It deletes the key text, a string without a time to live, which may "
                             "be data.\n")


def test_break_deletes_one_field_and_refuses_to_choose(cli, server):
    server.call("HSET", "huey.results.app", "task", "a result", "app.lock.one", "1",
                "app.lock.two", "1")
    refused = cli("break", "--yes", "huey.results.app")
    assert refused.returncode == 125 and "has 2 locks" in refused.stderr
    server.call("HDEL", "huey.results.app", "app.lock.two")
    broken = cli("break", "--yes", "huey.results.app")
    assert broken.returncode == 0 and "the one field" in broken.stderr
    assert server.call("HGETALL", "huey.results.app") == [b"task", b"a result"]


def test_semaphores_of_others_are_refused(cli, server):
    row = next(row for row in ROWS if row.kind == "POOL")
    key = write(server, row, 1)
    for command in (("break", "--yes"), ("wait",)):
        refused = cli(*command, key)
        assert refused.returncode == 125 and "foreign semaphore" in refused.stderr


def test_a_long_key_is_looked_at_in_bounded_time(cli, server):
    server.call("SET", ":" * 200000, "7e57ab1e", "PX", 60000)
    server.call("SET", "bull:" + ":" * 900, "x:1", "PX", 60000)
    assert listed(cli, "--all") == {}
