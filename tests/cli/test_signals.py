"""Signals to lockkeeper: handed to the command's group, or the end of the wait."""
from __future__ import annotations

import signal
import subprocess
import time

import pytest

from command import BINARY, Tree, children, guard_of, state_of
from terminal import Terminal
from test_run import hold
from waiting import until

ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
          signal.SIGUSR2, signal.SIGALRM]


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_wait_at_once_and_leaves_nothing(cli, server, number):
    hold(server, "job")
    process = cli.start("run", "-w", "1h", "job", "echo", "ran")
    until(server.channels, 20, "it waits")
    begun = time.monotonic()
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert time.monotonic() - begun < 5
    assert process.stdout.read() == ""
    until(lambda: not server.channels(), 5, "no subscription is left")
    assert server.call("KEYS", "*") == [b"job"]
    assert server.holders("job") == {b"stranger:1": b"1"}
    server.call("DEL", "job")
    assert cli("run", "-n", "job", "true").returncode == 0


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_handed_to_the_command(cli, server, number):
    process = cli.start("run", "job", "sleep", "300")
    until(lambda: server.call("EXISTS", "job"), 10, "the lock is held")
    until(lambda: children(guard_of(process)), 10, "the command runs")
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert server.call("EXISTS", "job") == 0


def test_a_signal_reaches_the_whole_group(cli, server, folder):
    tree = Tree()
    process = cli.start("run", "job", *tree.line("sleep 300 & sleep 301 & sleep 302; wait"))
    tree.await_size(4)
    process.terminate()
    assert process.wait(20) == 143
    tree.await_end(10)


def test_a_command_may_handle_the_signal_and_continue(cli, server, folder):
    ready = folder / "ready"
    process = cli.start("run", "job", "sh", "-c",
                        f"trap 'echo got' USR1; trap 'exit 5' TERM; touch {ready}; "
                        "while :; do sleep 0.02; done")
    until(ready.exists, 10, "the command is ready")
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "got\n"
    process.send_signal(signal.SIGWINCH)
    assert process.poll() is None
    process.terminate()
    assert process.wait(20) == 5


def test_ignored_signals_stay_ignored(cli, server):
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP INT; exec "$@"', "-", BINARY, "run", "job", "sleep", "1"],
        env=cli.environment, start_new_session=True)
    until(lambda: server.call("EXISTS", "job"), 10, "the lock is held")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0


def test_tstp_and_cont_reach_the_command_and_the_lock_is_kept(cli, server):
    process = cli.start("run", "-l", "1s", "job", "sleep", "300")
    child = until(lambda: children(guard_of(process)), 10, "the command runs")[0]
    owner = until(lambda: server.holders("job"), 10, "the lock is held")
    process.send_signal(signal.SIGTSTP)
    until(lambda: state_of(child) == "T", 10, "the command is stopped")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert server.holders("job") == owner
        time.sleep(0.02)
    process.send_signal(signal.SIGCONT)
    until(lambda: state_of(child) == "S", 10, "the command goes on")
    process.terminate()
    assert process.wait(20) == 143


def test_a_signal_right_at_the_start_never_leaves_a_lock(cli, server):
    """Wherever it strikes, the lock is free afterwards and the status says what happened."""
    for delay_ms in [0, 0.3, 0.6, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 15, 20]:
        process = cli.start("run", "job", "sleep", "300")
        time.sleep(delay_ms / 1000)
        process.terminate()
        # Before main() it dies of the signal itself.
        assert process.wait(20) in (143, -15)
        until(lambda: not server.call("EXISTS", "job"), 5, f"free after {delay_ms} ms")
        assert not server.channels()


LOOPS = {
    "lock": "lock -v -l 60", "lock --while": "lock -v -l 60 --while caller", "run": "run -v",
    "run --permits": "run -v --permits 1", "wait": "wait -v", "latch wait": "latch wait -v",
    "top": "top",
}


@pytest.mark.parametrize("words", LOOPS.values(), ids=LOOPS)
def test_ctrl_c_ends_a_shells_loop_around_a_wait(cli, server, folder, words):
    """A shell ends its loop only if the command has died of the signal."""
    for name in "abc":
        server.call("SET", name, "1") if "latch" in words else hold(server, name)
        if "permits" in words:
            server.call("DEL", name)
            cli.start("run", "--permits", "1", name, "sleep", "60")
            until(lambda: server.call("GET", name) == b"0", 20, "no permit is left")
    last = " true" if words.startswith("run") else ""
    script = folder / "loop.sh"
    script.write_text(f"for name in a b c; do lockkeeper {words} $name{last}; echo next; done\n")
    terminal = Terminal({**cli.environment, "LC_ALL": "C.UTF-8"})
    terminal.line(f"TERM=xterm bash {script}")
    seen = terminal.expect("HELD BY" if words == "top" else "waiting for a: ")
    terminal.type(b"\x03")
    seen += terminal.prompt()
    assert "next" not in seen
    assert terminal.status() == 130
    terminal.close()
