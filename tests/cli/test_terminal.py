"""lockkeeper run on a terminal: one job among others, and a lock that is kept while it sleeps."""
from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import shutil
import signal
import sys
import termios
import time

import pytest

from command import BINARY, BUILD, Tree, children, state_of
from terminal import Terminal
from test_run import hold
from waiting import until


@pytest.fixture
def terminal(cli):
    made = Terminal({**cli.environment, "L": "lockkeeper"})
    yield made
    made.close()


@pytest.fixture
def tree():
    made = Tree()
    yield made
    made.kill()


def await_lock(server, name="job"):
    return until(lambda: server.holders(name), 10, "the lock is held")


def assert_kept(server, owner, seconds: float):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.holders("job") == owner
        time.sleep(0.02)


def await_program(terminal, name: str) -> None:
    """Waits until a program runs in the foreground: a Ctrl-Z before it was executed stops a shell
    that uses vfork in a way in which nobody sees it as stopped, with lockkeeper or without."""
    until(lambda: any(comm(pid) == name for pid in group_members(os.tcgetpgrp(terminal.fd))), 10,
          f"{name} runs in the foreground")


def job_runs(terminal, name: str = "sleep") -> bool:
    """The job is in the foreground, and none of it is stopped any more."""
    members = group_members(os.tcgetpgrp(terminal.fd))
    return name in map(comm, members) and not any(state_of(pid) == "T" for pid in members)


def comm(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def job_of(terminal) -> int:
    """The process that the shell knows as its job."""
    return until(lambda: children(terminal.pid), 10, "the shell has a job")[0]


def test_the_command_is_in_the_foreground(terminal):
    script = "import os; print('fore', os.tcgetpgrp(0) == os.getpgrp(), os.isatty(0))"
    assert "fore True True" in terminal.run(f'$L run job {sys.executable} -c "{script}"')
    assert terminal.status() == 0


def test_it_reads_from_the_terminal(terminal):
    terminal.line("$L run job sh -c 'echo go; read x; echo got $x; exit 4'")
    terminal.expect("go\r\n")
    terminal.line("hello")
    terminal.expect("got hello")
    terminal.prompt()
    assert terminal.status() == 4


def test_ctrl_c_goes_to_the_command(terminal, server):
    terminal.line("$L run job sleep 300")
    await_lock(server)
    terminal.type(b"\x03")
    terminal.prompt()
    assert terminal.status() == 130
    assert server.call("EXISTS", "job") == 0


COUNTING = """
import os, signal, time
# os.write: a handler may not print while its program prints.
signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupt\\n'))
os.write(1, b'go\\n')
end = time.monotonic() + 1.5
while time.monotonic() < end:
    time.sleep(0.01)
"""


def test_ctrl_c_is_given_once_and_may_be_handled(terminal, folder):
    (folder / "counting.py").write_text(COUNTING)
    terminal.line(f"$L run job {sys.executable} {folder}/counting.py; echo over=$?")
    terminal.expect("go\r\n")
    terminal.type(b"\x03")
    assert terminal.expect("over=0").count("interrupt") == 1


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ,
                    reason="a sanitizer is preloaded already")
def test_ctrl_c_is_given_once_before_the_front_knows_of_the_command(terminal, folder):
    (folder / "counting.py").write_text(COUNTING)
    # By a bare name: LD_PRELOAD would end at a space of the path.
    terminal.line(f"LD_LIBRARY_PATH='{BUILD}/tests/cli' LD_PRELOAD=slow_guard.so "
                  f"$L run job {sys.executable} {folder}/counting.py; echo over=$?")
    terminal.expect("go\r\n")
    terminal.type(b"\x03")
    assert terminal.expect("over=0").count("interrupt") == 1


def test_ctrl_c_ends_the_wait(terminal, server):
    hold(server, "job")
    terminal.line("$L run job echo ran")
    until(server.channels, 10, "it waits")
    terminal.type(b"\x03")
    assert "ran" not in terminal.prompt()
    assert terminal.status() == 130
    until(lambda: not server.channels(), 5, "nothing is left")


def test_ctrl_c_ends_a_loop_of_the_shell(terminal, server):
    terminal.line("for i in 1 2 3; do echo turn $i; $L run job sleep 300; done")
    terminal.expect("turn 1")
    await_lock(server)
    terminal.type(b"\x03")
    assert "turn" not in terminal.prompt()


def test_ctrl_z_and_fg_with_the_lock_kept_all_the_while(terminal, server):
    terminal.line("$L run -l 1s job sh -c 'echo go; sleep 1; echo again; exit 6'")
    terminal.expect("go\r\n")
    await_program(terminal, "sleep")
    owner = await_lock(server)
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    assert_kept(server, owner, 2.5)
    terminal.line("fg")
    terminal.expect("again")
    terminal.prompt()
    assert terminal.status() == 6
    assert server.call("EXISTS", "job") == 0


def test_ctrl_z_again_and_again_and_bg(terminal, server):
    terminal.line("$L run -l 1s job sleep 8")
    await_program(terminal, "sleep")
    owner = await_lock(server)
    for _ in range(3):
        terminal.type(b"\x1a")
        terminal.expect("Stopped")
        terminal.prompt()
        terminal.line("fg")
        terminal.expect("sleep 8\r\n")
        until(lambda: job_runs(terminal), 10, "the job goes on")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.run("bg")
    assert server.holders("job") == owner
    terminal.line("wait %1; echo status=$?")
    terminal.expect("status=0")
    assert server.call("EXISTS", "job") == 0


def test_a_program_that_suspends_its_group_itself(terminal, server):
    """As vim does: kill(0, SIGTSTP)."""
    script = "import os, signal; os.kill(0, signal.SIGTSTP); print('back')"
    terminal.line(f'$L run job {sys.executable} -c "{script}"')
    terminal.expect("Stopped")
    terminal.prompt()
    assert server.call("EXISTS", "job") == 1
    terminal.line("fg")
    terminal.expect("back")
    terminal.prompt()
    assert terminal.status() == 0


@pytest.mark.skipif(not shutil.which("vim"), reason="vim is not installed")
def test_an_editor_is_suspended_and_resumed(terminal, server, folder):
    terminal.line(f"$L run -l 1s job vim -u NONE -i NONE -n {folder}/text")
    owner = await_lock(server)
    terminal.expect(r"\[New.*\x1b\[1;1H")
    terminal.type(b"ione\x1b")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    assert_kept(server, owner, 1.5)
    terminal.line("fg")
    until(lambda: job_runs(terminal, "vim"), 10, "the editor goes on")
    terminal.expect("one")  # its screen; nobody else reads it, and then it would block
    for _ in range(10):
        terminal.type(b"\x1b:wq\r")  # which it may throw away while it finds its feet again
        with contextlib.suppress(AssertionError):
            terminal.prompt(2)
            break
    assert (folder / "text").read_text() == "one\n"
    assert not server.call("EXISTS", "job")


@pytest.mark.skipif(not shutil.which("less"), reason="less is not installed")
def test_a_pager_behind_it_has_the_keyboard(terminal, folder):
    terminal.line("$L run job seq 1000 | less; echo over=$?")
    terminal.expect("1000|:")
    terminal.type(b"q")
    terminal.expect("over=0")


def test_a_background_job_that_reads_the_terminal_stops_and_comes_back(terminal, server):
    terminal.run("$L run -l 1s job sh -c 'read x; echo got $x' &")
    owner = await_lock(server)
    until(lambda: "Stopped" in terminal.run("jobs"), 10, "stopped for terminal input")
    assert_kept(server, owner, 1.5)
    terminal.line("fg")
    terminal.expect("read x")
    terminal.line("word")
    terminal.expect("got word")
    terminal.prompt()


def test_members_of_a_pipeline_share_the_terminal(terminal):
    terminal.line("$L run job echo text | sh -c 'cat; echo ask; read x </dev/tty; echo got $x'")
    terminal.expect("text\r\nask")
    terminal.line("answer")
    terminal.expect("got answer")
    terminal.prompt()


def test_a_shell_inside_has_its_own_job_control(terminal, server):
    terminal.line("$L run -l 1s job bash --norc --noprofile -i")
    owner = await_lock(server)
    terminal.prompt()
    terminal.run("set +o emacs; stty -echo")
    terminal.line("sleep 300")
    await_program(terminal, "sleep")
    terminal.type(b"\x03")
    terminal.prompt()
    terminal.line("sleep 301")
    await_program(terminal, "sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    assert_kept(server, owner, 1.5)
    terminal.run("kill -9 %1; disown %1")  # else bash may still count it as stopped at `exit`
    terminal.line("suspend")
    terminal.expect("Stopped")
    terminal.prompt()
    assert_kept(server, owner, 1.5)
    terminal.line("fg")
    terminal.line("echo inner=$((40 + 2))")
    terminal.expect("inner=42")
    terminal.line("exit 9")
    until(lambda: not server.call("EXISTS", "job"), 10, "the inner shell has ended")
    terminal.line("echo outer=$?")
    terminal.expect("outer=9")


def group_members(group: int) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def test_killed_while_suspended_ends_everything_and_frees_the_lock(terminal, server, tree):
    terminal.line(f"$L run -l 5s -k 0.2 job env {tree.mark} "
                  "sh -c 'echo go; setsid sleep 300 & sleep 301'")
    terminal.expect("go")
    tree.await_size(3)
    await_program(terminal, "sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    os.kill(job_of(terminal), signal.SIGKILL)
    tree.await_end(4)
    until(lambda: not server.call("EXISTS", "job"), 4, "released")


def test_the_lock_lost_while_suspended_ends_everything(terminal, cli, server, tree):
    terminal.line(f"$L run -l 2s job env {tree.mark} sh -c 'echo go; sleep 301; echo not'")
    terminal.expect("go")
    tree.await_size(2)
    await_program(terminal, "sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    assert cli("break", "--yes", "job").returncode == 0
    tree.await_end(5)
    until(lambda: "Exit 123" in terminal.run("jobs"), 10, "the shell learns of it")


@pytest.mark.parametrize("keeper_fate", [signal.SIGKILL, signal.SIGSTOP])
def test_the_keeper_killed_or_stopped_ends_everything_in_time(terminal, server, tree, keeper_fate):
    terminal.line(f"$L run -l 3s -k 0.2 job env {tree.mark} "
                  "sh -c 'echo go; setsid sleep 300 & sleep 301'")
    terminal.expect("go")
    tree.await_size(3)
    (keeper,) = until(lambda: children(job_of(terminal)), 10, "the keeper runs")
    end = time.monotonic() + server.call("PTTL", "job") / 1000 + 1.1
    os.kill(keeper, keeper_fate)
    tree.await_end(max(end - time.monotonic(), 0))
    if keeper_fate == signal.SIGSTOP:
        os.kill(keeper, signal.SIGCONT)
    terminal.prompt()
    assert terminal.status() == 123


def test_a_suspended_wait_leaves_the_wait_queue(terminal, cli, server):
    owner = cli("lock", "-l", "60", "job").stdout.strip()
    terminal.line("$L run job echo ran")
    until(server.channels, 10, "it waits")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    until(lambda: not server.channels(), 5, "it has left the wait queue")
    assert cli("unlock", "job", owner).returncode == 0
    assert server.call("EXISTS", "job") == 0
    terminal.line("fg")
    terminal.expect("ran")
    terminal.prompt()
    assert terminal.status() == 0


def test_kill_of_the_job_while_it_is_stopped(terminal, server, tree):
    terminal.line(f"$L run job env {tree.mark} sleep 300")
    await_program(terminal, "sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.run("kill %1")
    tree.await_end(10)
    until(lambda: not server.call("EXISTS", "job"), 10, "released")


def test_the_terminal_goes_away(cli, server, tree):
    terminal = Terminal({**cli.environment, "L": "lockkeeper"})
    terminal.line(f"$L run job env {tree.mark} sleep 300")
    tree.await_size(1)
    terminal.close()
    tree.await_end(10)
    until(lambda: not server.call("EXISTS", "job"), 10, "released")


def test_the_terminal_goes_away_while_it_is_suspended(cli, server, tree):
    """The kernel hangs up a stopped job that lost its shell; nobody may hold the lock for ever."""
    terminal = Terminal({**cli.environment, "L": "lockkeeper"})
    terminal.line(f"$L run -l 2s job env {tree.mark} sleep 300")
    await_program(terminal, "sleep")
    terminal.type(b"\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    os.kill(terminal.pid, signal.SIGKILL)  # so that the shell itself hangs up nobody
    until(lambda: state_of(terminal.pid) == "Z", 10, "the shell is gone")
    tree.await_end(10)
    terminal.close()
    until(lambda: not server.call("EXISTS", "job"), 10, "released")


def test_without_a_shell_to_wake_it_ctrl_z_stops_nothing(cli, server, tree):
    """The terminal's only program, as under `ssh -t host lockkeeper run …` or in a container."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(BINARY, ["lockkeeper", "run", "job", "env", tree.mark, "sleep", "2"],
                  cli.environment)
    tree.await_size(1)
    os.write(fd, b"\x1a")
    status = until(lambda: os.waitpid(pid, os.WNOHANG)[0] and True, 20, "it ended by itself")
    os.close(fd)
    assert status
    assert server.call("EXISTS", "job") == 0


@pytest.mark.parametrize("end", ["killed", "lost"])
def test_the_settings_of_the_terminal_are_restored_after_the_command_was_killed(terminal, cli,
                                                                                server, end):
    """The shell takes the exit code of lockkeeper for an orderly end."""
    before = termios.tcgetattr(terminal.fd)
    terminal.line("$L run -l 3s -k 1s job sh -c 'stty raw -echo isig; echo go; exec sleep 300'")
    terminal.expect("go")
    await_program(terminal, "sleep")
    assert termios.tcgetattr(terminal.fd) != before
    if end == "killed":
        members = group_members(os.tcgetpgrp(terminal.fd))
        os.kill(next(pid for pid in members if comm(pid) == "sleep"), signal.SIGKILL)
    else:
        assert cli("break", "--yes", "job").returncode == 0
    terminal.prompt()
    assert "icanon=1" in terminal.run("stty -a | grep -q ' icanon' && echo icanon=1")


def test_settings_that_the_command_made_stay(terminal):
    terminal.run("$L run job stty -ixon")
    assert "off=1" in terminal.run("stty -a | grep -q ' -ixon' && echo off=1")


def leader(cli, *args: str) -> tuple[int, int]:
    """lockkeeper as the leader of a session with a terminal of its own, as in a tmux window or
    under `ssh -t host lockkeeper run …`: its process id and the terminal's other end."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(BINARY, ["lockkeeper", *args], cli.environment)
    return pid, fd


def await_exit(pid: int, limit: float = 20) -> int:
    def ended():
        found, status = os.waitpid(pid, os.WNOHANG)
        return (os.waitstatus_to_exitcode(status),) if found else None
    return until(ended, limit, "lockkeeper has ended")[0]


def test_the_terminal_of_a_session_leader_goes_away(cli, server, tree):
    """The kernel hangs up the leader alone."""
    pid, fd = leader(cli, "run", "job", *tree.line("trap 'exit 9' HUP; sleep 300 & wait"))
    tree.await_size(2)
    os.close(fd)
    assert await_exit(pid) == 9
    assert server.call("EXISTS", "job") == 0


def test_the_terminal_of_a_session_leader_goes_away_while_it_waits(cli, server):
    hold(server, "job")
    pid, fd = leader(cli, "run", "job", "echo", "ran")
    until(server.channels, 20, "it waits")
    os.close(fd)
    assert await_exit(pid) == 128 + signal.SIGHUP
    until(lambda: not server.channels(), 5, "nothing is left")


def test_a_hangup_of_a_session_leader_reaches_the_command_once(cli, server, tree, folder):
    heard = folder / "heard"
    pid, fd = leader(cli, "run", "job",
                     *tree.line(f"trap 'echo hup >> {heard}' HUP; echo go; "
                                "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"))
    assert b"go" in os.read(fd, 100)
    os.close(fd)
    await_exit(pid)
    assert heard.read_text() == "hup\n"
