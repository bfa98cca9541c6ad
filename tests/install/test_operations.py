"""examples/operations: each file does what it says, with the installed copy."""
from __future__ import annotations

import contextlib
import http.server
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from conftest import ROOT, run, until
from test_readme import ran, shell

FOLDER = ROOT / "examples" / "operations"
STUBS = ("report.sh", "flush.sh", "backup.sh", "migrate.sh", "import.sh", "worker.sh")


@pytest.fixture
def place(tmp_path):
    for name in STUBS:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {name} >>ran\n")
        path.chmod(0o755)
    return tmp_path


def hold(server, name):
    server.ask("HSET", name, "other:1", "1")
    server.ask("PEXPIRE", name, "60000")


def test_the_page_names_each_file():
    page = (FOLDER / "README.md").read_text()
    named = set(re.findall(r"\]\(([\w.]+)\)", page))
    assert named == {path.name for path in FOLDER.iterdir()} - {"README.md"}


def cron_lines() -> list[str]:
    lines = (FOLDER / "crontab").read_text().splitlines()
    return [re.sub(r"^(\S+\s+){5}", "", line) for line in lines if line[:1] in "0123456789*"]


def test_cron_runs_the_job_once(place, environment, server):
    report, flush = cron_lines()
    shell(place, environment, report)
    shell(place, environment, flush)
    assert ran(place) == ["report.sh", "flush.sh"]
    hold(server, "nightly-report")
    shell(place, environment, report)  # status 0, and nothing ran
    assert ran(place) == ["report.sh", "flush.sh"]


@pytest.mark.parametrize("line", [lambda: cron_lines()[0],
                                  lambda: unit_value("backup.service", "ExecStart")
                                  .replace("-w 10m", "-n")])
def test_a_quick_job_runs_on_one_of_two_hosts(place, environment, line):
    """The second one's clock is behind."""
    shell(place, environment, line())
    shell(place, environment, f"{line()} || [ $? = 75 ]")
    assert len(ran(place)) == 1


def test_cron_finds_the_command():
    """Where `make install` puts it by itself."""
    path = re.search(r"^PATH=(.*)$", (FOLDER / "crontab").read_text(), re.MULTILINE).group(1)
    assert {"/usr/local/bin", "/usr/bin", "/bin"} <= set(path.split(":"))
    lines = (ROOT / "docs/man/lockkeeper.1").read_text()
    assert f"\nPATH={path}\n" in lines


def commands_with_a_limit() -> list[str]:
    manual = (ROOT / "docs/man/lockkeeper.1").read_text()
    (line,) = re.findall(r"^0 3 \* \* \* (.*)$", manual, re.MULTILINE)
    return [cron_lines()[0], line.replace(r"\-", "-")]


@pytest.mark.parametrize("line", commands_with_a_limit())
def test_a_job_that_timeout_ended_is_not_taken_for_a_held_lock(place, environment, line):
    for name in ("report.sh", "nightly.sh"):
        (place / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (place / name).chmod(0o755)
    quick = re.sub(r"timeout \w+", "timeout 0.2", line)
    assert quick != line
    done = run("sh", "-c", quick, cwd=place, check=False,
               env={**environment, "PATH": f"{place}:{environment['PATH']}"})
    assert done.returncode != 0


def test_the_service_takes_a_job_that_timeout_ended_for_a_failure():
    line = unit_value("backup.service", "ExecStart")
    assert "timeout " in line
    assert "124" not in unit_value("backup.service", "SuccessExitStatus").split()


PAGES = ("docs/deployments.md", "docs/man/lockkeeper.1", "examples/operations/crontab",
         "examples/operations/backup.service")


@pytest.mark.parametrize("page", PAGES)
def test_the_urls_of_a_quorum_are_whole(page):
    text = (ROOT / page).read_text()
    lists = re.findall(r"LOCKKEEPER_URL=(redis://[\w.]+(?:,[\w:/.]+)+)$", text, re.MULTILINE)
    assert lists
    for listed in lists:
        urls = listed.split(",")
        assert len(urls) >= 3 and all(re.fullmatch(r"redis://[\w.]+", url) for url in urls)


def unit_value(name: str, key: str) -> str:
    text = (FOLDER / name).read_text()
    return re.search(rf"^{key}=(.*)$", text, re.MULTILINE).group(1)


def test_the_log_hears_of_holds_that_were_not_released(place, environment, server):
    (place / "logger").write_text(f'#!/bin/sh\necho "$3" >>{place}/log\n')
    (place / "logger").chmod(0o755)
    hold(server, "job:1")
    own = {**environment, "PATH": f"{place}:{environment['PATH']}"}
    with subprocess.Popen([FOLDER / "ends.sh", "job:"], env=own) as process:
        until("it looks", lambda: "tracking_total_keys:1" in server.ask("INFO", "stats"))
        run("lockkeeper", "break", "--yes", "job:1", env=own)
        until("it is written", lambda: (place / "log").exists() and (place / "log").read_text())
        assert (place / "log").read_text().startswith("job:1: broken")
        process.terminate()


def test_the_leader_serves(place, environment, server):
    line = unit_value("leader.service", "ExecStart")
    line = line.replace("%H", "host").replace("/run/shop-leader", str(place))
    (place / "leader.sh").write_text('#!/bin/sh\n'
                                     'echo "$LOCKKEEPER_ELECTION" >>ran\nexec sleep 60\n')
    (place / "leader.sh").chmod(0o755)
    with subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=place,
                          env={**environment, "PATH": f"{place}:{environment['PATH']}"}) as process:
        until("it leads", lambda: (place / "ran").exists() and ran(place) == ["shop"])
        until("it says that it is there", (place / "ready").exists)
        shell(place, environment, f"lockkeeper elect --check --ready-file {place}/ready")
        process.terminate()
    assert process.returncode == 128 + 15 and not (place / "ready").exists()


def test_a_replica_that_is_to_end_hands_over(place, environment, server):
    text = (FOLDER / "leader.yaml").read_text().replace('"', "")
    words, _, drain = re.findall(r"\bcommand: \[([^]]*)\]", text)
    line = shlex.join(re.split(r",\s+", words))
    (place / "leader.sh").write_text('#!/bin/sh\necho $HOST >>ran\nexec sleep 60\n')
    (place / "leader.sh").chmod(0o755)
    with contextlib.ExitStack() as ends:
        def start(host):
            own = line.replace("$(POD_IP)", host).replace("/tmp/", f"{place}/{host}-")
            process = subprocess.Popen(["sh", "-c", f"exec {own}"], cwd=place, env={
                **environment, "HOST": host, "PATH": f"{place}:{environment['PATH']}"})
            ends.callback(process.terminate)
            until(f"{host} is ready", (place / f"{host}-ready").exists)
            return process

        one = start("one")
        until("it leads", lambda: (place / "ran").exists() and ran(place) == ["one"])
        two = start("two")
        command = drain.removeprefix("sh, -c, ").replace(" 1;", f" {one.pid};")
        waits = subprocess.Popen(["sh", "-c", command], start_new_session=True)
        ends.callback(os.killpg, waits.pid, signal.SIGTERM)
        until("the other leads", lambda: ran(place) == ["one", "two"])
        assert one.wait() == 128 + 15
        two.terminate()
        assert two.wait() == 128 + 15


def test_the_service_runs_the_job_and_counts_a_held_lock_as_success(place, environment, server):
    line = unit_value("backup.service", "ExecStart")
    shell(place, environment, line)
    assert ran(place) == ["backup.sh"]
    hold(server, "backup")
    at_once = line.replace("-w 10m", "-n")
    assert at_once != line
    result = run("sh", "-c", at_once, cwd=place, env=environment, check=False)
    assert str(result.returncode) in unit_value("backup.service", "SuccessExitStatus").split()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_the_units_are_valid(tmp_path, environment):
    for name in ("backup.service", "backup.timer", "worker.service"):
        text = (FOLDER / name).read_text()
        binary = shutil.which("lockkeeper", path=environment["PATH"])
        (tmp_path / name).write_text(text.replace("ExecStart=lockkeeper", f"ExecStart={binary}"))
    result = run("systemd-analyze", "verify", "--man=no", tmp_path / "backup.timer",
                 tmp_path / "worker.service", check=False,
                 env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
    assert "backup" not in result.stderr and "worker" not in result.stderr


WORKER = """#!/bin/sh
[ "$WATCHDOG_PID" = $$ ] && echo worker.sh >>ran
exec systemd-notify --no-block --ready
"""


@pytest.mark.skipif(not shutil.which("systemd-notify"), reason="systemd-notify is missing")
def test_the_worker_tells_systemd_itself(place, environment, server):
    (place / "worker.sh").write_text(WORKER)
    (place / "worker.sh").chmod(0o755)
    assert unit_value("worker.service", "Type") == "notify"
    assert unit_value("worker.service", "NotifyAccess") == "all"
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(place / "notify"))
    told.settimeout(20)
    line = unit_value("worker.service", "ExecStart")
    shell(place, {**environment, "NOTIFY_SOCKET": str(place / "notify"), "WATCHDOG_USEC": "9"},
          f"WATCHDOG_PID=$$; export WATCHDOG_PID; exec {line}")
    assert ran(place) == ["worker.sh"]
    assert b"READY=1" in told.recv(4096)
    told.close()


def test_the_target_runs_under_the_lock(place, environment):
    shutil.copy(FOLDER / "Makefile", place)
    shell(place, environment, "make deploy")
    assert ran(place) == ["migrate.sh"]


def test_the_kubernetes_job_runs_its_command(place, environment):
    text = (FOLDER / "job.yaml").read_text()
    (words,) = re.findall(r"^ +command: \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    shell(place, environment, shlex.join(re.split(r",\s+", words)))
    assert ran(place) == ["migrate.sh"]


def cronjob_words() -> list[str]:
    text = (FOLDER / "cronjob.yaml").read_text()
    (words,) = re.findall(r"^ +command: \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    return re.split(r",\s+", words)


def test_two_replicas_make_one_report(place, environment):
    """However quick it is, and both end with success."""
    line = shlex.join(cronjob_words()).replace("90s", "1s")
    for _ in range(2):
        shell(place, environment, line)
    assert ran(place) == ["report.sh"]


def test_the_replica_that_waits_outlasts_a_lease():
    words = cronjob_words()
    assert words[words.index("--wait") + 1] == "90s" and "--lease" not in words  # 30 s by default
    page = (FOLDER / "README.md").read_text()
    assert "takes over from a node that fails within 90 s" in page, "then it has ended"


def test_a_closed_terminal_ends_the_remote_job(place, environment, server):
    """`ssh -t` gives the command a terminal and makes it the session's leader; so does this."""
    (place / "import.sh").write_text("#!/bin/sh\necho began >>ran\nexec sleep 60\n")
    text = (FOLDER / "remote.sh").read_text()
    (command,) = re.findall(r'ssh -t "\$1" (.*)$', text, re.MULTILINE)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(place)
        words = shlex.split(command)
        path = f"{place}:{environment['PATH']}"
        os.execvpe(words[0], words, {**environment, "PATH": path})
    until("the job runs", (place / "ran").exists)
    assert server.ask("EXISTS", "import") == "1"
    os.close(fd)
    until("the lock is free", lambda: server.ask("EXISTS", "import") == "0")
    os.waitpid(pid, 0)


def test_the_remote_script_calls_ssh(place, environment):
    (place / "ssh").write_text('#!/bin/sh\necho "$@" >>ran\n')
    (place / "ssh").chmod(0o755)
    run(FOLDER / "remote.sh", "host1", cwd=place,
        env={**environment, "PATH": f"{place}:{environment['PATH']}"})
    assert ran(place) == ["-t host1 lockkeeper run import -- import.sh"]
    assert subprocess.run(["sh", "-n", FOLDER / "remote.sh"]).returncode == 0


@pytest.fixture
def monitor():
    """A server that keeps what it is asked: (method, path, body); it answers `status`."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            made.asked.append((self.command, self.path, body))
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer

        def log_message(self, *words):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.status = [], 200
    made.url = f"http://127.0.0.1:{made.server_address[1]}/check"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def hooked(name: str) -> str:
    """The line of `lockkeeper run` in the file's comment."""
    (line,) = re.findall(r"^# +(lockkeeper run .*)$", (FOLDER / name).read_text(), re.MULTILINE)
    line = line.replace(f"=./{name}", f"={FOLDER / name}")
    return line.replace("nightly.sh", "./report.sh")


def pings(monitor):
    """The path behind the check's own, and the id of the run, of each."""
    found = [re.fullmatch(r"/check(/\w+)\?rid=([0-9a-f-]{36})", path).groups()
             for _, path, _ in monitor.asked]
    assert len({run_id for _, run_id in found}) == 1
    return [signal for signal, _ in found]


@pytest.mark.parametrize("status", [0, 3])
def test_a_monitor_hears_of_the_start_and_the_end(place, environment, monitor, status):
    (place / "report.sh").write_text(f"#!/bin/sh\nexit {status}\n")
    done = run("sh", "-c", hooked("healthchecks.sh"), cwd=place, check=False,
               env={**environment, "HEALTHCHECKS_URL": monitor.url})
    assert done.returncode == status
    assert pings(monitor) == ["/start", f"/{status}"]


def test_a_monitor_hears_of_a_skip_and_takes_it_for_neither(place, environment, server, monitor):
    hold(server, "nightly")
    done = run("sh", "-c", hooked("healthchecks.sh"), cwd=place, check=False,
               env={**environment, "HEALTHCHECKS_URL": monitor.url})
    assert done.returncode == 124
    assert pings(monitor) == ["/log"]
    assert monitor.asked[0][2].startswith("skip nightly: waited")


def test_a_monitor_hears_that_there_is_no_server(place, environment, monitor):
    run("sh", "-c", hooked("healthchecks.sh"), cwd=place, check=False,
        env={**environment, "HEALTHCHECKS_URL": monitor.url,
             "LOCKKEEPER_URL": "redis://127.0.0.1:1"})
    assert pings(monitor) == ["/fail"]


def test_a_monitor_that_fails_fails_no_job(place, environment, monitor):
    monitor.status = 404
    done = run("sh", "-c", hooked("healthchecks.sh"), cwd=place, check=False,
               env={**environment, "HEALTHCHECKS_URL": monitor.url})
    assert done.returncode == 0 and ran(place) == ["report.sh"]
    assert "hook 1 (end) failed: exit status 22" in done.stderr and monitor.url not in done.stderr


def test_a_dead_mans_switch_hears_of_success_alone(place, environment, monitor):
    for status in (1, 0):
        (place / "report.sh").write_text(f"#!/bin/sh\nexit {status}\n")
        run("sh", "-c", hooked("heartbeat.sh"), cwd=place, check=False,
            env={**environment, "HEARTBEAT_URL": monitor.url})
    assert monitor.asked == [("GET", "/check", "")]
