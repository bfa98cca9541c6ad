"""lockkeeper lock, unlock, extend: a lease that nobody renews."""
from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from command import BINARY
from test_run import hold
from waiting import until


def test_lock_prints_the_owner_and_leaves_the_lock_to_its_lease(cli, server):
    result = cli("lock", "-l", "20", "job")
    assert result.returncode == 0 and result.stderr == ""
    owner = result.stdout.rstrip("\n")
    assert server.holders("job") == {owner.encode(): b"1"}
    assert 15000 < server.call("PTTL", "job") <= 20000


def test_the_lease_is_not_renewed(cli, server):
    assert cli("lock", "-l", "0.5", "job").returncode == 0
    until(lambda: not server.call("EXISTS", "job"), 5, "the lease is over")


def test_unlock_frees_it_for_its_owner_only(cli, server):
    owner = cli("lock", "-l", "20", "job").stdout.strip()
    wrong = cli("unlock", "job", owner[:-1] + "9999")
    assert wrong.returncode == 123
    assert wrong.stderr.startswith("lockkeeper: ")
    assert server.call("EXISTS", "job") == 1
    assert cli("unlock", "job", owner).returncode == 0
    assert server.call("KEYS", "*") == []
    assert cli("unlock", "job", owner).returncode == 123


def test_unlock_wakes_waiters(cli, server):
    owner = cli("lock", "-l", "60", "job").stdout.strip()
    waiter = cli.start("run", "-w", "30", "job", "echo", "mine")
    until(server.channels, 10, "it waits")
    assert cli("unlock", "job", owner).returncode == 0
    assert waiter.wait(10) == 0


def test_extend_lengthens_and_never_shortens(cli, server):
    owner = cli("lock", "-l", "20", "job").stdout.strip()
    assert cli("extend", "job", owner, "-l", "60").returncode == 0
    assert 50000 < server.call("PTTL", "job") <= 60000
    assert cli("extend", "-l", "5", "job", owner).returncode == 0
    assert 50000 < server.call("PTTL", "job") <= 60000
    assert cli("extend", "-l", "5", "job", "other:1").returncode == 123
    assert cli("extend", "-l", "5", "free", owner).returncode == 123
    assert server.call("EXISTS", "free") == 0


def test_lock_does_not_wait_with_n_and_waits_its_limit_with_w(cli, server):
    hold(server, "job")
    result = cli("lock", "-n", "-l", "5", "job")
    assert (result.returncode, result.stdout) == (124, "")
    assert "held" in result.stderr
    begun = time.monotonic()
    assert cli("lock", "-w", "0.5", "-l", "5", "job").returncode == 124
    assert 0.49 <= time.monotonic() - begun < 10


def test_an_owner_that_cannot_be_printed_gives_the_lock_back(cli, server):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "lock", "-l", "60", "job"], stdout=full,
                              stderr=subprocess.PIPE, text=True, env=cli.environment, timeout=60)
    assert done.returncode == 125
    assert "stdout" in done.stderr
    assert server.call("EXISTS", "job") == 0


def test_an_owner_printed_to_a_closed_stdout_gives_the_lock_back(cli, server):
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "-", BINARY, "lock", "-l", "60", "job"],
                          stderr=subprocess.PIPE, text=True, env=cli.environment, timeout=60)
    assert done.returncode == 125
    assert "stdout" in done.stderr
    assert server.call("EXISTS", "job") == 0


def test_an_owner_printed_to_a_broken_pipe_gives_the_lock_back(cli, server):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([BINARY, "lock", "-l", "60", "job"], stdout=writing,
                          stderr=subprocess.PIPE, text=True, env=cli.environment, timeout=60)
    os.close(writing)
    assert done.returncode == 125
    assert "stdout" in done.stderr
    assert server.call("EXISTS", "job") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_lock_never_leaves_a_lock_without_an_owner(cli, server, number):
    for delay_ms in (0, 1, 2, 3, 4, 5, 6, 8, 10, 15):
        process = cli.start("lock", "-l", "60", "job")
        time.sleep(delay_ms / 1000)
        process.send_signal(number)
        code = process.wait(20)
        owner = process.stdout.read().strip()
        assert code in (0, -number)
        assert (code == 0) == (owner != "")
        assert bool(server.call("EXISTS", "job")) == (code == 0), f"after {delay_ms} ms"
        server.call("DEL", "job")


def test_a_signal_ends_the_wait_of_lock(cli, server):
    hold(server, "job")
    process = cli.start("lock", "-l", "60", "job")
    until(server.channels, 20, "it waits")
    process.terminate()
    assert process.wait(20) == -signal.SIGTERM
    assert process.stdout.read() == ""
    until(lambda: not server.channels(), 5, "no subscription is left")


@pytest.mark.parametrize("owner", ["", "x" * 257, "no-such-owner"])
def test_bad_owners_are_refused(cli, server, owner):
    hold(server, "job")
    assert cli("unlock", "job", owner).returncode in (123, 125)
    assert cli("extend", "-l", "5", "job", owner).returncode in (123, 125)
    assert server.holders("job") == {b"stranger:1": b"1"}


def test_without_a_server_it_is_125(cli):
    for args in (["lock", "-l", "5", "job"], ["unlock", "job", "a:1"],
                 ["extend", "-l", "5", "job", "a:1"], ["ls"], ["show", "job"],
                 ["break", "--yes", "job"]):
        result = cli(*args, "--url", "redis://127.0.0.1:1")
        assert result.returncode == 125, args
        assert "127.0.0.1:1" in result.stderr


def test_the_help_of_lock_says_what_only_run_has(cli):
    assert "--fair" in cli("lock", "--help").stdout
