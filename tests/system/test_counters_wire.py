"""Semaphore, permit semaphore and latch in Redis: keys, effects and messages are Redisson's."""
from __future__ import annotations

import re

import pytest

import lua
import resp
from servers import Subscriber
from waiting import until

NEVER = 922337203685477

# Redisson 4.7's own, as far as it matters here. KEYS: count; ARGV: permits.
JAVA_TRY_ACQUIRE = """
local value = redis.call('get', KEYS[1]);
if (value ~= false and tonumber(value) >= tonumber(ARGV[1])) then
local val = redis.call('decrby', KEYS[1], ARGV[1]); return 1; end; return 0;"""
JAVA_SWEEP = """
local expiredIds = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1], 'limit', 0, ARGV[2]);
if #expiredIds > 0 then redis.call('zrem', KEYS[2], unpack(expiredIds));
local value = redis.call('incrby', KEYS[1], #expiredIds);
if tonumber(value) > 0 then redis.call('publish', KEYS[3], value); end; end;
return #expiredIds"""


class Script:
    """The scripts of one kind, asked as the library asks them."""

    def __init__(self, server, kind: str, name: str, channel: str):
        self.connection, self.kind, self.name, self.channel = server.connect(), kind, name, channel
        self.number = 0

    def now_us(self) -> int:
        seconds, micros = self.connection.call("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def record(self, number: int) -> str:
        return f"lockkeeper_sc:{{{self.name}}}:uuid:{number}"

    def ask(self, script: str, keys, *arguments):
        text = lua.text_of(self.kind, script)
        return self.connection.call("EVAL", text, len(keys), *keys, *arguments)

    def change(self, script: str, *arguments, number=None, settled=None, keys=(), late_us=10**7):
        if number is None:
            self.number += 1
            number = self.number
        first = [self.name, self.record(number), self.record(settled or number), *keys]
        return self.ask(script, first, self.now_us() + late_us, self.channel, *arguments)


@pytest.fixture
def sem(server):
    made = Script(server, "semaphore", "pool", "redisson_sc:{pool}")
    yield made
    made.connection.close()


@pytest.fixture
def latch(server):
    made = Script(server, "latch", "ready", "redisson_countdownlatch__channel__{ready}")
    yield made
    made.connection.close()


@pytest.fixture
def permits(server):
    made = Script(server, "permits", "pool", "redisson_sc:{pool}")
    yield made
    made.connection.close()


def take(sem, permits, number, settled=None, late_us=10**7):
    keys = [sem.name, sem.record(number), sem.record(settled or number)]
    return sem.ask("acquire", keys, permits, sem.now_us() + late_us, 0)


def free(server) -> int:
    return int(server.call("GET", "pool"))


def refused(call, word: str) -> None:
    with pytest.raises(resp.ErrorReply, match=word):
        call()


# ---- semaphore ----

def test_semaphore_messages_are_redissons(server, sem):
    heard = Subscriber(server, "redisson_sc:{pool}")
    assert sem.change("set", 3, 0) == 1
    assert sem.change("set", 9, 0) == 0
    assert take(sem, 2, 100) is None
    assert free(server) == 1
    assert sem.change("add", 1, 0, 0) == 1
    assert sem.change("add", 4, 0, 0) == 1
    until(lambda: heard.messages == [b"3", b"2", b"6"], 5, "the free permits after each change")
    assert sem.change("add", -10, 0, 0) == 1, "more may be taken away than are free"
    assert sem.change("add", 2, 0, 0) == 1
    assert free(server) == -2
    assert sem.change("add", 3, 0, 0) == 1
    until(lambda: heard.messages == [b"3", b"2", b"6", b"1"], 5, "no negative count is said")
    with server.connect() as java:
        assert java.call("EVAL", JAVA_TRY_ACQUIRE, 1, "pool", 1) == 1
        assert java.call("EVAL", JAVA_TRY_ACQUIRE, 1, "pool", 1) == 0
    assert take(sem, 1, 101) == -1
    heard.stop()


def test_semaphore_sent_twice_counts_once(server, sem):
    sem.change("set", 5, 0)
    for _ in range(3):
        assert take(sem, 2, 100) is None
        assert sem.change("add", 1, 0, 0, number=101) == 1
        assert sem.change("drain", number=102) == 4
        assert free(server) == 0
    assert sem.change("drain", number=103) == 0
    sem.change("add", 7, 0, 0)
    assert sem.change("set", 5, 0, number=1) == 1, "the set of the beginning, sent again"
    assert free(server) == 7


def test_semaphore_records_go(server, sem):
    sem.change("set", 5, 0)
    take(sem, 1, 100)
    assert 3600000 < server.call("PTTL", sem.record(100)) <= 3610000
    take(sem, 1, 101, settled=100)
    sem.change("add", 1, 0, 0, number=102, settled=101)
    assert not server.call("EXISTS", sem.record(100), sem.record(101))
    assert server.call("PTTL", sem.record(102)) > 0


def test_semaphore_undo(server, sem):
    sem.change("set", 5, 0)
    undo = lambda number: sem.ask("undo", ["pool", sem.record(number)], sem.channel)  # noqa: E731
    assert undo(100) is None, "it has taken nothing yet"
    take(sem, 3, 100)
    heard = Subscriber(server, sem.channel)
    assert undo(100) == 1
    assert undo(100) is None
    assert free(server) == 5
    until(lambda: heard.messages == [b"5", b"0"], 5, "also of one that finds nothing")
    heard.stop()
    take(sem, 3, 101)
    server.call("DEL", "pool")
    assert undo(101) == 0, "a semaphore that is gone is not made anew"
    assert not server.call("EXISTS", "pool")


def test_semaphore_late_and_out_of_range(server, sem):
    sem.change("set", 5, 0)
    for answer in (take(sem, 1, 100, late_us=-1000), sem.change("add", 1, 0, 0, late_us=-1000),
                   sem.change("drain", late_us=-1000), sem.change("set", 1, 0, late_us=-1000)):
        assert re.fullmatch(r"LATE \d{16}", answer)
    assert sem.change("add", 2147483647, 0, 0) == "OVERFLOW"
    refused(lambda: take(sem, 0, 101), "LOCKKEEPER")
    refused(lambda: take(sem, "1.5", 101), "LOCKKEEPER")
    refused(lambda: take(sem, 2147483648, 101), "LOCKKEEPER")
    refused(lambda: sem.change("add", "1e3", 0, 0), "LOCKKEEPER")
    refused(lambda: sem.change("set", -1, 0), "LOCKKEEPER")
    refused(lambda: sem.change("set", 1, "x"), "LOCKKEEPER")
    assert free(server) == 5
    take(sem, 1, 102)
    assert take(sem, 1, 102, late_us=-1000) is None, "what it has done it says, also when late"


def test_change_that_is_refused_is_not_remembered(server, sem, permits):
    server.call("SET", "pool", 10**30)
    for _ in range(2):
        refused(lambda: sem.change("drain", number=100), "not an integer")
        refused(lambda: permits.change("set", 1, "all", keys=[USED], number=100), "not an integer")
    assert server.call("KEYS", "*") == [b"pool"]


def test_semaphore_keeps_its_time_to_live(server, sem):
    assert sem.change("set", 5, 60000) == 1
    take(sem, 1, 100)
    sem.change("add", 1, 0, 0)
    sem.change("drain")
    assert 50000 < server.call("PTTL", "pool") <= 60000


def test_release_when_memory_is_short(server, sem):
    sem.change("set", 5, 0)
    take(sem, 2, 100)
    server.set("maxmemory", "1")
    refused(lambda: take(sem, 1, 101), "OOM")
    assert sem.change("add", 1, 0, 0) == 1
    assert sem.ask("undo", ["pool", sem.record(100)], sem.channel) == 0
    server.set("maxmemory", "0")
    assert free(server) == 6


# ---- latch ----

def test_latch_messages_are_redissons(server, latch):
    heard = Subscriber(server, latch.channel)
    assert latch.change("set", 3) == 1
    assert latch.change("set", 5) == 0
    assert latch.ask("await", ["ready"]) == -1
    assert latch.change("count_down", 1) == 2
    assert latch.change("count_down", 5) == 0
    assert not server.call("EXISTS", "ready")
    assert latch.ask("await", ["ready"]) is None
    assert latch.change("count_down", 1) == 0, "an open latch stays open"
    assert latch.change("set", 1) == 1
    assert latch.change("delete") == 1
    assert latch.change("delete") == 0
    until(lambda: heard.messages == [b"1", b"0", b"1", b"1", b"0"], 5,
          "set, open, set, removed (Java's word and the one that wakes)")
    heard.stop()


def test_latch_sent_twice_counts_once(server, latch):
    latch.change("set", 3)
    for _ in range(3):
        assert latch.change("count_down", 1, number=100) == 2
    assert latch.change("count_down", 2, number=101) == 0
    latch.change("set", 4)
    assert latch.change("count_down", 2, number=101) == 0
    assert server.call("GET", "ready") == b"4"
    assert latch.change("set", 3, number=1) == 1
    assert server.call("GET", "ready") == b"4"


def test_latch_when_memory_is_short(server, latch):
    latch.change("set", 2)
    server.set("maxmemory", "1")
    assert latch.change("count_down", 1) == 1
    assert latch.change("count_down", 1) == 0
    refused(lambda: latch.change("set", 2), "OOM")
    server.set("maxmemory", "0")
    assert not server.call("EXISTS", "ready")


def test_latch_range(server, latch):
    for wrong in ("0", "-1", "1.5", "9007199254740992", "x"):
        refused(lambda: latch.change("set", wrong), "LOCKKEEPER")
        refused(lambda: latch.change("count_down", wrong), "LOCKKEEPER")
    assert latch.change("set", 2**53 - 1) == 1
    assert latch.change("count_down", 1) == 2**53 - 2
    assert re.match("LATE ", latch.change("count_down", 1, late_us=-1000))


def test_delete_sent_twice_removes_nothing_that_was_made_since(server, sem, latch):
    for made, values in (sem, (5, 0)), (latch, (5,)):
        assert made.change("set", *values) == 1
        assert made.change("delete", number=100) == 1
        assert made.change("delete", number=101) == 0
        assert made.change("set", *values) == 1
        assert made.change("delete", number=100) == 1, "done it is, and not again"
        assert made.change("delete", number=101) == 0
        assert re.match("LATE ", made.change("delete", number=102, late_us=-1000))
        assert server.call("GET", made.name) == b"5"
        assert made.change("delete", number=103, settled=101) == 1
        assert not server.call("EXISTS", made.name, made.record(101))
    server.set("maxmemory", "1")
    assert sem.change("delete") == 0 and latch.change("delete") == 0


# ---- permit semaphore ----

USED = "{pool}:timeout"
PREFIX = bytes(range(14))


def grab(permits, count=1, lease=30000, prefix=PREFIX, late_us=10**7):
    return permits.ask("acquire", ["pool", USED], count, lease, permits.now_us() + late_us, prefix,
                       permits.channel, 0)


def give(permits, *ids):
    return permits.ask("release", ["pool", USED], permits.channel, *ids)


def ident(index: int, prefix=PREFIX) -> bytes:
    return prefix + index.to_bytes(2, "big")


def test_permits_in_redis(server, permits):
    heard = Subscriber(server, permits.channel)
    assert permits.change("set", 3, "new", keys=[USED]) == 1
    assert permits.change("set", 9, "new", keys=[USED]) == 0
    now_ms = permits.now_us() // 1000
    assert grab(permits, 2) is None
    rows = server.call("ZRANGE", USED, 0, -1, "WITHSCORES")
    assert rows[::2] == [ident(0), ident(1)], "16 raw bytes each"
    assert all(29000 < int(score) - now_ms < 40000 for score in rows[1::2])
    assert free(server) == 1
    assert 20000 < grab(permits, 2, prefix=b"b" * 14) <= 30000, "ms until the first one ends"
    assert give(permits, ident(0)) == 1
    assert give(permits, ident(0)) is None
    assert give(permits, ident(0), ident(1)) is None, "all or none"
    assert server.call("ZCARD", USED) == 1
    assert give(permits, ident(1)) == 1
    until(lambda: heard.messages == [b"3", b"2", b"0", b"0", b"3"], 5, "also of what is refused")
    heard.stop()


def test_permits_taken_twice_are_taken_once(server, permits):
    permits.change("set", 3, "new", keys=[USED])
    assert grab(permits, 2, lease=1000) is None
    assert grab(permits, 2, lease=30000) is None
    assert free(server) == 1 and server.call("ZCARD", USED) == 2
    assert int(server.call("ZSCORE", USED, ident(0))) > permits.now_us() // 1000 + 20000
    undo = lambda: permits.ask("undo", ["pool", USED], permits.channel, PREFIX)  # noqa: E731
    assert undo() == 0 and undo() is None
    assert free(server) == 3 and not server.call("EXISTS", USED)
    assert re.match("LATE ", grab(permits, late_us=-1000))


def test_acquired_permits_stay_when_their_number_shrinks(server, permits):
    permits.change("set", 2, "new", keys=[USED])
    assert grab(permits, 2, lease=5000) is None
    permits.change("set", 1, "all", keys=[USED])
    assert free(server) == -1
    assert grab(permits, 2) is None, "sent again"
    assert free(server) == -1 and server.call("ZCARD", USED) == 2
    assert permits.ask("look", ["pool", USED], ident(0))[2] > 20000
    assert 0 < grab(permits, 1, prefix=b"b" * 14) <= 30000


def test_expired_permits_come_back(server, permits):
    heard = Subscriber(server, permits.channel)
    permits.change("set", 3, "new", keys=[USED])
    grab(permits, 2, lease=1)
    until(lambda: int(server.call("ZSCORE", USED, ident(0))) < permits.now_us() // 1000, 5)
    assert give(permits, ident(0)) is None, "its end has come"
    assert permits.ask("look", ["pool", USED], ident(0)) == [3, 0, -2]
    assert grab(permits, 3, prefix=b"b" * 14) is None
    assert free(server) == 0 and server.call("ZCARD", USED) == 3
    assert give(permits, *(ident(i, b"b" * 14) for i in range(3))) == 1
    grab(permits, 2, lease=1)
    until(lambda: int(server.call("ZSCORE", USED, ident(0))) < permits.now_us() // 1000, 5)
    assert grab(permits, 1, prefix=b"c" * 14) is None
    until(lambda: heard.messages == [b"3", b"0", b"3", b"2"], 5, "what comes back is said")
    heard.stop()


def test_permits_beside_java(server, permits):
    permits.change("set", 3, "new", keys=[USED])
    with server.connect() as java:
        java.call("DECRBY", "pool", 2)
        java.call("ZADD", USED, NEVER, b"j" * 16, permits.now_us() // 1000 - 1, b"k" * 16)
        assert permits.ask("look", ["pool", USED], b"j" * 16) == [2, 1, -1]
        assert grab(permits, 3) == -1, "one has no end"
        assert free(server) == 2, "the other has come back"
        assert grab(permits, 2, lease=1) is None
        until(lambda: java.call("EVAL", JAVA_SWEEP, 3, "pool", USED, permits.channel,
                                permits.now_us() // 1000, 1) == 1, 5, "Java sweeps ours")
    assert permits.ask("undo", ["pool", USED], permits.channel, PREFIX) is None
    assert give(permits, b"j" * 16) == 0
    assert permits.ask("look", ["pool", USED], "")[0] == 3


def test_a_permit_semaphore_that_ends(server, permits):
    permits.change("set", 3, "new", keys=[USED])
    server.call("PEXPIRE", "pool", 60000)
    grab(permits)
    assert 50000 < server.call("PTTL", USED) <= 60000, "as Redisson does"
    server.call("DEL", "pool")
    assert give(permits, ident(0)) == 0, "a semaphore that is gone is not made anew"
    assert not server.call("EXISTS", "pool", USED)


def test_permits_renewed_updated_and_set(server, permits):
    permits.change("set", 2, "all", keys=[USED])
    grab(permits, 2, lease=5000)
    look = lambda: permits.ask("look", ["pool", USED], ident(0))[2]  # noqa: E731
    assert permits.ask("renew", [USED, USED], ident(0), 30000, b"x" * 16, 30000) == [1, 0]
    assert look() > 20000
    assert permits.ask("renew", [USED], ident(0), 100) == [1]
    assert look() > 20000, "it never shortens"
    assert permits.change("update", ident(0).hex(), 3000, keys=[USED]) == 1
    assert look() <= 3000
    assert permits.change("update", (b"x" * 16).hex(), 3000, keys=[USED]) == 0
    assert permits.change("set", 5, "all", keys=[USED]) == 1
    assert permits.change("set", 1, "all", keys=[USED]) == 1
    assert free(server) == -1
    assert permits.change("set", 1, "add", keys=[USED], number=50) == 1
    assert permits.change("set", 1, "add", keys=[USED], number=50) == 1
    assert free(server) == 0
    assert permits.change("set", 2147483647, "all", keys=[USED]) == 1
    assert permits.change("set", 3, "add", keys=[USED]) == "OVERFLOW"


def test_permits_last_on_when_memory_is_full(server, permits):
    permits.change("set", 1, "new", keys=[USED])
    grab(permits, 1, lease=5000)
    look = lambda: permits.ask("look", ["pool", USED], ident(0))[2]  # noqa: E731
    server.set("maxmemory", "1")
    assert permits.ask("renew", [USED], ident(0), 30000) == [1]
    assert look() > 20000
    assert permits.change("update", ident(0).hex(), 60000, keys=[USED]) == 1
    assert look() > 50000
    assert permits.ask("renew", [USED], b"x" * 16, 30000) == [0]
    assert server.call("ZRANGE", USED, 0, -1) == [ident(0)]


def test_a_lease_is_not_shortened_by_a_copy_of_an_earlier_update(server, permits):
    permits.change("set", 1, "new", keys=[USED])
    grab(permits)
    look = lambda: permits.ask("look", ["pool", USED], ident(0))[2]  # noqa: E731
    update = lambda lease, **how: permits.change(  # noqa: E731
        "update", ident(0).hex(), lease, keys=[USED], **how)
    assert update(1000, number=100) == 1
    assert look() <= 1000
    assert update(60000, number=101) == 1
    assert update(1000, number=100) == 1, "done it is, and not again"
    assert look() > 50000
    assert update(60000, number=102, settled=101) == 1
    assert not server.call("EXISTS", permits.record(101))
    assert re.match("LATE ", update(1000, number=103, late_us=-1000))
    assert look() > 50000
    assert 0 < server.call("PTTL", permits.record(102)) <= 70000
    for wrong in (0, -1, "1.5", 31536000001, "x"):
        refused(lambda: update(wrong), "LOCKKEEPER bad lease")
    for wrong in ("", "x" * 32, "ab" * 15, "AB" * 16):
        refused(lambda: permits.change("update", wrong, 1000, keys=[USED]), "LOCKKEEPER bad")


def test_permit_semaphore_goes_with_its_permits(server, sem, permits):
    permits.change("set", 1, "new", keys=[USED])
    grab(permits)
    assert sem.change("delete", number=100, keys=[USED]) == 1
    assert not server.call("EXISTS", "pool", USED)
    assert sem.change("delete", number=101, keys=[USED]) == 0
    permits.change("set", 1, "new", keys=[USED], number=7)
    grab(permits)
    assert sem.change("delete", number=100, keys=[USED]) == 1
    assert server.call("EXISTS", "pool", USED) == 2


def test_permits_refused(server, permits):
    for wrong in (0, 1001, "1.5", -1):
        refused(lambda: grab(permits, wrong), "LOCKKEEPER")
    for wrong in (0, "1.5", 31536000001):
        refused(lambda: grab(permits, 1, wrong), "LOCKKEEPER")
    refused(lambda: grab(permits, prefix=b"short"), "LOCKKEEPER")
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("kind", ["hash", "list", "text"])
def test_another_type_is_refused_by_name(server, sem, latch, permits, kind):
    for name in ("pool", "ready"):
        server.call(*{"hash": ("HSET", name, "f", 1), "list": ("RPUSH", name, 1),
                      "text": ("SET", name, "token")}[kind])
    shown = "string" if kind == "text" else kind
    calls = [lambda: take(sem, 1, 1), lambda: sem.change("add", 1, 0, 0),
             lambda: sem.change("drain"),
             lambda: sem.change("set", 1, 0)]
    for call in calls:
        refused(call, f"WRONGTYPE.*{shown}.*semaphore")
    for call in (lambda: latch.change("set", 1), lambda: latch.change("count_down", 1),
                 lambda: latch.ask("await", ["ready"]),
                 lambda: latch.change("delete")):
        refused(call, f"WRONGTYPE.*{shown}.*latch")
    for call in (lambda: grab(permits), lambda: permits.change("set", 1, "all", keys=[USED]),
                 lambda: permits.ask("look", ["pool", USED], "")):
        refused(call, f"WRONGTYPE.*{shown}.*permit semaphore")
    assert server.call("DBSIZE") == 2
