"""The private server: started when it is needed, one for all, left running, stopped on request."""
from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess

import pytest

from command import BINARY, Command, children
from private import servers_in, status
from rights import as_root
from waiting import until


pytestmark = pytest.mark.usefixtures("no_server_is_left")


def test_run_without_any_set_up(bare):
    result = bare("run", "backup", "--", "echo", "works")
    assert (result.returncode, result.stdout, result.stderr) == (0, "works\n", "")
    first = status(bare)
    assert bare("run", "backup", "true").returncode == 0
    assert status(bare) == first, "it is left running, for others"


def test_start_status_and_stop(bare):
    before = bare("server", "status")
    assert before.returncode == 3 and before.stdout.startswith("not running")
    assert bare("server", "stop").returncode == 0
    assert bare("server", "start").stdout.startswith("running\n")
    assert bare("server", "start").returncode == 0
    pid = int(status(bare)["process"])
    assert bare("server", "stop").returncode == 0
    until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in
          pathlib.Path(f"/proc/{pid}/stat").read_text(), 5, "the server has ended")
    assert bare("server", "status").returncode == 3


def test_ten_starts_at_once_make_one_server(bare):
    started = [bare.start("server", "start") for _ in range(10)]
    assert [process.wait(60) for process in started] == [0] * 10
    assert len({process.stdout.read() for process in started}) == 1


def test_ten_commands_at_once_share_one_server(bare, folder):
    log = folder / "log"
    started = [bare.start("run", "job", "sh", "-c", f"echo in >> {log}; sleep 0.02; "
                          f"echo out >> {log}") for _ in range(10)]
    assert [process.wait(60) for process in started] == [0] * 10
    assert log.read_text() == "in\nout\n" * 10


def test_a_starter_that_is_killed_leaves_one_server_and_no_obstacle(bare, folder):
    for delay_ms in (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10):
        process = bare.start("server", "start")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay_ms / 1000)
            raise subprocess.TimeoutExpired("ended already", 0)
        process.kill()
        assert bare("run", "job", "true").returncode == 0
        assert len(servers_in(folder)) == 1, f"killed after {delay_ms} ms"
        assert bare("server", "stop", "--force").returncode == 0
        until(lambda: not servers_in(folder), 5, "the server has ended")


def test_stop_refuses_while_locks_are_held(bare):
    owner = bare("lock", "-l", "1h", "job").stdout.strip()
    refused = bare("server", "stop")
    assert refused.returncode == 125 and "1 lock is held" in refused.stderr
    assert status(bare)["locks"] == "1"
    assert bare("unlock", "job", owner).returncode == 0
    assert bare("server", "stop").returncode == 0


def test_locks_outlive_the_server(bare):
    owner = bare("lock", "-l", "1h", "job").stdout.strip()
    assert bare("server", "stop", "--force").returncode == 0
    assert bare("run", "-n", "job", "true").returncode == 124
    os.kill(int(status(bare)["process"]), signal.SIGKILL)
    assert bare("run", "-w", "2", "job", "true").returncode == 124
    assert bare("unlock", "job", owner).returncode == 0


def test_only_its_user_gets_in(bare, folder):
    assert bare("run", "job", "true", umask="").returncode == 0
    state = folder / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for path in state.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_lets_others_in_is_refused(bare, folder, mode):
    (folder / "state").mkdir()
    (folder / "state").chmod(mode)
    result = bare("run", "job", "true")
    assert result.returncode == 125 and "must be 700" in result.stderr


def test_a_folder_that_is_a_file_is_refused(bare, folder):
    (folder / "state").write_text("")
    assert str(folder / "state") in bare("run", "job", "true").stderr


@as_root
def test_a_folder_of_another_user_is_refused(bare, folder):
    (folder / "state").mkdir(mode=0o700)
    os.chown(folder / "state", 12345, 12345)
    result = bare("run", "job", "true")
    assert result.returncode == 125 and "belongs to user 12345" in result.stderr
    os.chown(folder / "state", 0, 0)


def test_a_path_too_long_for_a_socket_is_named(bare, folder):
    result = bare("run", "job", "true", LOCKKEEPER_STATE_DIR=str(folder / ("x" * 120)))
    assert result.returncode == 125
    assert "107 bytes" in result.stderr and "LOCKKEEPER_STATE_DIR" in result.stderr
    relative = bare("run", "job", "true", LOCKKEEPER_STATE_DIR="relative/path")
    assert relative.returncode == 125 and "absolute" in relative.stderr


def test_odd_paths_work(bare, folder):
    place = folder / 'a "b\\c % ?#@:ü'
    environment = {"LOCKKEEPER_STATE_DIR": str(place)}
    assert bare("run", "job", "echo", "x", **environment).stdout == "x\n"
    assert bare("server", "stop", **environment).returncode == 0


def test_the_folder_does_not_depend_on_the_environments_home(folder):
    """cron, su and systemd have other environments, and must find the same server."""
    bare = Command({"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder),
                    "XDG_STATE_HOME": str(folder)})
    text = bare("server", "status").stdout
    assert str(folder) not in text
    assert "/.local/state/lockkeeper/" + os.uname().nodename in text


def test_no_server_program(bare, folder):
    (folder / "empty").mkdir()
    result = bare("run", "job", "/bin/true", PATH=str(folder / "empty"))
    assert result.returncode == 125 and "redis-server" in result.stderr


def test_a_server_that_cannot_start_is_reported(bare, folder):
    fake = folder / "bin"
    fake.mkdir()
    (fake / "redis-server").write_text("#!/bin/sh\necho broken; exit 1\n")
    (fake / "redis-server").chmod(0o755)
    result = bare("run", "job", "/bin/true", PATH=f"{fake}:/usr/bin:/bin")
    assert result.returncode == 125 and "redis.log" in result.stderr
    assert "broken" in (folder / "state" / "redis.log").read_text()


def test_a_server_that_hangs_is_reported_and_no_second_one_starts(bare, folder):
    assert bare("run", "job", "true").returncode == 0
    pid = int(status(bare)["process"])
    os.kill(pid, signal.SIGSTOP)
    for args in (["status"], ["stop"]):
        result = bare("server", *args)
        assert result.returncode == 125 and "not answer" in result.stderr
    assert servers_in(folder) == [pid]
    os.kill(pid, signal.SIGCONT)
    assert bare("run", "job", "true").returncode == 0
    assert status(bare)["process"] == str(pid)


def test_a_stale_socket_does_not_prevent_a_start(bare):
    assert bare("run", "job", "true").returncode == 0
    os.kill(int(status(bare)["process"]), signal.SIGKILL)
    assert bare("run", "job", "true").returncode == 0


def test_the_server_keeps_nothing_of_its_starter(bare):
    """Its session, descriptors and signals are its own: a pipe of the starter's ends with it."""
    process = subprocess.Popen([BINARY, "run", "job", "echo", "x"], env=bare.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    text, _ = process.communicate(timeout=60)
    assert text == b"x\n"
    pid = int(status(bare)["process"])
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert pid not in children(os.getpid())
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"LOCKKEEPER" not in environment


def test_a_password_for_another_server_does_no_harm(bare, folder):
    secret = folder / "secret"
    secret.write_text("S3cr3t\n")
    for environment in ({"LOCKKEEPER_PASSWORD": "S3cr3t"}, {"LOCKKEEPER_USERNAME": "somebody"},
                        {"LOCKKEEPER_PASSWORD_FILE": str(secret)}):
        result = bare("run", "job", "true", **environment)
        assert result.returncode == 0, result.stderr


def test_a_named_server_wins(bare, server, folder):
    assert bare("run", "job", "true", LOCKKEEPER_URL=server.unix_url).returncode == 0
    assert bare("run", "--url", server.unix_url, "job", "true").returncode == 0
    assert bare("run", "-o", f"url={server.unix_url}", "job", "true").returncode == 0
    assert not (folder / "state").exists()
