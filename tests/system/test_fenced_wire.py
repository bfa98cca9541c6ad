"""The fenced lock in Redis: its tokens only rise, whatever happens to clock and data."""
from __future__ import annotations

import itertools
import re
import time

import pytest

import lua
import resp
from redisson import JavaLock
from servers import Subscriber, channel_of
from waiting import until

MOST = 2**53 - 1
NAMES = ["plain", "with space", "a{b}c", "{tag}", "ü"]
JAVA_ACQUIRE = """
if (redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
local t = redis.call('incr', KEYS[2]); redis.call('hincrby', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]); return {-1, t}; end;
return {redis.call('pttl', KEYS[1]), -1};"""


def derived(prefix: str, name: str) -> str:
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def now_us() -> int:
    return time.time_ns() // 1000


def acquire(server, name="lock", field="u:1", *, lease=30000, deadline=None, giver="", java=False):
    """The script's answer: a token (int), ("busy", ttl), or the status text."""
    keys = [name, derived("lockkeeper_fence", name)]
    keys += [derived("redisson_lock_token", name)] if java else []
    deadline = deadline or now_us() + 60_000_000
    answer = server.call("EVAL", lua.text_of("fenced", "acquire"), len(keys), *keys, field,
                         lease, deadline, giver, channel_of(name))
    if isinstance(answer, int):
        return "busy", answer
    return int(answer[6:]) if re.fullmatch(r"TOKEN [1-9]\d*", answer) else answer


numbers = itertools.count(1)


def check(server, token, *value, key="seen", ttl=0, client="u", number=None):
    """The script's answer; a value is written by a `client` under a `number` that only rises."""
    write = [*value, client, number or next(numbers)] if value else []
    return server.call("EVAL", lua.text_of("fenced", "check"), 1, key, token, ttl, *write)


def seen(server) -> dict[bytes, bytes]:
    fields = server.holders("seen")
    fields.pop(b"writes", None)
    return fields


# ---- the script, directly ----

def test_a_token_is_the_servers_time_at_first(server):
    before = now_us()
    token = acquire(server)
    assert before - 2_000_000 < token < now_us() + 2_000_000
    assert server.call("GET", "lockkeeper_fence:{lock}") == b"%d" % token
    assert 29 * 86400_000 < server.call("PTTL", "lockkeeper_fence:{lock}") <= 30 * 86400_000
    assert server.holders("lock") == {b"u:1": b"1"}
    assert 0 < server.call("PTTL", "lock") <= 30000


def test_a_repetition_neither_raises_nor_loses_the_token(server):
    token = acquire(server)
    server.call("PEXPIRE", "lock", 1000)
    assert acquire(server) == token
    assert acquire(server) == token
    assert server.call("PTTL", "lock") > 1000, "the lease is renewed"
    assert acquire(server, field="u:2")[0] == "busy"
    assert acquire(server) == token


@pytest.mark.parametrize("java", [False, True])
def test_a_repetition_when_memory_is_full_keeps_the_lock(server, java):
    token = acquire(server, lease=5000, java=java)
    server.set("maxmemory", "1")
    assert acquire(server, java=java) == token
    assert server.call("PTTL", "lock") > 20000
    taken = acquire(server, field="u:2", giver="u:1", java=java)
    assert taken > token
    assert acquire(server, field="u:2", giver="u:1", java=java) == taken
    assert server.holders("lock") == {b"u:2": b"1"}


def test_tokens_rise_with_each_grant(server):
    tokens = []
    for number in range(200):
        tokens.append(acquire(server, field=f"u:{number}"))
        server.call("DEL", "lock")
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("ahead", [MOST - 1000, 2**52, now_us() + 10**12],
                         ids=["near the end", "far ahead", "days ahead"])
def test_a_clock_that_steps_back_does_not_lower_it(server, ahead):
    """A newest token that is ahead of the clock is what a step back looks like."""
    server.call("SET", "lockkeeper_fence:{lock}", ahead)
    for number in range(3):
        assert acquire(server, field=f"u:{number}") == ahead + 1 + number
        assert server.call("GET", "lockkeeper_fence:{lock}") == b"%d" % (ahead + 1 + number)
        server.call("DEL", "lock")


def test_data_that_is_gone_does_not_lower_it(server):
    tokens = []
    for number in range(5):
        tokens.append(acquire(server, field=f"u:{number}"))
        server.call("FLUSHALL")
    assert tokens == sorted(set(tokens))


def test_a_repetition_without_the_newest_token_gets_a_greater_one(server):
    token = acquire(server)
    server.call("DEL", "lockkeeper_fence:{lock}")
    again = acquire(server)
    assert again > token
    assert acquire(server) == again


@pytest.mark.parametrize("counter", [MOST, MOST + 1, 10**30, "nan", "1e3", "-5", "", "1.5", "x"])
def test_a_counter_at_its_end_is_refused(server, counter):
    server.call("SET", "lockkeeper_fence:{lock}", counter)
    with pytest.raises(resp.ErrorReply, match="^WRONGTYPE"):
        acquire(server)
    assert server.call("KEYS", "*") == [b"lockkeeper_fence:{lock}"], "nothing was written"


def test_the_greatest_token_is_exact(server):
    server.call("SET", "lockkeeper_fence:{lock}", MOST - 1)
    assert acquire(server) == MOST
    assert server.call("GET", "lockkeeper_fence:{lock}") == b"%d" % MOST
    assert acquire(server) == MOST


def test_a_lock_without_ttl_is_busy_and_nothing_else(server):
    """Redisson's answer {-1, -1} reads as a grant there."""
    acquire(server)
    server.call("PERSIST", "lock")
    assert acquire(server, field="u:2") == ("busy", -1)


@pytest.mark.parametrize("java", [False, True])
def test_late_writes_nothing(server, java):
    answer = acquire(server, deadline=now_us() - 1_000_000, java=java)
    assert re.fullmatch(r"LATE \d{16}", answer)
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("lease", [0, -1, "1.5", "1e3", 31536000001, "", "x"])
def test_bad_leases_write_nothing(server, lease):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER"):
        acquire(server, lease=lease)
    assert server.call("DBSIZE") == 0


def test_keys_of_other_types(server):
    server.call("SET", "lock", "x")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        acquire(server)
    server.call("DEL", "lock")
    server.call("HSET", "lock", "mode", "read", "u:9", "1")
    with pytest.raises(resp.ErrorReply, match="read/write lock, not a fenced one"):
        acquire(server)
    server.call("DEL", "lock")
    server.call("HSET", "lockkeeper_fence:{lock}", "a", "b")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        acquire(server)
    assert server.call("EXISTS", "lock") == 0


def test_exchange_gives_the_taker_a_new_token(server):
    token = acquire(server)
    heard = Subscriber(server, channel_of("lock"))
    taken = acquire(server, field="u:2", giver="u:1")
    assert taken > token
    assert server.holders("lock") == {b"u:2": b"1"}
    assert acquire(server, field="u:2", giver="u:1") == taken, "repeated"
    assert acquire(server, field="u:3", giver="u:1") == ("busy", -3), "the giver has it not"
    assert server.holders("lock") == {b"u:2": b"1"}
    server.call("DEL", "lock")
    assert acquire(server, field="u:3", giver="u:2") == ("busy", -3)
    assert server.call("EXISTS", "lock") == 0
    assert heard.messages == []
    heard.stop()


def test_exchange_that_is_refused_is_a_release_or_nothing(server):
    acquire(server)
    server.call("SET", "lockkeeper_fence:{lock}", "x")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        acquire(server, field="u:2", giver="u:1")
    assert server.holders("lock") == {b"u:1": b"1"}
    server.call("DEL", "lockkeeper_fence:{lock}")
    server.call("ACL", "SETUSER", "default", "-set")
    try:
        heard = Subscriber(server, channel_of("lock"))
        assert acquire(server, field="u:2", giver="u:1").startswith("FREED ")
        until(lambda: heard.messages == [b"0"], 5, "who waits is told")
        heard.stop()
    finally:
        server.call("ACL", "SETUSER", "default", "+@all")
    assert server.call("EXISTS", "lock") == 0


@pytest.mark.parametrize("refused", ["set", "hset", "pexpire"])
def test_a_refused_command_leaves_no_lock(server, refused):
    server.call("ACL", "SETUSER", "default", f"-{refused}")
    try:
        with pytest.raises(resp.ErrorReply):
            acquire(server)
    finally:
        server.call("ACL", "SETUSER", "default", "+@all")
    assert server.call("EXISTS", "lock") == 0


def test_a_full_server_refuses_before_it_writes(server):
    server.set("maxmemory", 1)
    try:
        with pytest.raises(resp.ErrorReply, match="OOM"):
            acquire(server)
    finally:
        server.set("maxmemory", 0)
    assert server.call("DBSIZE") == 0


# ---- with Redisson's counter ----

def java_acquire(server, name, field):
    return server.call("EVAL", JAVA_ACQUIRE, 2, name, derived("redisson_lock_token", name), 30000,
                       field)


def test_java_and_ours_in_turn(server):
    tokens = []
    for turn in range(6):
        if turn % 2:
            done, token = java_acquire(server, "lock", f"j:{turn}")
            assert done == -1
        else:
            token = acquire(server, field=f"u:{turn}", java=True)
        tokens.append(token)
        server.call("DEL", "lock")
    assert tokens == sorted(set(tokens))
    assert server.call("PTTL", "redisson_lock_token:{lock}") == -1, "as Redisson has it"


def test_javas_counter_that_is_ahead_is_followed(server):
    server.call("SET", "redisson_lock_token:{lock}", 2**52)
    assert acquire(server, java=True) == 2**52 + 1
    assert acquire(server, java=True) == 2**52 + 1, "repeated"
    server.call("DEL", "lock")
    assert acquire(server, field="u:2") == 2**52 + 2, "known to those who do not share, too"


# ---- a resource's own check ----

def test_check_accepts_only_the_newest(server):
    assert check(server, 5) == "NEWEST"
    assert check(server, 5) == "NEWEST", "again and again"
    assert check(server, 4) == "STALE 5"
    assert check(server, MOST) == "NEWEST"
    assert check(server, MOST - 1) == f"STALE {MOST}"
    assert server.holders("seen") == {b"token": b"%d" % MOST}
    assert server.call("PTTL", "seen") == -1


def test_write_is_one_step_with_the_check(server):
    assert check(server, 5, b"\x00five\xff") == "NEWEST"
    assert check(server, 4, "four") == "STALE 5"
    assert seen(server) == {b"token": b"5", b"value": b"\x00five\xff"}
    assert check(server, 9, "") == "NEWEST"
    assert check(server, 10) == "NEWEST"
    assert seen(server) == {b"token": b"10", b"value": b""}
    assert check(server, 10, "ten", ttl=5000) == "NEWEST"
    assert 0 < server.call("PTTL", "seen") <= 5000
    assert check(server, 11, "more") == "NEWEST"
    assert 0 < server.call("PTTL", "seen") <= 5000, "as it is"


def test_a_copy_overwrites_no_later_write(server):
    for client, number, value in [("a", 7, "one"), ("b", 3, "two"), ("a", 11, "three")]:
        assert check(server, 5, value, client=client, number=number) == "NEWEST"
        assert seen(server)[b"value"] == value.encode()
    for client, number in [("a", 7), ("b", 3), ("a", 11), ("a", 10)]:
        assert check(server, 5, "stray", client=client, number=number) == "NEWEST"
        assert seen(server)[b"value"] == b"three"
    assert check(server, 6) == "NEWEST"
    assert check(server, 6, "four", client="b", number=4) == "NEWEST"
    assert check(server, 6, "stray", client="a", number=11) == "NEWEST"
    assert seen(server)[b"value"] == b"four"


def test_the_last_writers_are_remembered_and_no_more(server):
    for number in range(40):
        assert check(server, 5, "x", client=f"c{number}", number=MOST) == "NEWEST"
    kept = server.call("HGET", "seen", "writes").split()
    assert kept[::2] == [b"c%d" % number for number in range(39, 23, -1)]
    assert check(server, 5, "stray", client="c24", number=MOST) == "NEWEST"
    assert seen(server)[b"value"] == b"x"


@pytest.mark.parametrize("number", ["", "0", "-1", "x", "1e3"])
def test_a_write_without_a_number_is_refused(server, number):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad write"):
        server.call("EVAL", lua.text_of("fenced", "check"), 1, "seen", 5, 0, "v", "u", number)
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("token", [0, -1, MOST + 1, "", "x", "1e3", "01", "1.5", 10**30])
def test_bad_tokens(server, token):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad fence token"):
        check(server, token)
    assert server.call("DBSIZE") == 0


def test_check_at_keys_of_other_types(server):
    server.call("SET", "seen", "x")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        check(server, 5, "value")
    assert server.call("GET", "seen") == b"x"
    server.call("DEL", "seen")
    acquire(server, name="seen")
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        check(server, 5, "value")
    assert server.holders("seen") == {b"u:1": b"1"}


# ---- through the library ----

@pytest.mark.parametrize("kind", ["fenced", "fenced-java"])
@pytest.mark.parametrize("name", NAMES)
def test_lock_in_redis(server, keeper, name, kind):
    bare = Subscriber(server, channel_of(name))
    token = keeper.call("acquire", name, kind=kind).ok().fence
    counters = [derived("lockkeeper_fence", name)]
    counters += [derived("redisson_lock_token", name)] if kind == "fenced-java" else []
    assert sorted(server.call("KEYS", "*")) == sorted(key.encode() for key in [name, *counters])
    assert [int(server.call("GET", key)) for key in counters] == [token] * len(counters)
    assert list(server.holders(name).values()) == [b"1"]
    assert 25000 < server.call("PTTL", name) <= 30000
    keeper.call("release", name, kind=kind).ok()
    until(lambda: bare.messages == [b"0"], 5, "one message, 0")
    assert sorted(server.call("KEYS", "*")) == sorted(key.encode() for key in counters)
    bare.stop()


@pytest.mark.parametrize("name", ["a}b", "foo{bar", "{}", "{}x{y}", "}{"])
def test_names_that_would_cross_slots(keeper, name):
    answer = keeper.call("acquire", name, kind="fenced").is_code("LK_EINVAL")
    assert "slot" in answer.message


def test_a_reentry_does_not_change_the_token(keeper):
    token = keeper.call("acquire", "lock", kind="fenced").ok().fence
    assert keeper.call("acquire", "lock", kind="fenced").ok().fence == token
    keeper.call("release", "lock", kind="fenced").ok()
    assert keeper.call("fence", "lock", kind="fenced").ok().fence == token
    keeper.call("release", "lock", kind="fenced").ok()
    keeper.call("fence", "lock", kind="fenced").is_code("LK_ENOTOWNER")
    assert keeper.call("acquire", "lock", kind="fenced").ok().fence > token


def test_kinds_of_one_name_exclude_each_other(server, make_keeper):
    kinds = ["lock", "fenced", "fenced-java", "spin"]
    one, other = make_keeper(server.unix_url), make_keeper(server.unix_url)
    for held in kinds:
        one.call("acquire", "lock", kind=held).ok()
        for asked in kinds:
            other.call("try", "lock", kind=asked).is_code("LK_EBUSY")
            if asked != held:
                one.call("try", "lock", kind=asked).is_code("LK_EBUSY")
        one.call("release", "lock", kind=held).ok()
    java = JavaLock(server, "lock")
    assert java.ask() is None
    for asked in kinds:
        one.call("try", "lock", kind=asked).is_code("LK_EBUSY")


def test_an_event_tells_the_token(server, keeper):
    keeper.listen()
    token = keeper.call("acquire", "lock", kind="fenced").ok().fence
    keeper.call("force", "lock", kind="fenced", thread="other").ok()
    event = until(lambda: keeper.events_of(2, "lock"), 5, "a lost notice")[0]
    assert event.fence == token
