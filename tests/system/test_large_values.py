"""A name under which something large stands: it is told from a lock without being read whole."""
from __future__ import annotations

import pytest

LARGE = 64 << 20  # bytes
MANY = 50_000     # fields


def fill(server, kind: str) -> None:
    if kind == "string":
        server.call("SETRANGE", "big", LARGE, "x")
    else:
        server.call("EVAL", f"""
            for i = 1, {MANY} do redis.call('HSET', KEYS[1], 'field' .. i, i) end
            redis.call('HSET', KEYS[1], 'mode', 'read')""", 1, "big")
    server.call("CONFIG", "RESETSTAT")


def is_read(server) -> bool:
    """Whether a script has got it whole, or a client."""
    return int(server.info("used_memory_lua")) > LARGE // 2 or \
        int(server.info("total_net_output_bytes")) > LARGE // 2 or \
        "cmdstat_hgetall" in server.call("INFO", "commandstats").decode()


CALLS = [("try", kind) for kind in ("lock", "fenced", "fair", "read", "write", "plain",
                                  "semaphore", "permits")] + \
    [("set", kind) for kind in ("semaphore", "permits", "latch")] + \
    [("available", "semaphore"), ("available", "permits"), ("count", "latch"),
     ("down", "latch"), ("is_held_by", "plain")]


@pytest.mark.parametrize("verb,kind", CALLS)
def test_a_string(make_keeper, server, verb, kind):
    fill(server, "string")
    keeper = make_keeper(server.unix_url)
    answer = keeper.call(verb, "big", kind=kind, count=1, field="some:1")
    assert answer.code not in ("LK_EUNREACHABLE", "LK_EMAYBEHELD")
    assert not is_read(server)
    assert server.call("STRLEN", "big") == LARGE + 1


def test_a_hash_is_no_read_write_lock(make_keeper, server):
    """Nor does its data go with the lease."""
    fill(server, "hash")
    keeper = make_keeper(server.unix_url)
    keeper.call("try", "big", kind="read").is_code("LK_EWRONGTYPE")
    assert server.call("HLEN", "big") == MANY + 1 and server.call("PTTL", "big") == -1
    assert not is_read(server)


@pytest.mark.parametrize("readers", [9_000, 30_000])
def test_many_readers(make_keeper, server, readers):
    """The last of them that lives keeps the lock, whether or not all are looked at."""
    keeper = make_keeper(server.unix_url)
    keeper.call("try", "many", kind="read").ok()
    server.call("EVAL", """
        for i = 1, tonumber(ARGV[1]) do
            local field = 'dead:' .. i
            redis.call('HSET', KEYS[1], field, 1)
        end""", 1, "many", readers)
    before = server.call("HLEN", "many")
    keeper.call("release", "many", kind="read").ok()
    left = server.call("HLEN", "many")
    assert left == 0 if readers < 10_000 else before - 101 <= left < before - 50
    assert server.call("PTTL", "many") <= 30_000 and server.call("PTTL", "many") != -1


def test_a_token_is_the_whole_value(make_keeper, server):
    """A value that begins with the token of a lock is another."""
    keeper = make_keeper(server.unix_url)
    keeper.call("try", "job", kind="plain").ok()
    token = server.call("GET", "job")
    server.call("SET", "job", token + b"x", "PX", 60_000)
    keeper.call("release", "job", kind="plain")
    assert server.call("GET", "job") == token + b"x"
