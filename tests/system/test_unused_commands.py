"""Commands of newer servers that no lock of ours uses, and why: docs/unused.md.

Each test shows what the page says on the server under test, or that it has not the command. A
server that does otherwise has changed: then the page, and perhaps the locks, can change too.
"""
from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from deployments import Replicas
from resp import ErrorReply

TRIES = 200


class Version(NamedTuple):
    product: str
    number: tuple[int, int]


def version_of(server) -> Version:
    about = dict(line.split(":", 1) for line in server.call("INFO", "server").decode().splitlines()
                 if ":" in line)
    name = "valkey" if "valkey_version" in about else "redis"
    major, minor = about[f"{name}_version"].split(".")[:2]
    return Version(name, (int(major), int(minor)))


def answer(connection, *words):
    """The answer, or the error's text."""
    try:
        return connection.call(*words)
    except ErrorReply as error:
        return str(error)


@pytest.fixture
def stopped(deploy):
    """A master whose one replica has all that there is, and is stopped."""
    deployment = deploy(Replicas, count=2)
    replica, = deployment.replicas()
    with deployment.master().connect() as connection:
        connection.call("SET", "before", 1)
        assert connection.call("WAIT", 1, 10_000) == 1
    replica.pause()
    yield deployment.master()
    replica.resume()


WAITS_IN_SCRIPT = "redis.call('SET', KEYS[1], 1) return redis.call('WAIT', 1, 100)"


def test_wait_in_a_script(stopped):
    """Refused, or it counts a replica that has not the write of the script."""
    product, number = version_of(stopped)
    with stopped.connect() as connection:
        told = answer(connection, "EVAL", WAITS_IN_SCRIPT, 1, "k")
        if product == "redis" and number < (8, 0):
            assert "not allowed" in told, told
        else:
            assert told == 1, told
        connection.call("SET", "behind", 1)
        assert connection.call("WAIT", 1, 100) == 0, "on its own it tells the truth"


def test_wait_in_a_transaction(stopped):
    """It does not wait; newer servers count a replica that has not the transaction's write."""
    product, number = version_of(stopped)
    with stopped.connect() as connection:
        connection.call("MULTI")
        connection.call("SET", "k", 1)
        connection.call("WAIT", 1, 100)
        told = connection.call("EXEC")[1]
    assert told == (0 if product == "redis" and number < (8, 0) else 1), told


def test_a_field_whose_time_is_over(server):
    """Redis deletes one that it has not removed yet, and answers 1: who releases in that way is
    told that it still had the lock. Valkey answers 0."""
    product, _ = version_of(server)
    said = []
    with server.connect() as connection:
        connection.call("HSET", "h", "f", "owner")
        if "unknown command" in str(answer(connection, "HPEXPIRE", "h", 60_000, "FIELDS", 1, "f")):
            pytest.skip("it has no hash fields that expire")
        for number in range(TRIES):
            name = f"h{number}"
            connection.call("HSET", name, "f", "owner", "stays", "x")
            connection.call("HPEXPIRE", name, 5, "FIELDS", 1, "f")
            over = time.monotonic() + 0.009
            while time.monotonic() < over:
                pass
            said.append(connection.call("HDEL", name, "f"))
            if said[-1] and product == "redis":
                break
    if product == "redis":
        assert 1 in said, f"none of {TRIES}"
    else:
        assert set(said) == {0}, said


def test_tracking_without_loops_forgets(server):
    """A client that has written a key itself is not told of the next write of others, although it
    had read the key, and was told of nothing since."""
    with server.connect() as own, server.connect() as told, server.connect() as other:
        told.call("SUBSCRIBE", "__redis__:invalidate")
        receiver = next(line.split()[0].removeprefix("id=") for line in server.clients()
                        if " sub=1 " in line)
        own.call("CLIENT", "TRACKING", "ON", "REDIRECT", receiver, "NOLOOP")
        own.call("SET", "k", "mine")
        own.call("GET", "k")
        own.call("SET", "k", "mine again")
        other.call("SET", "k", "another's")
        own.call("GET", "fence")
        other.call("SET", "fence", 1)
        assert told.read()[2] == [b"fence"], "the write before it was told"


@pytest.mark.parametrize("before", [b"v", b"w", None], ids=["equal", "unequal", "missing"])
def test_set_ifeq_nx(server, before):
    """SET key new IFEQ value NX: an error, or accepted; in no case does it set."""
    with server.connect() as connection:
        if before:
            connection.call("SET", "k", before)
        accepts = server.has_ifeq() and version_of(server).product == "redis"
        told = answer(connection, "SET", "k", "new", "IFEQ", "v", "NX")
        assert told is None if accepts else "syntax" in told, told
        assert "syntax" in answer(connection, "SET", "k", "new", "NX", "IFEQ", "v")
        assert connection.call("GET", "k") == before
