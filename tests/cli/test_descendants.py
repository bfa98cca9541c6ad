"""Descendants that are hard to see or to end: without a main thread, of another user, hidden."""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from command import BINARY, BUILD, LIMIT, Tree, guard_of
from rights import as_root, namespaces
from waiting import never, until

FOREIGN = BUILD / "tests" / "cli" / "foreign"
NOBODY = 65534


@pytest.fixture
def tree():
    made = Tree()
    yield made
    made.kill()


def lives(pid: int) -> bool:
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > (stat_letter(pid) == "Z")
    except FileNotFoundError:
        return False


def stat_letter(pid: int) -> str:
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def await_pid(file: pathlib.Path) -> int:
    return int(until(lambda: file.exists() and file.read_text().strip(), 20, f"{file} is written"))


@pytest.mark.parametrize("start", ["", "setsid "])
def test_a_process_whose_main_thread_has_ended_is_ended(cli, server, folder, start):
    pid_file = folder / "pid"
    process = cli.start("run", "-l", "3s", "job", "sh", "-c",
                        f"{start}sh -c 'echo $$ > {pid_file}; exec {FOREIGN} --thread 100' & "
                        "sleep 300")
    pid = await_pid(pid_file)
    until(lambda: stat_letter(pid) == "Z", 10, "its main thread has ended")
    assert lives(pid)
    server.pause()
    assert process.wait(30) == 123, process.stderr.read()
    server.resume()
    until(lambda: not os.path.exists(f"/proc/{pid}"), 1, "it was ended with the others")


class Ordinary:
    """lockkeeper and its command as an ordinary user, and a set-user-ID program of root."""

    def __init__(self, folder: pathlib.Path, server):
        self.server, self.folder = server, folder
        os.chmod(folder, 0o755)
        os.chmod(server.folder, 0o755)
        os.chmod(server.path, 0o777)
        self.out = folder / "out"
        self.out.mkdir()
        self.out.chmod(0o777)
        self.foreign = folder / "foreign"
        shutil.copy(FOREIGN, self.foreign)
        self.foreign.chmod(0o4755)
        self.binary = folder / "lockkeeper"
        shutil.copy(BINARY, self.binary)
        self.binary.chmod(0o755)
        self.started: list[subprocess.Popen] = []

    def start(self, *args: str, before: tuple[str, ...] = ()) -> subprocess.Popen:
        process = subprocess.Popen(
            [*before, "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
             self.binary, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "LOCKKEEPER_URL": self.server.unix_url})
        self.started.append(process)
        return process

    def script(self) -> str:
        """A shell, a process of its own user in another session, and one of another user."""
        rest = "exec sleep 300 >/dev/null 2>&1"
        return (f"setsid sh -c 'echo $$ > {self.out}/own; {rest}' & "
                f"{self.foreign} sh -c 'echo $$ > {self.out}/other; {rest}' & wait")

    def pids(self) -> tuple[int, int]:
        return await_pid(self.out / "own"), await_pid(self.out / "other")

    def stop(self) -> None:
        for process in self.started:
            process.kill()
            process.wait(LIMIT)
            process.stdout.close()
            process.stderr.close()
        for name in ("own", "other"):
            if (self.out / name).exists():
                pid = int((self.out / name).read_text())
                if lives(pid):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def ordinary(folder, server):
    made = Ordinary(folder, server)
    yield made
    made.stop()


def cpu_ticks(pid: int) -> int:
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


@as_root
def test_a_process_of_another_user_keeps_the_lock_until_it_ends(ordinary, server):
    """The lease cannot be renewed for a while; then the server is back, and the work goes on."""
    process = ordinary.start("run", "-l", "5s", "-k", "2s", "job", "sh", "-c", ordinary.script())
    own, other = ordinary.pids()
    guard = guard_of(process)
    server.pause()
    until(lambda: not os.path.exists(f"/proc/{own}"), 10, "what can be ended is ended")
    server.resume()
    ticks, begun = cpu_ticks(guard) + cpu_ticks(process.pid), time.monotonic()
    never(lambda: not server.call("EXISTS", "job"), 8, "the lock is kept while it runs")
    spent = (cpu_ticks(guard) + cpu_ticks(process.pid) - ticks) / os.sysconf("SC_CLK_TCK")
    assert spent < 0.1 * (time.monotonic() - begun), "nobody spins meanwhile"
    assert process.poll() is None and lives(other)
    os.kill(other, signal.SIGKILL)
    assert process.wait(20) == 123
    said = process.stderr.read()
    assert f"this user cannot end process {other} of user root" in said
    assert "guard was killed" not in said and "without the lock" not in said
    assert server.call("EXISTS", "job") == 0


@as_root
@pytest.mark.parametrize("loss", ["broken", "unreachable"])
def test_a_process_of_another_user_that_outlives_the_lock_is_named(ordinary, server, loss):
    process = ordinary.start("run", "-l", "5s", "-k", "0.2", "job", "sh", "-c", ordinary.script())
    own, other = ordinary.pids()
    if loss == "broken":
        server.call("DEL", "job")
    else:
        server.pause()
    assert process.wait(30) == 123, process.stderr.read()
    assert not lives(own) and lives(other)
    said = process.stderr.read()
    assert f"could not end process {other} of user root; it continues without the lock" in said
    assert "guard was killed" not in said
    server.resume()


@as_root
def test_a_process_of_another_user_when_the_guard_is_killed(ordinary, server):
    process = ordinary.start("run", "-l", "2s", "-k", "0.2", "job", "sh", "-c", ordinary.script())
    own, other = ordinary.pids()
    os.kill(guard_of(process), signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{own}"), 10, "what can be ended is ended")
    never(lambda: not server.call("EXISTS", "job"), 4, "the lock is kept while it runs")
    os.kill(other, signal.SIGKILL)
    assert process.wait(20) == 125
    assert f"this user cannot end process {other} of user root" in process.stderr.read()
    assert server.call("EXISTS", "job") == 0


@as_root
def test_a_signal_that_cannot_be_passed_on_is_reported(ordinary, server):
    process = ordinary.start("run", "job", ordinary.foreign, "sh", "-c",
                             f"echo $$ > {ordinary.out}/own; echo $$ > {ordinary.out}/other; "
                             "exec sleep 300 2>/dev/null")
    _, other = ordinary.pids()
    until(lambda: pathlib.Path(f"/proc/{other}/comm").read_text() == "sleep\n", 10, "it runs")
    process.terminate()
    assert "SIGTERM was not passed on" in process.stderr.readline()
    os.kill(other, signal.SIGKILL)
    assert process.wait(20) == 137


@as_root
def test_a_process_that_proc_hides_is_not_forgotten(ordinary, server):
    process = ordinary.start(
        "run", "-l", "5s", "-k", "1s", "job", "sh", "-c", ordinary.script(),
        before=(*namespaces(), "sh", "-c",
                'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "-"))
    own, other = ordinary.pids()
    server.pause()
    until(lambda: not os.path.exists(f"/proc/{own}"), 10, "what can be ended is ended")
    server.resume()
    never(lambda: not server.call("EXISTS", "job"), 6, "the lock is kept while it runs")
    os.kill(other, signal.SIGKILL)
    assert process.wait(20) == 123
    assert "cannot end a process that /proc does not show" in process.stderr.read()


@as_root
def test_without_proc_nothing_is_run(cli, folder):
    ran = folder / "ran"
    result = subprocess.run(
        [*namespaces(), "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "-", BINARY, "run",
         "job", "touch", ran], capture_output=True, text=True, env=cli.environment, timeout=60)
    assert result.returncode == 125
    assert "/proc" in result.stderr
    assert not ran.exists()
