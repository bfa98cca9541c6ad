"""lockkeeper run --permits, sem and latch."""
from __future__ import annotations

import json
import os
import signal

import pytest

from command import Tree
from fixtures import make_proxy, proxy  # noqa: F401  (fixtures)
from proxy import Replace
from waiting import until


def records_gone(server) -> set[bytes]:
    """The keys, but for those that go by themselves."""
    return {key for key in server.call("KEYS", "*") if not key.startswith(b"lockkeeper_sc:")}


def test_at_most_n_at_once(cli, server, tmp_path):
    log = tmp_path / "log"
    script = f"echo in >> {log}; sleep 0.3; echo out >> {log}"
    runs = [cli.start("run", "--permits", "2", "slots", "sh", "-c", script) for _ in range(5)]
    assert [run.wait(30) for run in runs] == [0] * 5
    inside = most = 0
    for word in log.read_text().split():
        inside += 1 if word == "in" else -1
        most = max(most, inside)
    assert most == 2 and inside == 0
    assert server.call("GET", "slots") == b"2"
    assert records_gone(server) == {b"slots"}


def test_too_few_permits_are_a_conflict(cli, server):
    first = cli.start("run", "--permits", "1", "slots", "sleep", "30")
    until(lambda: server.call("GET", "slots") == b"0", 20)
    assert cli("run", "--permits", "1", "-n", "slots", "true").returncode == 124
    assert cli("run", "--permits", "1", "-w", "0.2", "-E", "7", "slots", "true").returncode == 7
    shown = json.loads(cli("sem", "show", "--json", "slots").stdout)
    assert shown == {"permits": 1, "free": 0, "used": 1}
    first.send_signal(signal.SIGTERM)
    first.wait(20)
    assert server.call("GET", "slots") == b"1"


def test_a_killed_holder_gives_its_permit_back(cli, server):
    tree = Tree()
    holder = cli.start("run", "-l", "2", "--permits", "1", "slots", *tree.line("sleep 60"))
    tree.await_size(1)
    holder.kill()
    tree.await_end(20)
    assert cli("run", "-w", "20", "--permits", "1", "slots", "true").returncode == 0


def test_a_lost_permit_ends_the_command(cli, server):
    tree = Tree()
    holder = cli.start("run", "-l", "1", "--permits", "1", "slots", *tree.line("sleep 60"))
    tree.await_size(1)
    server.call("DEL", "slots", "{slots}:timeout")
    assert holder.wait(20) == 123
    tree.await_end(5)


def test_waiters_get_in_after_flushall(cli, server):
    """Nobody holds a permit, and nobody starts a new command that would set their number."""
    server.call("SET", "slots", "0")
    waiters = [cli.start("run", "--permits", "2", "-w", "60", "slots", "true") for _ in range(3)]
    until(lambda: server.call("PUBSUB", "NUMSUB", "redisson_sc:{slots}")[1] == 3, 20, "3 waiters")
    server.call("FLUSHALL")
    assert [waiter.wait(30) for waiter in waiters] == [0, 0, 0]
    assert server.call("GET", "slots") == b"2"


def test_the_permit_is_renewed_while_it_runs(cli, server):
    assert cli("run", "-l", "2", "--permits", "3", "slots", "sleep", "2.5").returncode == 0
    assert server.call("GET", "slots") == b"3"


def test_another_number_of_permits_is_reported(cli, server):
    assert cli("sem", "set", "slots", "3").returncode == 0
    result = cli("run", "--permits", "2", "slots", "true")
    assert result.returncode == 0 and "3 permits, not 2" in result.stderr
    assert cli("sem", "show", "slots").stdout == "3 permits, 3 free, 0 in use\n"


def test_latch(cli, server):
    assert cli("latch", "wait", "ready").returncode == 0
    assert cli("latch", "set", "ready", "3").returncode == 0
    assert cli("latch", "set", "ready", "3").returncode == 124
    waiter = cli.start("latch", "wait", "ready")
    until(lambda: server.channels() == [b"redisson_countdownlatch__channel__{ready}"], 20)
    assert cli("latch", "wait", "-n", "ready").returncode == 124
    assert cli("latch", "wait", "-w", "0.1", "ready").returncode == 124
    assert cli("latch", "down", "ready").stdout == "2\n"
    assert waiter.poll() is None
    assert cli("latch", "down", "ready", "2").stdout == "0\n"
    assert waiter.wait(20) == 0
    assert records_gone(server) == set()


def test_latch_delete_opens_it(cli, server):
    assert cli("latch", "set", "ready", "3").returncode == 0
    waiter = cli.start("latch", "wait", "ready")
    until(lambda: server.channels() == [b"redisson_countdownlatch__channel__{ready}"], 20)
    assert cli("latch", "delete", "ready").returncode == 0
    assert waiter.wait(20) == 0
    again = cli("latch", "delete", "ready")
    assert again.returncode == 0 and "had no count" in again.stderr
    assert records_gone(server) == set()


def test_sem_delete_refuses_while_permits_are_in_use(cli, server):
    first = cli.start("run", "--permits", "2", "slots", "sleep", "30")
    until(lambda: server.call("GET", "slots") == b"1", 20)
    refused = cli("sem", "delete", "slots")
    assert refused.returncode == 124 and "permits in use: 1" in refused.stderr
    assert cli("sem", "delete", "--force", "slots").returncode == 0
    assert first.wait(20) == 123
    assert cli("sem", "set", "slots", "3").returncode == 0
    assert cli("sem", "delete", "slots").returncode == 0
    assert records_gone(server) == set()


def test_a_name_that_is_misspelled_is_told(cli, server):
    assert cli("sem", "set", "slots", "0").returncode == 0
    none = cli("sem", "show", "slots")
    assert (none.returncode, none.stderr) == (0, "")
    none = cli("sem", "show", "slot")
    assert (none.returncode, none.stdout) == (3, "0 permits, 0 free, 0 in use\n")
    assert none.stderr == "lockkeeper: there is no semaphore slot (lockkeeper sem set makes one)\n"
    none = cli("sem", "show", "--json", "slot")
    assert none.returncode == 3 and json.loads(none.stdout)["permits"] == 0
    assert cli("latch", "set", "ready", "1").returncode == 0
    for words in (("down", "read"), ("wait", "-v", "read")):
        none = cli("latch", *words)
        assert none.returncode == 0 and "read has no count: it is open, or was" in none.stderr
    down = cli("latch", "down", "ready")
    assert (down.stdout, down.stderr) == ("0\n", "")
    assert cli("latch", "wait", "read").stderr == ""


def test_sem_delete_deletes_nothing_else(cli, server):
    server.call("HSET", "job", "x:1", "1")
    assert cli("sem", "delete", "--force", "job").returncode == 125
    assert cli("latch", "delete", "job").returncode == 125
    assert server.call("EXISTS", "job") == 1


@pytest.mark.parametrize("words", [
    ("sem", "show", "slots"), ("sem", "delete", "slots"), ("latch", "wait", "slots"),
], ids=" ".join)
def test_an_error_of_the_server_is_told_in_its_words(cli, proxy, words):  # noqa: F811
    """It has answered, so it is not said that no answer came."""
    proxy.rule = lambda m: Replace(b"-ERR the moon is full\r\n") \
        if m.reply and m.what in ("evalsha", "eval", "get", "exists") else None
    seen = cli(*words, LOCKKEEPER_URL=proxy.url)
    assert seen.returncode == 125, seen
    assert "the moon is full" in seen.stderr and "no answer" not in seen.stderr


@pytest.mark.parametrize("words", [
    ("latch", "set", "ready"), ("latch", "set", "ready", "0"), ("latch", "set", "ready", "-1"),
    ("latch", "set", "ready", "9007199254740992"), ("latch", "down", "ready", "x"),
    ("latch", "open", "ready"), ("latch", "wait", "ready", "3"), ("latch", "wait", ""),
    ("latch", "set", "-n", "ready", "3"), ("latch", "wait", "-n", "-w", "1", "ready"),
    ("sem", "set", "slots"), ("sem", "set", "slots", "-1"), ("sem", "set", "slots", "2147483648"),
    ("sem", "show", "slots", "1"), ("sem", "take", "slots"), ("sem", "show", ""),
    ("run", "--permits", "0", "slots", "true"), ("run", "--permits", "2x", "slots", "true"),
    ("run", "--permits", "2", "--fair", "slots", "true"), ("run", "--permits", "2", "a}b", "true"),
])
def test_wrong_use(cli, server, words):
    result = cli(*words)
    assert result.returncode == 125 and result.stderr.startswith("lockkeeper: ")
    assert server.call("DBSIZE") == 0


def test_another_type_is_named(cli, server):
    server.call("HSET", "job", "x:1", "1")
    for words in (("latch", "down", "job"), ("sem", "show", "job"), ("sem", "set", "job", "1"),
                  ("run", "--permits", "1", "job", "true")):
        result = cli(*words)
        assert result.returncode == 125, result.stderr
        assert "hash" in result.stderr or "job is a lock" in result.stderr, result.stderr


def test_a_signal_ends_the_wait_for_a_stopped_server(cli, server):
    cli("sem", "set", "slots", "2")
    server.pause()
    try:
        process = cli.start("run", "--permits", "2", "-w", "60", "slots", "true")
        until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1, 20, "it waits")
        process.terminate()
        assert process.wait(30) == 143
    finally:
        server.resume()
