"""lockkeeper top, on a terminal of its own."""
from __future__ import annotations

import re
import shlex

import pytest

from command import BINARY
from terminal import Terminal
from test_run import hold
from waiting import until


@pytest.fixture
def top(cli):
    """Starts `lockkeeper top` with arguments; what it draws is seen without the controls."""
    shell = Terminal({**cli.environment, "LC_ALL": "C.UTF-8"})

    def start(*words: str) -> Terminal:
        shell.run("export TERM=xterm; stty rows 20 cols 160")
        shell.line(shlex.join([str(BINARY), "top", "-d", "0.2", *words]))
        shell.expect("HELD BY")
        return shell

    yield start
    shell.close()


def quit_cleanly(shell: Terminal) -> None:
    shell.type(b"q")
    shell.prompt()
    assert shell.status() == 0


def test_it_shows_locks_and_holders_and_ends(top, server):
    hold(server, "backup", "stranger:7")
    hold(server, "report", "stranger:8", 20000)
    shell = top()
    text = shell.expect("report.*another client")
    assert "backup" in text and "lock" in text
    quit_cleanly(shell)


def test_a_change_of_the_owner_is_counted(top, server):
    hold(server, "job", "stranger:1")
    shell = top()
    shell.expect("job")
    server.call("DEL", "job")
    hold(server, "job", "stranger:2")
    shell.expect(r"\b1 +[0-9.]+[^0-9]")
    quit_cleanly(shell)


def test_it_shows_how_long_somebody_waits_and_the_least_lease(top, cli, server):
    hold(server, "job", "stranger:1", 20000)
    waiter = cli.start("run", "-w", "60", "job", "true")
    until(lambda: server.call("PUBSUB", "CHANNELS"), 20, "somebody waits")
    shell = top()
    # holds, lease, least lease, waiters, waited
    shell.expect(r"job +lock +1 +1\d\.\d +1\d\.\d +1 +\d\.\d")
    server.call("PEXPIRE", "job", "5000")
    shell.expect(r" 4\.\d")
    server.call("PEXPIRE", "job", "60000")
    shell.expect(r"\D5\d\D")
    shell.type(b"/nothing\n")
    shell.expect(r"\(0\)")
    shell.type(b"/\n")  # the whole row is drawn again
    shell.expect(r" 5\d\.\d +[0-4]\.\d +1 +\d+\.\d")
    waiter.kill()
    quit_cleanly(shell)


def test_it_breaks_after_a_confirmation_only(top, server):
    hold(server, "job")
    shell = top()
    shell.expect("job")
    shell.type(b"b")
    shell.expect(r"Break it\? \[y/N\] job")
    shell.type(b"n")
    shell.expect("not broken: job")
    assert server.call("EXISTS", "job") == 1
    shell.type(b"b")
    shell.expect("Break it")
    shell.type(b"y")
    shell.expect("broken: job")
    until(lambda: server.call("EXISTS", "job") == 0, 10)
    quit_cleanly(shell)


def test_it_filters_and_sorts(top, server):
    hold(server, "apple", ms=50000)
    hold(server, "pear", ms=10000)
    shell = top()
    shell.expect("pear")
    shell.type(b"s")
    shell.expect("ttl")
    shell.type(b"/pea\n")
    shell.expect(r"/p?e?a?.*\(1\)")
    shell.type(b"b")
    shell.expect("Break it.*pear")
    shell.type(b"n")
    quit_cleanly(shell)


def test_it_names_who_waits_in_a_queue(cli, top, server):
    """In order, for the lock that is selected; `show` names the same."""
    cli.environment.pop("LOCKKEEPER_CLIENT_RECORD")  # they tell who they are, as by default
    holder = cli.start("run", "--fair", "job", "sleep", "100")
    until(lambda: server.call("EXISTS", "job"), 10, "it is held")
    waits = []
    for program in ("head", "tail"):
        waits.append(cli.start("run", "--fair", "job", program, "/dev/null"))
        until(lambda: server.call("LLEN", "redisson_lock_queue:{job}") == len(waits), 10)
    shown = [line for line in cli("show", "job").stdout.splitlines() if line.startswith("waiter ")]
    assert [re.sub(r".*, (.*), pid .*", r"\1", line) for line in shown] == ["head", "tail"]
    shell = top()
    shell.expect("waiting: 1 head, pid [0-9]+ on .*; 2 tail, pid [0-9]+ on ")
    quit_cleanly(shell)
    assert holder.poll() is None


def test_it_shows_the_use_of_permits(cli, top, server):
    """And how long they last: not their counter, which stays."""
    cli.start("run", "-l", "90", "--permits", "5", "pool", "sleep", "100")
    until(lambda: server.call("GET", "pool") == b"4", 10, "one is in use")
    shell = top()
    shell.expect("pool +permit semaphore +1/5 +[0-9][0-9][.][0-9] ")
    quit_cleanly(shell)


def test_names_cannot_reach_the_terminal(top, server):
    hold(server, b"a\x1b]0;evil\x07b")
    shell = top()
    shell.expect(re.escape("a\\x1b]0;evil\\x07b"))
    assert b"\x1b]0;" not in shell.seen
    quit_cleanly(shell)


def test_a_server_that_goes_and_comes_back(top, server):
    hold(server, "job")
    shell = top("-o", "command_timeout_ms=300")
    shell.expect("job")
    server.stop()
    shell.expect("unreachable|refused|No such file|closed|not sent", 30)
    server.start()
    hold(server, "other")
    shell.expect("other", 30)
    quit_cleanly(shell)


@pytest.mark.parametrize("rows, columns", [(1, 200), (3, 1), (5, 10), (10, 5), (8, 30)])
def test_a_small_terminal_is_no_harm(cli, server, rows, columns):
    hold(server, "a-name-that-is-longer-than-the-terminal-is-wide")
    shell = Terminal({**cli.environment, "LC_ALL": "C.UTF-8"})
    try:
        shell.run(f"export TERM=xterm; stty rows {rows} cols {columns}")
        shell.line(shlex.join([str(BINARY), "top", "-d", "0.2"]))
        shell.expect("u")  # of its URL
        quit_cleanly(shell)
    finally:
        shell.close()


def test_it_needs_a_terminal(cli, server):
    result = cli("top")
    assert result.returncode == 125 and "top needs a terminal" in result.stderr


def test_a_missing_ncurses_is_named(cli, folder):
    (folder / "libncursesw.so.6").touch()  # found first, and no library
    shell = Terminal({**cli.environment, "LD_LIBRARY_PATH": str(folder)})
    shell.line(f"{BINARY} top")
    shell.expect("top: ncurses cannot be loaded: .*libncursesw")
    shell.close()


def test_it_shows_the_note(top, cli, server):
    holder = cli.start("run", "--note", "release 4711", "job", "sleep", "60",
                       LOCKKEEPER_CLIENT_RECORD="short")
    until(lambda: server.call("EXISTS", "job"), 20, "it is held")
    shell = top()
    shell.expect("note: release 4711")  # on the last line; its own has no room
    quit_cleanly(shell)
    holder.terminate()
    assert holder.wait(30) == 143
