"""lockkeeper run --hold-at-least: the lock stays behind a command that ends sooner."""
from __future__ import annotations

import json
import re
import subprocess
import time

import pytest

from command import ROOT, children
from waiting import until

KINDS = [[], ["--fair"], ["--fence"], ["--shared"], ["--exclusive"], ["--plain"]]


@pytest.mark.parametrize("options", KINDS)
def test_the_lock_stays_without_a_process(cli, server, options):
    result = cli("run", *options, "--hold-at-least", "1h", "job", "true")
    assert (result.returncode, result.stderr) == (0, "")
    assert 3_500_000 < server.call("PTTL", "job") <= 3_600_000
    assert server.clients() == []
    rival = ["--exclusive"] if options == ["--shared"] else options
    assert cli("run", "-n", *rival, "job", "true").returncode == 124
    server.call("DEL", "job")


def test_the_time_counts_from_the_grant(cli, server):
    began = time.monotonic()
    assert cli("run", "--hold-at-least", "3", "job", "sleep", "0.5").returncode == 0
    assert cli("run", "-w", "60", "job", "true").returncode == 0
    assert 3 <= time.monotonic() - began
    assert server.call("EXISTS", "job") == 0


def test_a_command_that_ran_longer_frees_it_at_once(cli, server):
    assert cli("run", "--hold-at-least", "0.2", "job", "sleep", "0.5").returncode == 0
    assert server.call("EXISTS", "job") == 0


@pytest.mark.parametrize("script,code", [("exit 3", 3), ("kill -9 $$", 137)])
def test_a_command_that_failed_has_run_too(cli, server, script, code):
    assert cli("run", "--hold-at-least", "1h", "job", "sh", "-c", script).returncode == code
    assert server.call("PTTL", "job") > 3_500_000


def test_a_command_that_was_not_there_keeps_nothing(cli, server):
    assert cli("run", "--hold-at-least", "1h", "job", "no-such-command-here").returncode == 127
    assert server.call("EXISTS", "job") == 0


def test_a_lost_lock_is_not_kept(cli, server):
    process = cli.start("run", "-l", "3", "--hold-at-least", "1h", "job", "sleep", "60")
    until(lambda: server.call("EXISTS", "job"), 20, "it runs")
    server.call("DEL", "job")
    assert process.wait(30) == 123
    assert server.call("EXISTS", "job") == 0


def test_several_locks_are_all_kept(cli, server):
    assert cli("run", "--also", "b", "--hold-at-least", "1h", "a", "true").returncode == 0
    assert min(server.call("PTTL", "a"), server.call("PTTL", "b")) > 3_500_000


def test_a_quorum_keeps_it(cli, make_three):
    servers = make_three()
    urls = ",".join(server.unix_url for server in servers)
    options = ["--url", urls, "--quarantine", "1s", "-l", "1", "-w", "60"]
    first = cli("run", *options, "--hold-at-least", "1h", "job", "true")
    assert first.returncode == 0, first.stderr
    until(lambda: sum(server.call("PTTL", "job") > 3_500_000 for server in servers) >= 2, 10)


def test_show_says_whose_it_was(cli, server):
    recorded = {"LOCKKEEPER_CLIENT_RECORD": "full"}
    assert cli("run", "--hold-at-least", "1h", "job", "true", **recorded).returncode == 0
    shown = cli("show", "job", **recorded)
    assert shown.returncode == 0
    assert "client: kept by true, pid " in shown.stdout
    (holder,) = json.loads(cli("show", "--json", "job", **recorded).stdout)["holders"]
    assert ":kept:" in holder["owner"]
    waiter = cli("run", "-v", "-w", "3", "job", "true", **recorded)
    assert waiter.returncode == 124
    assert "waiting for job: kept by true, pid " in waiter.stderr
    assert cli("break", "--yes", "job").returncode == 0
    assert server.call("EXISTS", "job") == 0


def test_one_that_is_not_confirmed_is_told(cli, server, folder):
    go = folder / "go"
    process = cli.start("run", "-l", "2", "-k", "0.1", "--hold-at-least", "1h", "job", "sh", "-c",
                        f"until [ -e {go} ]; do sleep 0.01; done")
    until(lambda: children(process.pid), 20, "it runs")
    until(lambda: server.call("PTTL", "job") > 1700, 20, "its lease is fresh")
    server.call("CLIENT", "PAUSE", "60000", "WRITE")
    go.touch()
    assert process.wait(30) == 0
    server.call("CLIENT", "UNPAUSE")
    assert "unknown whether job stays locked for " in process.stderr.read()


def test_two_hosts_whose_clocks_differ(cli, server, folder):
    """The second one starts when the job of the first has ended."""
    ran = folder / "ran"
    job = ["run", "-n", "-E", "75", "--hold-at-least", "5", "job", "sh", "-c", f"echo ran >>{ran}"]
    assert cli(*job).returncode == 0
    assert cli(*job).returncode == 75
    assert ran.read_text() == "ran\n"


def test_at_most_once_in_a_while(cli, server, folder):
    """The manual's line for a job that runs at most once an hour."""
    manual = (ROOT / "docs/man/lockkeeper.1").read_text()
    line = re.search(r"^\*/10 \* \* \* \* (.*)$", manual, re.MULTILINE).group(1).replace("\\-", "-")
    (folder / "hourly.sh").write_text("#!/bin/sh\necho ran >>ran\nexit 3\n")
    (folder / "hourly.sh").chmod(0o755)

    def host() -> int:
        return subprocess.run(["sh", "-c", line], cwd=folder, timeout=60, env={
            **cli.environment, "PATH": f"{folder}:{cli.environment['PATH']}"}).returncode
    assert [host(), host(), host()] == [1, 0, 0]  # the job's failure; then it is not its turn
    assert (folder / "ran").read_text() == "ran\n"
    server.call("PEXPIRE", "hourly", "1")  # later
    until(lambda: not server.call("EXISTS", "hourly"), 10)
    assert host() == 1
    assert (folder / "ran").read_text() == "ran\nran\n"


def test_permits_have_none(cli):
    result = cli("run", "--permits", "2", "--hold-at-least", "1", "pool", "true")
    assert result.returncode == 125
    assert "--permits and --hold-at-least exclude each other" in result.stderr


def test_verbose_says_for_how_long_it_stays(cli, make_three):
    servers = make_three({"appendonly": "yes", "appendfsync": "always"})
    for words in ((), ("--url", ",".join(server.unix_url for server in servers))):
        said = cli("run", "-v", "--hold-at-least", "1h", *words, "job", "true")
        assert said.returncode == 0 and "released job" not in said.stderr, said
        ms = int(re.search(r"^lockkeeper: job stays locked for another (\d+) ms$", said.stderr,
                           re.MULTILINE).group(1))
        assert 3_500_000 < ms <= 3_600_000
        assert re.search(r"^lockkeeper: held job for \d+ ms$", said.stderr, re.MULTILINE)


def test_a_release_without_an_answer_says_that_it_may_be_free_too_soon(cli, server):
    """The limit of the release has come, here hurried by a second signal."""
    process = cli.start("run", "-l", "1m", "--hold-at-least", "30m", "job", "sleep", "300")
    until(lambda: children(process.pid) and children(children(process.pid)[0]), 20, "it runs")
    server.pause()
    process.terminate()
    time.sleep(1.5)
    process.terminate()
    assert process.wait(20) == 143
    server.resume()
    said = process.stderr.read()
    assert "unknown whether the lock stays locked as --hold-at-least wants: it may be free" in said
    assert "was released" not in said
