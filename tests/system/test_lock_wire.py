"""What is in Redis is Redisson's: keys, fields, times to live, channel, message."""
from __future__ import annotations

import re
import threading

import pytest

import checker
import lua
from redisson import JavaLock, ask_raw
from servers import Subscriber, channel_of
from waiting import boottime_ns, never, until

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
NAMES = ["plain", "with space", "a{b}c", "{tag}", "foo{bar", "a}b", "{}", "ü", "redisson:{x}:y"]


@pytest.mark.parametrize("name", NAMES)
def test_lock_in_redis(server, keeper, name):
    bare = Subscriber(server, channel_of(name))
    keeper.call("acquire", name).ok()
    (field, count), = server.holders(name).items()
    assert re.fullmatch(UUID + r":\d+", field.decode())
    assert count == b"1"
    assert server.call("TYPE", name) == "hash"
    assert 25000 < server.call("PTTL", name) <= 30000
    assert server.call("KEYS", "*") == [name.encode()]
    keeper.call("release", name).ok()
    until(lambda: bare.messages == [b"0"], 5, "one message, 0")
    assert server.call("DBSIZE") == 0
    bare.stop()


def test_names_of_any_bytes(server, keeper):
    name = bytes(range(256))
    keeper.call("acquire", name, lease=5000).ok()
    assert server.call("KEYS", "*") == [name]
    assert 4000 < server.call("PTTL", name) <= 5000
    keeper.call("release", name).ok()
    long = b"x" * 65536
    keeper.call("acquire", long).ok()
    assert server.call("KEYS", "*") == [long]
    keeper.call("release", long).ok()


def test_renewal_is_not_stopped_by_a_key_of_another_type(server):
    for name in "abc":
        server.call("HSET", name, "u:1", 1)
        server.call("PEXPIRE", name, 5000)
    server.call("SET", "b", "text")
    text = lua.text_of("lock", "renew")
    assert server.call("EVAL", text, 3, "a", "b", "c", *3 * ["u:1", 30000]) == [1, 0, 1]
    assert all(server.call("PTTL", name) > 20000 for name in "ac")


def test_fields_of_a_client_share_its_uuid_and_no_number(server, make_keeper):
    keeper = make_keeper()
    uuid = keeper.open(server.unix_url).uuid
    fields = set()
    for number in range(20):
        keeper.call("acquire", "number", thread=f"t{number % 3}").ok()
        (field,) = server.holders("number")
        assert field.decode().startswith(uuid + ":")
        fields.add(field)
        keeper.call("release", "number", thread=f"t{number % 3}").ok()
    assert len(fields) == 20, "a number is new for every grant"


def test_commands_of_a_pair(server, keeper):
    """EVALSHA only; what the scripts do is what the wire page says, with nothing left over."""
    keeper.call("acquire", "warm").ok()
    keeper.call("release", "warm").ok()
    monitor = server.monitor()
    keeper.call("acquire", "pair", lease=7000).ok()
    keeper.call("release", "pair").ok()
    until(lambda: any(words[0].upper() == "PUBLISH" for words in monitor.commands(True)), 5)
    own = [words for words in monitor.commands() if "pair" in words]
    assert [words[0].upper() for words in own] == ["EVALSHA", "EVALSHA"]
    assert "HRANDFIELD" not in [words[0].upper() for words in monitor.commands(True)]
    writing = ("HSET", "HINCRBY", "PEXPIRE", "HDEL", "DEL", "PUBLISH", "SET")
    writes = [words for words in monitor.commands(True) if words[0].upper() in writing]
    assert [words[0].upper() for words in writes] == ["HSET", "PEXPIRE", "HDEL", "PUBLISH"]
    assert writes[1][1:] == ["pair", "7000"]
    assert writes[3][1:] == ["redisson_lock__channel:{pair}", "0"]


def test_renewal_sets_the_watchdogs_lease(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.call("acquire", "renewed").ok()
    monitor = server.monitor()

    def renewals():
        return [words for words in monitor.commands(True) if words[0].upper() == "PEXPIRE"]
    until(lambda: len(renewals()) >= 3, 5)
    assert all(words[1:] == ["renewed", "900"] for words in renewals())
    keeper.call("release", "renewed").ok()
    count = len(renewals())
    never(lambda: len(renewals()) > count, 0.8, "renewed after its release")


def test_waiter_subscribes_then_tries(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    b.call("ping").ok()
    a.call("acquire", "order").ok()
    monitor = server.monitor()
    waits = b.say("acquire", "order")
    until(lambda: server.channels(), 5)

    def verbs():
        return [words[0].upper() for words in monitor.commands()
                if words[0].upper() in ("SUBSCRIBE", "EVALSHA")
                and words[1] != "__redis__:invalidate"]
    until(lambda: "SUBSCRIBE" in verbs() and verbs()[-1] == "EVALSHA", 5,
          "a try after the subscription")
    channels = sorted(server.channels())
    assert channels[0] == b"redisson_lock__channel:{order}"
    assert len(channels) == 2 and channels[1].startswith(channels[0] + b":")  # its turn
    count = len(verbs())
    never(lambda: len(verbs()) > count, 0.5, "a waiter polls")
    a.call("release", "order").ok()
    waits.result(5).ok()
    b.call("release", "order").ok()


def test_java_holds_ours_waits(server, keeper):
    java = JavaLock(server, "shared")
    java.lock()
    keeper.call("try", "shared").is_code("LK_EBUSY")
    waits = keeper.say("acquire", "shared")
    until(lambda: server.channels(), 5)
    assert java.unlock() == 1
    assert waits.result(5).ok().took < 10
    assert java.ask() > 25000
    assert java.unlock() is None, "Java cannot release ours"
    assert keeper.call("is_held", "shared").result == 1
    keeper.call("release", "shared").ok()
    assert java.ask() is None
    assert java.unlock() == 1
    java.close()


def test_ours_holds_java_waits(server, keeper):
    java = JavaLock(server, "shared")
    keeper.call("acquire", "shared").ok()
    done = threading.Thread(target=java.lock)
    done.start()
    until(lambda: server.channels(), 5)
    keeper.call("release", "shared").ok()
    done.join(5)
    assert not done.is_alive()
    assert list(server.holders("shared")) == [java.field.encode()]
    assert java.ask() is None, "Java re-enters"
    assert list(server.holders("shared").values()) == [b"2"]
    keeper.call("try", "shared").is_code("LK_EBUSY")
    assert java.unlock() == 0
    assert java.unlock() == 1
    java.close()


def test_java_and_ours_exclude_each_other(server, keeper, history):
    """Threads of ours against bare Redisson scripts on one lock, by their histories."""
    path, claims, turns = history(), [], 40
    run = keeper.say("stress", thread="s", name="both", threads=8, pairs=100000,
                     hold_us=300, history=path, capacity=1_000_000)

    def java_turns(number: int) -> None:
        java = JavaLock(server, "both", lease_ms=30000)
        for _ in range(turns):
            java.lock()
            granted_ns = boottime_ns()
            assert list(server.holders("both").values()) == [b"1"]
            claims.append(checker.Claim(0, f"java{number}", granted_ns, boottime_ns()))
            assert java.unlock() == 1
        java.close()
    threads = [threading.Thread(target=java_turns, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    keeper.call("stop", thread="-")
    answer = run.result(20)
    assert len(claims) == 2 * turns, "a Java waiter failed or starved"
    assert answer["acquire_OK"] == answer["release_OK"] > 0, dict(answer)
    found = checker.overlaps(checker.check(checker.read(path)) + claims)
    assert not found, [f"{a} | {b}" for a, b in found[:5]]
    assert server.call("DBSIZE") == 0


def test_java_count_of_two_is_left_alone(server, keeper):
    with server.connect() as connection:
        assert ask_raw(connection, "twice", "java:1") is None
        assert ask_raw(connection, "twice", "java:1") is None
    keeper.call("within", "twice", wait=200).is_code("LK_ETIMEDOUT")
    assert server.holders("twice") == {b"java:1": b"2"}


def test_a_copy_of_a_request_asks_for_nothing_of_the_next_owner(server):
    def ask(number=1):
        return server.call("EVAL", lua.text_of("ask", "ask"), 2, "job", "lockkeeper_ask:{job}",
                           "lockkeeper_ask:{job}", f"id:{number}", "release 4711", 60000)

    server.call("HSET", "job", "first:1", 1)
    assert ask() == [1, 0]
    request = server.call("GET", "lockkeeper_ask:{job}")
    assert b"\nfirst:1\n" in request
    server.call("DEL", "job")
    server.call("HSET", "job", "next:1", 1)
    assert ask() == [1, 0]
    assert server.call("GET", "lockkeeper_ask:{job}") == request
    for number in range(2, 10):  # eight newer ones
        assert ask(number) == [1, 0]
    request = server.call("GET", "lockkeeper_ask:{job}")
    assert request.startswith(b"id:9\nnext:1\n\nrelease 4711\n")
    assert ask(1) == ask(9) == [1, 0]
    assert server.call("GET", "lockkeeper_ask:{job}") == request
