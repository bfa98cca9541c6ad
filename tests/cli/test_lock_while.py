"""lockkeeper lock --while: renewed in the background until a process ends, or unlock says so."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest

from command import BINARY
from test_run import hold
from waiting import never, until

LEASE = ["-l", "1500ms"]


def keepers(server) -> list[int]:
    """The processes that keep a lock of this server."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"\0--while\0" in (entry / "cmdline").read_bytes() and \
                    server.unix_url.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def await_nothing(server) -> None:
    until(lambda: not keepers(server), 20, "no process is left")
    until(lambda: not server.clients() and server.call("EXISTS", "job") == 0, 20, "it is free")


@pytest.fixture(autouse=True)
def no_keeper_is_left(server):
    yield
    for pid in keepers(server):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def script():
    """A process that the lock is held for, and that ends by SIGTERM."""
    process = subprocess.Popen(["sleep", "600"])
    comm = pathlib.Path(f"/proc/{process.pid}/comm")
    until(lambda: comm.read_text() == "sleep\n", 10, "it has its name, which comes after the exec")
    yield process
    process.kill()
    process.wait()


def start_script(cli, folder, text: str) -> subprocess.Popen:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    process = subprocess.Popen([path], env=cli.environment, cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cli.started.append(process)
    return process


def take(cli, script, *options: str) -> str:
    result = cli("lock", *LEASE, "--while", str(script.pid), *options, "job")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_it_is_renewed_until_the_process_ends(cli, server, script):
    owner = take(cli, script)
    never(lambda: server.holders("job") != {owner.encode(): b"1"}, 4, "it is renewed")
    script.kill()  # and not waited for: a zombie does not hold it
    await_nothing(server)


@pytest.mark.parametrize("who", ["$$", "caller"])
def test_a_script_that_unlocks(cli, server, folder, who):
    script = start_script(cli, folder, f"""
        owner=$(lockkeeper lock -l 1500ms --while {who} job) || exit 9
        until [ -e go ]; do sleep 0.01; done
        lockkeeper unlock job "$owner"
        echo $?
        until [ -e end ]; do sleep 0.01; done""")
    until(lambda: server.call("EXISTS", "job"), 20, "it is locked")
    never(lambda: not server.call("EXISTS", "job"), 3, "it is renewed")
    (folder / "go").touch()
    assert script.stdout.readline() == "0\n"
    await_nothing(server)
    (folder / "end").touch()
    assert script.wait(20) == 0, "it was not signalled"


def test_a_script_that_dies(cli, server, folder):
    script = start_script(cli, folder, "lockkeeper lock -l 60 --while caller job; sleep 600")
    until(lambda: server.call("EXISTS", "job"), 20, "it is locked")
    script.kill()
    await_nothing(server)


def test_a_lost_lock_is_told_by_the_signal_that_the_script_names(cli, server, folder):
    script = start_script(cli, folder, """
        trap 'echo told' USR1
        owner=$(lockkeeper lock -l 1500ms -s USR1 --while $$ job) || exit 9
        until [ -e go ]; do sleep 0.01; done
        lockkeeper unlock job "$owner"
        echo $?""")
    until(lambda: server.call("EXISTS", "job"), 20, "it is locked")
    server.call("DEL", "job")
    assert script.stdout.readline() == "told\n"
    (folder / "go").touch()
    assert script.stdout.readline() == "123\n"
    assert "lost" in script.stderr.read()
    await_nothing(server)


def test_it_is_told_before_the_lease_ends(cli, server, script):
    take(cli, script, "-l", "4")
    until(lambda: server.call("PTTL", "job") > 3800, 20, "a fresh lease")
    end = time.monotonic() + 3.8
    server.pause()
    assert script.wait(20) == -signal.SIGTERM
    assert time.monotonic() < end
    server.resume()
    await_nothing(server)


def test_a_keeper_that_is_told_to_end_says_so_and_leaves_the_lease(cli, server, script):
    owner = take(cli, script, "-l", "3")
    (keeper,) = keepers(server)
    os.kill(keeper, signal.SIGTERM)
    assert script.wait(20) == -signal.SIGTERM
    until(lambda: not keepers(server), 20, "it has ended")
    assert server.holders("job") == {owner.encode(): b"1"}
    until(lambda: not server.call("EXISTS", "job"), 10, "its lease is over")


def test_a_keeper_that_is_killed_renews_nothing(cli, server, script):
    owner = take(cli, script)
    (keeper,) = keepers(server)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not server.call("EXISTS", "job"), 10, "its lease is over")
    assert cli("unlock", "job", owner).returncode == 123


def test_nothing_of_the_script_is_kept(cli, server, script):
    """Its pipes, which would keep cron and ssh waiting; its session; its folder."""
    reading, writing = os.pipe()
    done = subprocess.run([BINARY, "lock", *LEASE, "--while", str(script.pid), "job"],
                          capture_output=True, text=True, env=cli.environment, timeout=60,
                          pass_fds=[writing])  # returns when both streams have ended
    assert done.returncode == 0
    os.close(writing)
    os.set_blocking(reading, False)
    until(lambda: os.read(reading, 1) == b"", 10, "the pipe has ended")
    os.close(reading)
    (keeper,) = keepers(server)
    assert os.getsid(keeper) == keeper
    assert os.readlink(f"/proc/{keeper}/cwd") == "/"
    assert {os.readlink(f"/proc/{keeper}/fd/{fd}") for fd in range(3)} == {"/dev/null"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_the_wait(cli, server, script, number):
    hold(server, "job")
    process = cli.start("lock", *LEASE, "--while", str(script.pid), "job")
    until(server.channels, 20, "it waits")
    process.send_signal(number)
    assert process.wait(20) == -number
    until(lambda: not keepers(server) and not server.clients(), 20, "nothing is left")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_never_leaves_a_lock_that_nobody_knows_of(cli, server, script, number):
    for delay_ms in (0, 2, 4, 6, 8, 10, 15, 20):
        process = cli.start("lock", *LEASE, "--while", str(script.pid), "job")
        time.sleep(delay_ms / 1000)
        process.send_signal(number)
        code = process.wait(20)
        owner = process.stdout.read().strip()
        if code == 0:
            assert cli("unlock", "job", owner).returncode == 0
        await_nothing(server)


def test_an_owner_that_cannot_be_printed_gives_the_lock_back(cli, server, script):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "lock", *LEASE, "--while", str(script.pid), "job"],
                              stdout=full, stderr=subprocess.PIPE, text=True,
                              env=cli.environment, timeout=60)
    assert done.returncode == 125
    assert server.call("EXISTS", "job") == 0
    await_nothing(server)


def test_another_name_is_not_released(cli, server, script):
    owner = take(cli, script)
    assert cli("unlock", "other", owner).returncode == 123
    assert server.call("EXISTS", "job") == 1 and len(keepers(server)) == 1
    assert cli("unlock", "job", owner).returncode == 0
    assert cli("unlock", "job", owner).returncode == 123


def test_one_that_is_held_is_not_waited_for_with_n(cli, server, script):
    hold(server, "job")
    result = cli("lock", "-n", "--while", str(script.pid), "job")
    assert (result.returncode, result.stdout) == (124, "")
    assert "held" in result.stderr and not keepers(server)


def test_a_plain_lock(cli, server, script):
    owner = take(cli, script, "--plain")
    assert server.call("GET", "job") == owner.encode()
    never(lambda: not server.call("EXISTS", "job"), 3, "it is renewed")
    assert cli("unlock", "--plain", "job", owner).returncode == 0
    await_nothing(server)


def test_show_names_the_process(cli, server, script):
    recorded = {"LOCKKEEPER_CLIENT_RECORD": "full"}
    assert cli("lock", "--while", str(script.pid), "job", **recorded).returncode == 0
    assert f"client: sleep, pid {script.pid} on " in cli("show", "job", **recorded).stdout


def test_the_private_server(bare, script):
    taken = bare("lock", *LEASE, "--while", str(script.pid), "job")
    assert (taken.returncode, taken.stderr) == (0, "")
    never(lambda: bare("show", "job").returncode != 0, 2, "it is renewed")
    assert bare("unlock", "job", taken.stdout.strip()).returncode == 0
    assert bare("show", "job").returncode == 3


@pytest.mark.parametrize("options,said", [
    (["--while", "0"], "a whole number"),
    (["--while", "x"], "a whole number"),
    (["--while", "4194303"], "No such process"),
    (["-l", "5", "-s", "TERM"], "-s is for --while"),
    (["--while", "caller", "-s", "NONE"], "'NONE' is not a signal"),
    ([], "-l LEASE is missing"),
])
def test_wrong_use(cli, server, options, said):
    result = cli("lock", *options, "job")
    assert result.returncode == 125 and said in result.stderr
    assert server.call("EXISTS", "job") == 0


def test_unlock_says_as_much_as_of_any_other(cli, server, script):
    owner = take(cli, script)
    given = cli("unlock", "-v", "job", owner)
    assert given.returncode == 0
    assert given.stderr == f"lockkeeper: server: {server.unix_url}\nlockkeeper: released job\n"
    await_nothing(server)


@pytest.mark.parametrize("who", ["99999999", "4194305", "0", "-1", "abc", ""])
def test_a_process_that_cannot_be_is_named_as_the_option_s(cli, who):
    refused = cli("lock", "--while", who, "job")
    assert refused.returncode == 125
    assert refused.stderr == f"lockkeeper: option --while: '{who}' is neither caller nor a " \
                             "process, a whole number from 1 to 4194304\n"
