"""The plain lock is SET name token NX PX ms: with redis-py, and as redsync and others do it."""
from __future__ import annotations

import re
import secrets
import threading
import time

import pytest
import redis

import checker
import lua
import resp
from keeper import CLOSE_RELEASE, EVENT_LOST
from servers import Subscriber, channel_of
from waiting import boottime_ns, until

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
FAR_US = 4_000_000_000_000_000
KIND = {"kind": "plain"}

# What the others' libraries send to free and to prolong a lock.
COMPARE_AND_DELETE = """if redis.call("GET", KEYS[1]) == ARGV[1] then
return redis.call("DEL", KEYS[1]) else return 0 end"""
COMPARE_AND_EXPIRE = """if redis.call("GET", KEYS[1]) == ARGV[1] then
return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end"""
NODE_REDLOCK_ACQUIRE = """if redis.call("exists", KEYS[1]) == 1 then return 0 end
redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1"""


def ours(server, script: str, name: str, *arguments):
    with server.connect() as connection:
        return connection.call("EVAL", lua.text_of("plain", script), 1, name, *arguments)


def acquire(server, name: str, token: str, lease_ms=30000, deadline_us=FAR_US):
    return ours(server, "acquire", name, token, lease_ms, deadline_us)


@pytest.fixture
def python(server):
    client = redis.Redis(unix_socket_path=server.path)
    yield client
    client.close()


# ---- the scripts themselves ----

def test_acquire_is_what_set_nx_px_makes(server):
    assert acquire(server, "s", "a") is None
    assert server.call("TYPE", "s") == "string"
    assert server.call("GET", "s") == b"a"
    assert 29000 < server.call("PTTL", "s") <= 30000
    ttl_ms, holder = acquire(server, "s", "b")
    assert 29000 < ttl_ms <= 30000 and holder == b"a"
    assert server.call("GET", "s") == b"a"


def test_acquire_sent_twice_is_one(server):
    assert acquire(server, "s", "a", 1000) is None
    assert acquire(server, "s", "a", 30000) is None
    assert server.call("PTTL", "s") > 20000


def test_acquire_refuses_to_run_late(server):
    late = acquire(server, "s", "a", 30000, 1)
    assert re.fullmatch(r"LATE \d{16}", late)
    assert server.call("DBSIZE") == 0


def test_lock_without_ttl_is_respected(server):
    server.call("SET", "s", "for ever")
    assert acquire(server, "s", "a") == [-1, b"for ever"]
    assert server.call("GET", "s") == b"for ever"


def test_of_a_long_value_64_bytes_are_told(server):
    server.call("SET", "s", b"x" * 100000)
    assert acquire(server, "s", "a") == [-1, b"x" * 64]


@pytest.mark.parametrize("make, named", [
    (("HSET", "k", "u:1", "1"), "hash, as of a reentrant lock"),
    (("HSET", "k", "mode", "read"), "read/write lock"),
    (("RPUSH", "k", "x"), "list"),
])
def test_other_types_are_refused_by_name(server, make, named):
    server.call(*make)
    with pytest.raises(resp.ErrorReply, match=f"^WRONGTYPE the key is a {named}, not a plain lock"):
        acquire(server, "k", "a")
    with pytest.raises(resp.ErrorReply, match="^WRONGTYPE"):
        ours(server, "force_release", "k", "channel")
    assert ours(server, "release", "k", "a", "channel") is None
    assert ours(server, "renew", "k", "a", 1000) == [0]
    assert server.call("EXISTS", "k") == 1


@pytest.mark.parametrize("lease", ["0", "-1", "1.5", "1e3", "31536000001", "x", ""])
def test_bad_leases_leave_nothing(server, lease):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad lease"):
        acquire(server, "s", "a", lease)
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad lease"):
        ours(server, "exchange", "s", "b", lease, FAR_US, "a", "channel")
    assert server.call("DBSIZE") == 0


def test_release_compares_the_token_and_publishes(server):
    listener = Subscriber(server, "channel")
    acquire(server, "s", "a")
    assert ours(server, "release", "s", "b", "channel") is None
    assert server.call("GET", "s") == b"a"
    assert ours(server, "release", "s", "a", "channel") == 1
    assert ours(server, "release", "s", "a", "channel") is None
    until(lambda: listener.messages == [b"0"] * 3, 5, "also of one that finds nothing")
    assert server.call("DBSIZE") == 0
    listener.stop()


def test_exchange(server):
    acquire(server, "s", "a", 1000)
    assert ours(server, "exchange", "s", "b", 30000, FAR_US, "x", "channel") == -3
    assert re.fullmatch(r"LATE \d{16}", ours(server, "exchange", "s", "b", 9, 1, "a", "channel"))
    assert server.call("GET", "s") == b"a"
    for _ in range(2):  # the second one finds what the first has done
        assert ours(server, "exchange", "s", "b", 30000, FAR_US, "a", "channel") is None
        assert server.call("GET", "s") == b"b"
    assert server.call("PTTL", "s") > 20000


def test_renew_never_shortens_and_never_makes(server):
    acquire(server, "s", "a", 30000)
    assert ours(server, "renew", "s", "a", 1000) == [1]
    assert server.call("PTTL", "s") > 20000
    assert ours(server, "renew", "s", "a", 60000) == [1]
    assert server.call("PTTL", "s") > 50000
    assert ours(server, "renew", "s", "b", 90000) == [0]
    assert ours(server, "renew", "none", "a", 90000) == [0]
    assert server.call("KEYS", "*") == [b"s"]


def test_full_server_refuses_a_grant_but_no_release(server):
    acquire(server, "s", "a")
    acquire(server, "t", "a")
    server.set("maxmemory", "1")
    with pytest.raises(resp.ErrorReply, match="OOM"):
        acquire(server, "new", "a")
    assert ours(server, "renew", "s", "a", 60000) == [1]
    assert ours(server, "release", "s", "a", "channel") == 0
    assert ours(server, "exchange", "t", "b", 9000, FAR_US, "a", "channel").startswith("FREED ")
    server.set("maxmemory", "0")
    assert server.call("DBSIZE") == 0


# ---- the library ----

@pytest.mark.parametrize("name", ["plain", "with space", "a{b}c", "ü"])
def test_lock_in_redis(server, keeper, name):
    bare = Subscriber(server, channel_of(name))
    keeper.call("acquire", name, **KIND).ok()
    assert re.fullmatch(UUID + r":\d+", server.call("GET", name).decode())
    assert 25000 < server.call("PTTL", name) <= 30000
    assert server.call("KEYS", "*") == [name.encode()]
    keeper.call("release", name, **KIND).ok()
    until(lambda: bare.messages == [b"0"], 5, "one message, 0")
    assert server.call("DBSIZE") == 0
    bare.stop()


def test_renewed_extended_exported_and_lost(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    keeper.listen()
    keeper.call("acquire", "w", **KIND).ok()
    token = keeper.call("export", "w", **KIND).ok().field
    assert server.call("GET", "w") == token.encode()
    assert keeper.call("is_held_by", "w", field=token, **KIND).result == 1
    assert keeper.call("is_held_by", "w", field=token + "0", **KIND).result == 0
    assert keeper.call("is_locked", "w", **KIND).result == 1
    until(lambda: keeper.stats().renewals >= 3, 10, "the watchdog renews")
    keeper.call("extend", "w", lease=60000, **KIND).ok()
    assert server.call("PTTL", "w") > 50000
    server.call("SET", "w", "thief")
    keeper.call("extend", "w", lease=90000, **KIND).is_code("LK_ELOST")
    until(lambda: keeper.events_of(EVENT_LOST, "w"), 5)
    assert keeper.call("release", "w", **KIND).is_code("LK_ELOST")
    assert server.call("GET", "w") == b"thief" and server.call("PTTL", "w") == -1
    assert keeper.call("force", "w", **KIND).result == 1
    assert server.call("DBSIZE") == 0


def test_foreign_token_by_field(server, keeper, python):
    theirs = python.lock("f", timeout=5)
    assert theirs.acquire(blocking=False)
    token = theirs.local.token.decode()
    keeper.call("extend_field", "f", field=token, lease=60000, **KIND).ok()
    assert server.call("PTTL", "f") > 50000 and theirs.owned()
    keeper.call("release_field", "f", field=token, **KIND).ok()
    assert not theirs.locked()
    keeper.call("release_field", "f", field=token, **KIND).is_code("LK_ENOTOWNER")


def test_wrong_type_names_both(server, keeper):
    keeper.call("acquire", "n").ok()
    answer = keeper.call("try", "n", thread="b", **KIND).is_code("LK_EWRONGTYPE")
    assert "reentrant lock" in answer.message and "plain lock" in answer.message
    keeper.call("release", "n").ok()
    keeper.call("acquire", "n", **KIND).ok()
    keeper.call("try", "n", thread="b").is_code("LK_EWRONGTYPE")
    keeper.call("release", "n", **KIND).ok()


def test_ours_wake_at_once_others_are_polled(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", "o", **KIND).ok()
    waits = b.say("acquire", "o", **KIND)
    until(lambda: server.channels(), 5, "B listens")
    assert not waits.done
    a.call("release", "o", **KIND).ok()
    waits.result(5).ok()
    b.call("release", "o", **KIND).ok()
    server.call("SET", "o", "stranger", "PX", 60000)
    waits = b.say("acquire", "o", **KIND)
    until(lambda: server.channels(), 5, "B listens")
    server.call("DEL", "o")  # nobody says so
    waits.result(5).ok()
    b.call("release", "o", **KIND).ok()


def test_a_user_without_the_right_to_subscribe_polls(server, make_keeper):
    server.call("ACL", "SETUSER", "quiet", "on", ">word", "~*", "+@all", "resetchannels")
    keeper = make_keeper(server.unix_url, username="quiet", password="word")
    keeper.call("acquire", "q", **KIND).ok()
    keeper.call("release", "q", **KIND).ok()
    server.call("SET", "q", "stranger", "PX", 60000)
    waits = keeper.say("acquire", "q", **KIND)
    until(lambda: keeper.stats().busy >= 4, 10, "it looks again and again")
    server.call("DEL", "q")
    waits.result(5).ok()
    keeper.call("release", "q", **KIND).ok()
    server.call("SET", "q", "stranger", "PX", 60000)
    keeper.call("within", "q", wait=300, **KIND).is_code("LK_ETIMEDOUT")


# ---- the others ----

def test_redis_py_holds_ours_waits(server, keeper, python):
    theirs = python.lock("p", timeout=30)
    assert theirs.acquire()
    keeper.call("try", "p", **KIND).is_code("LK_EBUSY")
    waits = keeper.say("acquire", "p", **KIND)
    until(lambda: keeper.stats().busy >= 3, 10)
    theirs.release()
    waits.result(5).ok()
    assert theirs.locked() and not theirs.owned()
    keeper.call("release", "p", **KIND).ok()
    assert not theirs.locked()


def test_ours_holds_redis_py_waits(server, keeper, python):
    theirs = python.lock("p", timeout=30, sleep=0.01, thread_local=False)
    keeper.call("acquire", "p", **KIND).ok()
    assert not theirs.acquire(blocking=False)
    done = threading.Thread(target=theirs.acquire)
    done.start()
    keeper.call("release", "p", **KIND).ok()
    done.join(5)
    assert not done.is_alive() and theirs.owned()
    theirs.extend(60)
    assert server.call("PTTL", "p") > 60000
    keeper.call("release", "p", **KIND).is_code("LK_ENOTOWNER")
    theirs.release()


def test_lease_of_redis_py_ends(server, keeper, python):
    theirs = python.lock("p", timeout=0.3)
    assert theirs.acquire()
    keeper.call("within", "p", wait=10000, **KIND).ok()
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        theirs.release()
    keeper.call("release", "p", **KIND).ok()


@pytest.mark.parametrize("take", ["redsync", "node-redlock"])
def test_acquire_release_and_extend_as_other_libraries_do(server, keeper, take):
    token = secrets.token_hex(20) if take == "node-redlock" else secrets.token_urlsafe(16)

    def grab():
        if take == "redsync":
            return server.call("SET", "r", token, "NX", "PX", 8000) == "OK"
        return server.call("EVAL", NODE_REDLOCK_ACQUIRE, 1, "r", token, 8000) == 1
    assert grab()
    keeper.call("try", "r", **KIND).is_code("LK_EBUSY")
    assert server.call("EVAL", COMPARE_AND_EXPIRE, 1, "r", token, 60000) == 1
    waits = keeper.say("acquire", "r", **KIND)
    until(lambda: keeper.stats().busy >= 2, 10)
    assert server.call("EVAL", COMPARE_AND_DELETE, 1, "r", token) == 1
    waits.result(5).ok()
    assert not grab()
    assert server.call("EVAL", COMPARE_AND_DELETE, 1, "r", token) == 0
    assert server.call("EVAL", COMPARE_AND_EXPIRE, 1, "r", token, 60000) == 0
    keeper.call("release", "r", **KIND).ok()
    assert grab()


# ---- under load ----

def python_turns(path: str, name: str, turns: int, number: int, claims: list, failed: list):
    client = redis.Redis(unix_socket_path=path)
    lock = client.lock(name, timeout=30, sleep=0.001)
    try:
        for _ in range(turns):
            assert lock.acquire(blocking_timeout=60)
            granted_ns = boottime_ns()
            assert lock.owned()
            claims.append(checker.Claim(0, f"python{number}", granted_ns, boottime_ns()))
            lock.release()
    except Exception as error:  # seen by the test
        failed.append(repr(error))
    client.close()


def test_redis_py_and_ours_exclude_each_other(server, make_keeper, history):
    """Threads and processes of ours against redis-py's Lock on one name, by their histories."""
    keepers = [make_keeper(server.unix_url) for _ in range(3)]
    paths, claims, failed, turns = [], [], [], 30
    runs = []
    for number, keeper in enumerate(keepers):
        paths.append(history())
        runs.append(keeper.say("stress", thread="s", name="both", threads=2, pairs=100000,
                               hold_us=300, pause_us=2000, history=paths[-1], run=number,
                               capacity=1_000_000, **KIND))
    threads = [threading.Thread(target=python_turns,
                                args=(server.path, "both", turns, number, claims, failed))
               for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    for keeper in keepers:  # Python may have been quicker all the time
        until(lambda keeper=keeper: keeper.stats().acquires > 0, 30, "each has had it")
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for run in runs:
        answer = run.result(20)
        assert answer["acquire_OK"] == answer["release_OK"] > 0, dict(answer)
    assert not failed and len(claims) == 2 * turns, failed
    records = [record for path in paths for record in checker.read(path)]
    found = checker.overlaps(checker.check(records) + claims)
    assert not found, [f"{a} | {b}" for a, b in found[:5]]
    assert server.call("DBSIZE") == 0


def test_a_killed_holder_costs_its_lease(server, make_keeper, python):
    keeper, theirs = make_keeper(server.unix_url), python.lock("k", timeout=5, sleep=0.01)
    keeper.call("acquire", "k", lease=1000, **KIND).ok()
    keeper.kill()
    begun = time.monotonic()
    assert theirs.acquire(blocking_timeout=20)
    assert time.monotonic() - begun < 10
    theirs.release()


def test_close_releases(server, keeper):
    keeper.call("acquire", "c", **KIND).ok()
    keeper.call("close", how=CLOSE_RELEASE).ok()
    until(lambda: server.call("DBSIZE") == 0, 5)
