"""The multi lock's two scripts, asked directly: all or none, safe to repeat, never late. And what
a client makes of a late answer."""
from __future__ import annotations

import threading

import pytest

import lua
import resp
from keeper import CLOSE_RELEASE
from proxy import Once, Park, Replace
from servers import Subscriber, channel_of
from waiting import never, until

NAMES = ["m1", "m2", "m3"]


class Multi:
    def __init__(self, server):
        self.server, self.connection = server, server.connect()

    def deadline(self, later_us: int) -> int:
        seconds, micros = self.connection.call("TIME")
        return int(seconds) * 1_000_000 + int(micros) + later_us

    def acquire(self, field="me:1", lease=30000, names=NAMES, later_us=10_000_000):
        return self.connection.call("EVAL", lua.text_of("multi", "acquire"), len(names),
                                    *names, field, lease, self.deadline(later_us))

    def release(self, *fields, names=NAMES):
        words = [word for name, field in zip(names, fields)
                 for word in (field, channel_of(name))]
        return self.connection.call("EVAL", lua.text_of("multi", "release"), len(names),
                                    *names, *words)


@pytest.fixture
def multi(server):
    return Multi(server)


def test_all_are_taken_and_freed(server, multi):
    assert multi.acquire() is None
    for name in NAMES:
        assert server.holders(name) == {b"me:1": b"1"}
        assert 29000 < server.call("PTTL", name) <= 30000
    heard = [Subscriber(server, channel_of(name)) for name in NAMES]
    assert multi.release("me:1", "me:1", "me:1") == [1, 1, 1]
    for listener in heard:
        until(lambda: listener.messages == [b"0"], 5, "one message, 0")
        listener.stop()
    assert server.call("DBSIZE") == 0


def test_none_is_taken_when_one_is_busy(server, multi):
    server.call("HSET", "m2", "other:1", "1")
    server.call("PEXPIRE", "m2", "5000")
    which, ttl = multi.acquire()
    assert which == 2 and 4000 < ttl <= 5000
    assert server.call("EXISTS", "m1", "m3") == 0
    server.call("PERSIST", "m2")
    assert multi.acquire() == [2, -1]


def test_a_repetition_renews_and_frees_once(server, multi):
    assert multi.acquire(lease=1000) is None
    assert multi.acquire(lease=50000) is None
    assert all(server.call("PTTL", name) > 40000 for name in NAMES)
    assert multi.release("me:1", "me:1", "me:1") == [0, 0, 0]
    assert multi.release("me:1", "me:1", "me:1") == [-1, -1, -1]


def test_each_is_freed_from_its_own_field_only(server, multi):
    assert multi.acquire("me:1", names=["m1"]) is None
    assert multi.acquire("me:2", names=["m2"]) is None
    server.call("HSET", "m3", "other:1", "1")
    assert multi.release("me:1", "me:2", "me:3") == [0, 0, -1]
    assert server.call("KEYS", "*") == [b"m3"]


def test_late_takes_nothing(server, multi):
    answer = multi.acquire(later_us=-1)
    assert answer.startswith("LATE ") and int(answer.split()[1]) > 0
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("lease", ["0", "-1", "1.5", "1e3", "31536000001", "x"])
def test_bad_leases_take_nothing(server, multi, lease):
    with pytest.raises(resp.ErrorReply, match="bad lease"):
        multi.acquire(lease=lease)
    assert server.call("DBSIZE") == 0


def test_another_type_is_refused_and_nothing_taken(server, multi):
    server.call("SET", "m3", "text")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        multi.acquire()
    assert server.call("KEYS", "*") == [b"m3"]
    server.call("DEL", "m3")
    server.call("HSET", "m3", "mode", "read")
    with pytest.raises(resp.ErrorReply, match="read/write lock, not a lock"):
        multi.acquire()
    assert server.call("KEYS", "*") == [b"m3"]


def test_another_type_keeps_none_of_the_others(server, multi):
    assert multi.acquire() is None
    server.call("SET", "m2", "text")
    assert multi.release("me:1", "me:1", "me:1") == [0, -1, 0]
    assert server.call("KEYS", "*") == [b"m2"]


def test_a_repetition_when_memory_is_full_keeps_all(server, multi):
    assert multi.acquire(lease=5000) is None
    server.set("maxmemory", "1")
    assert multi.acquire() is None
    assert all(server.call("PTTL", name) > 20000 for name in NAMES)


def test_a_repetition_that_is_refused_keeps_none(server, multi):
    assert multi.acquire() is None
    server.call("DEL", "m1")
    server.set("maxmemory", "1")
    with pytest.raises(resp.ErrorReply, match="OOM"):
        multi.acquire()
    assert server.call("DBSIZE") == 0


def test_full_memory_takes_nothing_and_frees_all(server, multi):
    assert multi.acquire() is None
    server.set("maxmemory", "1")
    with pytest.raises(resp.ErrorReply, match="OOM"):
        multi.acquire("other:1", names=["free"])
    assert multi.release("me:1", "me:1", "me:1") == [0, 0, 0]
    assert server.call("DBSIZE") == 0


def test_a_refused_release_is_refused(server, multi):
    """"Not the owner" would be a lie: all is still held."""
    assert multi.acquire() is None
    server.set("min-replicas-to-write", "1")
    with pytest.raises(resp.ErrorReply, match="NOREPLICAS"):
        multi.release("me:1", "me:1", "me:1")
    server.set("min-replicas-to-write", "0")
    assert multi.release("me:1", "me:1", "me:1") == [0, 0, 0]


def test_a_refused_release_may_be_held_and_is_repeated(server, make_keeper):
    keeper = make_keeper(server.unix_url)
    keeper.call("acquire", "a,b", kind="multi", lease=60000).ok()
    server.set("min-replicas-to-write", "1")
    answer = keeper.call("release", "a,b", kind="multi").is_code("LK_EMAYBEHELD")
    assert "NOREPLICAS" in answer.message
    assert server.call("EXISTS", "a", "b") == 2
    server.set("min-replicas-to-write", "0")
    until(lambda: server.call("EXISTS", "a", "b") == 0, 10, "long before the lease ends")


def test_forced_release_that_stops_behind_the_first(server, make_keeper):
    """One is freed, so "not done" would be a lie."""
    server.call("ACL", "SETUSER", "some", "on", ">word", "~a", "&*", "+@all")
    holder = make_keeper(server.unix_url)
    keeper = make_keeper(server.unix_url, username="some", password="word")
    holder.call("acquire", "a,b", kind="multi", lease=60000).ok()
    answer = keeper.call("force", "a,b", kind="multi").is_code("LK_EMAYBEHELD")
    assert "1 of 2" in answer.message and '"b"' in answer.message
    assert server.call("EXISTS", "a", "b") == 1
    keeper.call("force", "a,b", kind="multi").is_code("LK_EDENIED")


def is_acquire(message) -> bool:
    return not message.reply and message.what == "evalsha" and message.lock == b"m1"


def late_once():
    """The first acquire gets the answer of a server whose clock is ahead."""
    answer = resp.encode("EVAL", "local now = redis.call('TIME') return redis.status_reply("
                         "'LATE ' .. string.format('%.0f', now[1] * 1000000 + now[2]))", 0)
    return Once(is_acquire, Replace(answer))


def test_a_try_that_is_late_is_made_again_once(server, proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url)
    keeper.call("try", "m1,m2", kind="multi").ok()
    keeper.call("release", "m1,m2", kind="multi").ok()
    proxy.rule = once = late_once()
    keeper.call("try", "m1,m2", kind="multi").ok()
    assert once.hit.is_set()
    keeper.call("release", "m1,m2", kind="multi").ok()
    proxy.rule = lambda message: late_once()(message)  # each time
    keeper.call("try", "m1,m2", kind="multi").is_code("LK_EUNAVAILABLE")
    assert server.call("DBSIZE") == 0


def test_a_detached_acquire_is_granted_to_nobody(server, proxy, make_keeper):
    """Not even when the client is closed before its loop can release anything."""
    keeper, go_on = make_keeper(proxy.unix_url), threading.Event()
    keeper.call("try", "m1,m2", kind="multi").ok()
    keeper.call("release", "m1,m2", kind="multi").ok()
    proxy.rule = once = Once(is_acquire, Park(event=go_on))
    proxy.refuse = True  # no other connection
    keeper.call("within", "m1,m2", kind="multi", wait=200).is_code("LK_EMAYBEHELD")
    assert once.hit.is_set()
    closing = keeper.say("close", how=CLOSE_RELEASE)
    never(lambda: closing.done, 0.3, "it waits for the answer")
    go_on.set()
    closing.result(10)
    assert server.call("DBSIZE") == 0
