"""A name that something else has: the command says what it is, and how to take or remove it."""
from __future__ import annotations

import pytest


OWNER = "b30d6a0e-5b4a-4b0e-9d6f-0a4f5e1c2d3e:1"


def hash_of(server, name: str, *fields: str) -> None:
    server.call("HSET", name, *fields)
    server.call("PEXPIRE", name, 100000)


def make(server, what: str, name: str) -> None:
    """What Redis has of each kind while it is held."""
    if what == "lock":
        hash_of(server, name, OWNER, "1")
    elif what == "sides":
        hash_of(server, name, "mode", "read", OWNER, "1")
    elif what == "plain":
        server.call("SET", name, OWNER, "PX", 100000)
    elif what == "permits":
        server.call("SET", name, "3")
        server.call("ZADD", f"{{{name}}}:timeout", "9999999999999", b"0123456789abcdef")
    elif what == "number":
        server.call("SET", name, "3")
    else:
        server.call("RPUSH", name, "1")


CASES = [
    ("sides", [], "job is a read/write lock: run --shared or --exclusive takes it"),
    ("plain", [], "job is a plain lock: run --plain takes it"),
    ("permits", [], "job is a permit semaphore, now at 3: lockkeeper sem delete removes it"),
    ("number", [], "job is a semaphore or latch, now at 3: lockkeeper sem delete removes it"),
    ("list", [], "job\": the key is a list, not a lock: use another name, or remove the key"),
    ("lock", ["--shared"], "job is a lock: run without an option for the kind takes it"),
    ("lock", ["--plain"], "job is a lock: run without"),
    ("lock", ["--permits", "2"], "job is a lock: run without"),
    ("list", ["--permits", "2"], "the key is a list, not a lock"),
    ("sides", ["--fence"], "lockkeeper break frees it now"),
    ("number", ["--exclusive"], "job is a semaphore or latch"),
]


@pytest.mark.parametrize("what, options, words", CASES)
def test_run_says_what_it_is(cli, server, what, options, words):
    make(server, what, "job")
    done = cli("run", "-n", *options, "job", "true")
    assert done.returncode == 125
    first, second = done.stderr.splitlines()
    assert "WRONGTYPE" in first and words in second, done.stderr
    removes = ("sem", "delete") if "sem delete" in second else ("break", "--yes")
    if what != "list":  # and the cure works
        assert cli(*removes, *(["--force"] if what == "permits" else []), "job").returncode == 0
        assert cli("run", "-n", *options, "job", "true").returncode == 0


def test_one_of_several_names(cli, server):
    make(server, "plain", "other")
    done = cli("run", "-n", "--also", "other", "--also", "mine", "free", "true")
    assert done.returncode == 125
    assert [line for line in done.stderr.splitlines() if "takes it" in line] == [
        "lockkeeper: other is a plain lock: run --plain takes it, its last release removes it, and "
        "lockkeeper break frees it now"]


@pytest.mark.parametrize("words", [
    ["lock", "-l", "10", "-n", "job"], ["sem", "show", "job"], ["sem", "set", "job", "4"],
    ["sem", "delete", "job"], ["latch", "set", "job", "4"], ["latch", "down", "job"],
    ["latch", "wait", "job"], ["latch", "delete", "job"]])
def test_other_commands_say_it_too(cli, server, words):
    make(server, "sides", "job")
    done = cli(*words)
    assert done.returncode == 125 and "job is a read/write lock" in done.stderr, done.stderr


def test_unlock_says_it_too(cli, server):
    make(server, "list", "job")
    done = cli("unlock", "job", OWNER)
    assert done.returncode == 125 and "the key is a list" in done.stderr, done.stderr


def test_a_quorum_says_it_once(cli, make_three):
    servers = make_three({"appendonly": "yes", "appendfsync": "always"})
    for server in servers:
        make(server, "sides", "job")
    done = cli("run", "-n", "job", "true",
               LOCKKEEPER_URL=",".join(server.unix_url for server in servers))
    assert done.returncode == 125
    assert done.stderr.count("job is a read/write lock") == 1, done.stderr


def test_names_are_escaped(cli, server):
    server.call("SET", b"a\x1bb", "3")
    done = cli("run", "-n", b"a\x1bb", "true")
    assert done.returncode == 125 and "\x1b" not in done.stderr
