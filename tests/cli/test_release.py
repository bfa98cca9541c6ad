"""The release at the end of `lockkeeper run`: signals do not cut it short; its outcome is told."""
from __future__ import annotations

import signal
import threading
import time

import pytest

from command import Command, children, guard_of
from deployments import Replicas
from proxy import HOLE, Park, Proxy
from terminal import Terminal
from waiting import until


@pytest.fixture
def slow(server, folder):
    """A proxy before the server: each answer to a release takes 400 ms."""
    made = Proxy(server.path, str(folder / "slow.sock"))
    made.rule = lambda m: Park(0.4) if m.reply and m.what == "release" else None
    yield made
    made.rule = None
    made.stop()
    assert made.problems == []


def await_command(process) -> None:
    until(lambda: children(guard_of(process)), 10, "the command runs")


def assert_released(server, text: str) -> None:
    assert "unknown" not in text and "stay locked" not in text
    assert server.call("EXISTS", "job") == 0


def test_signals_during_the_release_do_not_cut_it_short(cli, server, slow):
    """As timeout(1) does, which signals its child and then its group."""
    process = cli.start("run", "job", "sleep", "300", LOCKKEEPER_URL=slow.unix_url)
    await_command(process)
    end = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < end:
        process.terminate()
        time.sleep(0.01)
    assert process.wait(20) == 143
    assert_released(server, process.stderr.read())


def test_signals_after_the_release_cause_no_warning(cli, server, slow):
    """The lock is free; closing the connections is all that is left to do."""
    for delay_ms in range(0, 10):
        process = cli.start("run", "job", "sh", "-c", "exit 3")
        until(lambda: server.call("EXISTS", "job") or process.poll() is not None, 10, "it runs")
        until(lambda: not server.call("EXISTS", "job"), 10, "it is free")
        time.sleep(delay_ms / 10000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (3, -15)
        assert_released(server, process.stderr.read())


@pytest.mark.parametrize("presses", [1, 2, 4])
def test_ctrl_c_on_a_terminal_releases_without_a_warning(cli, server, slow, presses):
    terminal = Terminal({**cli.environment, "L": "lockkeeper", "LOCKKEEPER_URL": slow.unix_url})
    terminal.line("$L run job sh -c 'echo go; exec sleep 300'")
    terminal.expect("go\r\n")
    for _ in range(presses):
        terminal.type(b"\x03")
        time.sleep(0.03)  # within one release
    text = terminal.prompt()
    terminal.line("echo status=$?")
    text += terminal.expect("status=130")
    assert_released(server, text)
    terminal.close()


def test_a_signal_gives_a_slow_release_one_more_second(cli, server):
    process = cli.start("run", "-l", "1h", "job", "sleep", "300")
    await_command(process)
    server.pause()
    process.terminate()
    time.sleep(1.5)
    process.terminate()
    assert process.wait(5) == 143
    assert "unknown" in process.stderr.read()
    server.resume()


def test_a_wait_that_ends_with_its_try_unanswered_says_so(cli, server, slow):
    """The try may have been granted, and so may be its release: nobody knows."""
    asked = threading.Event()

    def deaf(message):
        if message.reply and message.what == "acquire":
            asked.set()
        return HOLE if message.reply and asked.is_set() else None

    slow.rule = deaf
    process = cli.start("run", "job", "true", LOCKKEEPER_URL=slow.unix_url)
    assert asked.wait(20)
    process.terminate()
    assert process.wait(20) == 143
    assert "unknown whether job was released" in process.stderr.read()


# ---- replicas ----

@pytest.fixture
def three(folder):
    made = Replicas(folder)
    yield made
    made.kill()


@pytest.fixture
def over_three(three):
    made = Command({"LOCKKEEPER_URL": f"{three.url}?command_timeout_ms=2000"})
    yield made
    made.stop()


def test_what_a_failover_may_undo_is_not_done(three, over_three):
    """Each says 0 while all replicas hear of it, and the truth when one does not."""
    command = over_three

    def freed(*words: str) -> tuple[int, str]:
        done = command(*words)
        return done.returncode, done.stderr

    for number in range(2):
        owner = command("lock", "-l", "1h", "own").stdout.strip()
        assert command("lock", "-l", "1h", "broken").returncode == 0
        assert command("latch", "set", "latch", "3").returncode == 0
        assert command("sem", "set", "sem", "3").returncode == 0
        if number == 1:
            three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[2].port)
        for words in (("unlock", "own", owner), ("break", "--yes", "broken"),
                      ("latch", "delete", "latch"), ("sem", "delete", "sem")):
            code, text = freed(*words)
            assert code == (125 if number else 0), (words, text)
            assert ("1 of 2 replicas" in text) == bool(number), (words, text)
    assert not three.servers[0].call("EXISTS", "own", "broken", "latch", "sem")


def test_a_job_that_ends_while_a_replica_is_away(three, over_three):
    """Its code is its own; that the lock may come back is said."""
    done = over_three("run", "job", "sh", "-c", "exit 3")
    assert (done.returncode, done.stderr) == (3, "")
    process = over_three.start("run", "-l", "1h", "other", "sh", "-c", "echo in; sleep 2; exit 3")
    assert process.stdout.readline() == "in\n"
    three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[2].port)
    assert process.wait(30) == 3
    assert "may stay locked" in process.stderr.read()
    assert not three.servers[0].call("EXISTS", "other")
