"""The private server under faults: torn files, a hung server, foreign folders, low limits."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from command import BINARY
from private import call, kill, process, servers_in
from rights import as_root, namespaces
from waiting import until

pytestmark = pytest.mark.usefixtures("no_server_is_left")
SLOW = float(os.environ.get("LK_TEST_SLOW", "1"))
HANGS_S = 10 * SLOW  # far more than a command may wait for a server that hangs
STRANGER = 12345


def tear(folder: pathlib.Path) -> None:
    """Cuts the append-only file inside the last transaction, behind its first write."""
    file = max((folder / "state" / "appendonlydir").glob("*.incr.aof"))
    data = file.read_bytes()
    start = data.upper().rindex(b"*1\r\n$5\r\nMULTI\r\n")
    cut = data.index(b"*3\r\n", start)  # PEXPIRE, behind HSET or HINCRBY
    file.write_bytes(data[:cut + 9])


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_torn_file_leaves_no_lock_without_an_end(bare, folder, starts):
    assert bare("lock", "-l", "1h", "job").returncode == 0
    kill(bare)
    until(lambda: not servers_in(folder), 10, "the server has ended")
    tear(folder)
    for number in range(starts):
        assert bare("lock", "-l", "1h", f"other{number}").returncode == 0
        kill(bare)
        until(lambda: not servers_in(folder), 10, "the server has ended")
    assert bare("run", "-n", "job", "true").returncode == 0
    names = call(folder, "KEYS", "*")
    assert len(names) == starts
    assert all(call(folder, "PTTL", name) > 0 for name in names)


def test_a_lock_without_an_end_does_not_survive_a_start(bare, folder):
    assert bare("sem", "set", "permits", "3").returncode == 0
    assert bare("latch", "set", "gate", "2").returncode == 0
    assert bare("fence", "check", "report-out", "17").returncode == 0
    owner = bare("lock", "-l", "1h", "held").stdout.strip()
    field = "01234567-89ab-cdef-0123-456789abcdef:1"
    call(folder, "HSET", "forever", field, "1")
    call(folder, "HSET", "written", "mode", "write", field + ":write", "1")
    assert bare("run", "-n", "forever", "true").returncode == 124
    kill(bare)
    assert bare("run", "-n", "forever", "true").returncode == 0
    assert bare("run", "-n", "--exclusive", "written", "true").returncode == 0
    names = {name for name in call(folder, "KEYS", "*") if not name.startswith(b"lockkeeper_")}
    assert names == {b"gate", b"held", b"permits", b"report-out"}
    assert bare("unlock", "held", owner).returncode == 0


def timed(bare, *args):
    start = time.monotonic()
    result = bare(*args)
    return result, time.monotonic() - start


def test_a_hung_server_is_reported_in_time(bare, folder):
    assert bare("run", "job", "true").returncode == 0
    pid = process(bare)
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    crowd = [bare.start("run", "-w", "1", "job", "true") for _ in range(10)]
    assert [one.wait(60) for one in crowd] == [125] * 10
    result = bare("run", "-n", "job", "true")
    assert time.monotonic() - start < HANGS_S
    assert result.returncode == 125
    assert f"process {pid}" in result.stderr and "server stop --force" in result.stderr


@pytest.mark.parametrize("backlog", [0, 600])
def test_force_ends_a_hung_server_and_names_it(bare, folder, backlog):
    owner = bare("lock", "-l", "1h", "job").stdout.strip()
    pid = process(bare)
    os.kill(pid, signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        for _ in range(backlog):  # more than the server has room for
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(str(folder / "state" / "redis.sock"))
        refused, seconds = timed(bare, "server", "stop")
        assert refused.returncode == 125 and f"process {pid}" in refused.stderr
        assert seconds < HANGS_S
        forced, seconds = timed(bare, "server", "stop", "--force")
        assert forced.returncode == 0 and f"process {pid}" in forced.stderr
        assert seconds < HANGS_S
    assert servers_in(folder) == []
    assert bare("run", "-n", "job", "true").returncode == 124
    assert bare("unlock", "job", owner).returncode == 0


def stranger_listens(path: pathlib.Path) -> subprocess.Popen:
    """A server of another user: answers PING, and whatever else, with what a server says."""
    script = ("import os, socket, sys\n"
              "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])\n"
              "os.chmod(sys.argv[1], 0o777); os.seteuid(int(sys.argv[2])); s.listen()\n"
              "print('up', flush=True)\n"
              "while True:\n"
              "    c = s.accept()[0]\n"
              "    try: c.recv(1000); c.send(b'+PONG\\r\\n')\n"
              "    except OSError: pass\n")
    made = subprocess.Popen([sys.executable, "-c", script, path, str(STRANGER)],
                            stdout=subprocess.PIPE, text=True)
    assert made.stdout.readline() == "up\n"
    return made


@as_root
def test_a_server_of_another_user_is_not_believed(bare, folder):
    (folder / "state").mkdir(mode=0o700)
    made = stranger_listens(folder / "state" / "redis.sock")
    try:
        for args in (["run", "job", "echo", "x"], ["server", "status"], ["server", "stop"]):
            result = bare(*args)
            assert result.returncode == 125 and result.stdout == ""
            assert f"user {STRANGER}" in result.stderr
    finally:
        made.kill()
        made.wait()
        made.stdout.close()


@as_root
def test_a_folder_of_another_user_is_refused_though_a_server_answers_there(bare, folder):
    (folder / "state").mkdir()
    made = stranger_listens(folder / "state" / "redis.sock")
    try:
        os.chown(folder / "state", STRANGER, STRANGER)
        (folder / "state").chmod(0o777)
        result = bare("run", "job", "echo", "x")
        assert (result.returncode, result.stdout) == (125, "")
        assert f"belongs to user {STRANGER}" in result.stderr
    finally:
        made.kill()
        made.wait()
        made.stdout.close()


def test_a_folder_that_others_could_replace_is_refused(bare, folder):
    parent = folder / "open"
    parent.mkdir()
    parent.chmod(0o777)
    environment = {"LOCKKEEPER_STATE_DIR": str(parent / "more" / "state")}
    refused = bare("run", "job", "true", **environment)
    assert refused.returncode == 125 and f"{parent}: " in refused.stderr
    parent.chmod(0o1777)  # as /tmp: nobody can replace what is another's
    assert bare("run", "job", "true", **environment).returncode == 0
    parent.chmod(0o777)
    assert bare("run", "job", "true", **environment).returncode == 125
    parent.chmod(0o755)
    assert bare("server", "stop", **environment).returncode == 0


@as_root
def test_a_folder_below_another_users_is_refused(bare, folder):
    parent = folder / "theirs"
    parent.mkdir(mode=0o755)
    os.chown(parent, STRANGER, STRANGER)
    refused = bare("run", "job", "true", LOCKKEEPER_STATE_DIR=str(parent / "state"))
    assert refused.returncode == 125
    assert f"{parent}: belongs to user {STRANGER}" in refused.stderr


def test_a_link_is_called_a_link(bare, folder):
    (folder / "real").mkdir(mode=0o700)
    (folder / "state").symlink_to(folder / "real")
    refused = bare("run", "job", "true")
    assert refused.returncode == 125 and "symbolic link" in refused.stderr


def guarded_server(folder: pathlib.Path) -> pathlib.Path:
    """A redis-server that refuses to come up with a port, and notes it in `folder`/bad."""
    place = folder / "bin"
    place.mkdir()
    program = place / "redis-server"
    program.write_text(f"#!/bin/sh\ncase \" $* \" in\n*' --port 0 '*) ;;\n"
                       f"*) echo \"$*\" >> {folder}/bad; exit 1;;\nesac\n"
                       f"exec {shutil.which('redis-server')} \"$@\"\n")
    program.chmod(0o755)
    return place


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8, 9, 10, 12])
def test_few_descriptors_start_no_server_of_another_kind(bare, folder, limit):
    place = guarded_server(folder)
    done = subprocess.run(["sh", "-c", f"ulimit -Sn {limit} && exec \"$0\" server start", BINARY],
                          capture_output=True, text=True, timeout=60,
                          env={**bare.environment, "PATH": f"{place}:{os.environ['PATH']}"})
    assert not (folder / "bad").exists(), (folder / "bad").read_text()
    assert done.returncode in (0, 125, 127), done
    assert done.returncode == 0 or done.stderr
    assert "ended at once" not in done.stderr


@pytest.mark.slow
def test_a_server_that_ignores_its_settings_is_ended(bare, folder):
    place = folder / "bin"
    place.mkdir()
    (place / "redis-server").write_text("#!/bin/sh\nexec sleep 600\n")
    (place / "redis-server").chmod(0o755)
    result = bare("run", "job", "/bin/true", PATH=f"{place}:/usr/bin:/bin")
    assert result.returncode == 125 and "redis.log" in result.stderr
    until(lambda: not servers_in(folder), 5, "the program that is no server has ended")


@as_root
def test_the_server_is_found_from_a_pid_namespace(bare, folder):
    inside = namespaces("--pid", "--fork")
    assert bare("server", "start").returncode == 0
    pid = process(bare)

    def there(*args):
        return subprocess.run([*inside, BINARY, *args], capture_output=True, text=True,
                              env=bare.environment, timeout=60)
    assert there("run", "-n", "job", "echo", "x").stdout == "x\n"
    told = there("server", "status")
    assert told.returncode == 0 and told.stdout.startswith("running\n"), told
    assert servers_in(folder) == [pid]
    assert there("server", "stop").returncode == 0
    until(lambda: not servers_in(folder), 5, "the server has ended")


def limits_of(pid: int) -> dict[str, list[str]]:
    lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:].split()[:2] for line in lines}


def test_the_server_does_not_keep_its_starters_soft_limits(bare, folder):
    done = subprocess.run(["sh", "-c", "ulimit -Sn 64; ulimit -Sf 8; ulimit -St 5; "
                           "exec lockkeeper server start"], capture_output=True, text=True,
                          timeout=60, env=bare.environment)
    assert done.returncode == 0, done.stderr
    limits = limits_of(process(bare))
    for name in ("Max open files", "Max file size", "Max cpu time"):
        assert limits[name][0] == limits[name][1], name


@as_root
@pytest.mark.parametrize("kind, value, word", [
    (resource.RLIMIT_NOFILE, 40, "open files"), (resource.RLIMIT_FSIZE, 8192, "file size"),
    (resource.RLIMIT_CPU, 60, "CPU time")])
def test_a_start_under_low_hard_limits_is_refused(bare, folder, kind, value, word):
    """What the server could not shed would harm all who use it later."""
    (folder / "state").mkdir(mode=0o700)
    os.chown(folder / "state", STRANGER, STRANGER)
    folder.chmod(0o755)
    done = subprocess.run([BINARY, "run", "job", "true"], capture_output=True, text=True,
                          env=bare.environment, timeout=60, user=STRANGER, group=STRANGER,
                          extra_groups=[],
                          preexec_fn=lambda: resource.setrlimit(kind, (value, value)))
    os.chown(folder / "state", 0, 0)
    assert done.returncode == 125 and word in done.stderr, done
    assert "lockkeeper server start" in done.stderr
    assert servers_in(folder) == []


@as_root
def test_a_full_disk_is_reported(bare, folder):
    (folder / "state").mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none",
                       folder / "state"], capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        assert bare("lock", "-l", "1h", "job").returncode == 0
        pid = process(bare)
        with contextlib.suppress(OSError), open(folder / "state" / "filler", "wb") as filler:
            while True:
                filler.write(b"x" * 512)
                filler.flush()
        # Commands are refused once the server has seen that it cannot write.
        until(lambda: bare("run", "-n", "other", "true").returncode == 125, 30, "a refusal")
        result, seconds = timed(bare, "run", "-n", "other", "true")
        assert result.returncode == 125 and "No space left" in result.stderr, result
        assert seconds < HANGS_S
        os.kill(pid, signal.SIGKILL)
        result, seconds = timed(bare, "run", "-n", "other", "true")
        assert result.returncode == 125 and "not answer" not in result.stderr, result
        assert seconds < HANGS_S
        (folder / "state" / "filler").unlink()
        until(lambda: bare("run", "-n", "other", "true").returncode == 0, 20, "it works again")
    finally:
        bare("server", "stop", "--force")
        until(lambda: subprocess.run(["umount", folder / "state"],
                                     capture_output=True).returncode == 0, 10, "unmounted")


@pytest.mark.parametrize("args", [["server", "start"], ["run", "job", "true"]])
def test_a_stop_and_a_start_at_once_both_succeed(bare, args):
    for number in range(60):
        start = bare.start(*args)
        if number % 3:
            time.sleep(number % 7 / 1000)
        stop = bare.start("server", "stop")
        assert start.wait(60) == 0, start.stderr.read()
        assert stop.wait(60) == 0 or re.search("1 lock is held|other commands are using",
                                               stop.stderr.read())
