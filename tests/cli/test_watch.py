"""lockkeeper watch: the state of locks, and each change."""
from __future__ import annotations

import json
import os
import signal
import time

import pytest

from test_rights import grant, refusals
from waiting import until


def line(process) -> dict:
    return json.loads(process.stdout.readline())


def test_a_line_for_the_state_and_for_each_change(cli, server):
    process = cli.start("watch", "--json", "job")
    state = line(process)
    assert (state["event"], state["initial"], state["owner"]) == ("state", True, None)
    owner = cli("lock", "-l", "60", "job").stdout.strip()
    change = line(process)
    assert (change["event"], change["initial"], change["name"]) == ("acquired", False, "job")
    assert (change["owner"], change["was"], change["holders"]) == (owner, None, 1)
    cli("unlock", "job", owner)
    change = line(process)
    assert (change["event"], change["owner"], change["was"]) == ("released", None, owner)
    cli("lock", "-l", "60", "job")
    assert line(process)["event"] == "acquired"
    cli("break", "--yes", "job")
    assert line(process)["event"] == "broken"
    server.call("CLIENT", "KILL", "TYPE", "pubsub")
    assert line(process)["event"] == "gap"
    state = line(process)
    assert (state["event"], state["initial"], state["holders"]) == ("state", False, 0)


@pytest.mark.parametrize("wanted, held, code", [
    ("free", False, 0), ("free", True, 124), ("held", True, 0), ("held", False, 124),
    ("change", True, 124)])
def test_until(cli, server, wanted, held, code):
    if held:
        cli("lock", "-l", "60", "job")
    result = cli("watch", "--until", wanted, "-w", "0.5", "job")
    assert result.returncode == code
    words = "held by" if held else "free"
    assert words in result.stdout and "(present state)" in result.stdout
    server.call("FLUSHALL")


@pytest.mark.parametrize("words, missing", [
    ([], "NAME is missing, and so is --prefix"), (["--"], "NAME is missing"),
    (["job", "--"], "COMMAND is missing"), (["--prefix", "p", "--"], "COMMAND is missing")])
def test_what_is_missing_is_named(cli, words, missing):
    result = cli("watch", *words)
    assert (result.returncode, missing in result.stderr) == (125, True)


def test_it_ends_when_nobody_reads(cli, server):
    process = cli.start("watch", "job")
    assert "free" in process.stdout.readline()
    process.stdout.close()
    until(lambda: process.poll() is not None, 10, "it has ended")


def test_a_quorum_is_refused(cli, server):
    url = server.url if hasattr(server, "url") else cli.environment["LOCKKEEPER_URL"]
    result = cli("watch", "--url", ",".join([url] * 3), "job")
    assert result.returncode == 125
    assert result.stderr


def test_the_list_of_rights_is_enough(cli, server, folder):
    secret = folder / "secret"
    secret.write_text("change-me\n")
    user = {"LOCKKEEPER_URL": f"unix://lockkeeper@{server.path}", "LOCKKEEPER_KEY_PREFIX": "app:",
            "LOCKKEEPER_PASSWORD_FILE": str(secret)}
    grant(server, "locks.acl")
    server.call("ACL", "LOG", "RESET")
    process = cli.start("watch", "--json", "job", **user)
    assert line(process)["told"]
    owner = cli("lock", "-l", "60", "job", **user).stdout.strip()
    assert line(process)["event"] == "acquired"
    cli("unlock", "job", owner, **user)
    assert line(process)["event"] == "released"
    assert refusals(server) == []


def test_who_may_not_track_asks(cli, server):
    server.call("ACL", "SETUSER", "plain", "on", "nopass", "~*", "&*", "+@all", "-client|tracking")
    url = f"unix://plain:any@{server.path}"
    process = cli.start("watch", "--json", "job", LOCKKEEPER_URL=url)
    assert not line(process)["told"]
    cli("lock", "-l", "60", "job")
    change = line(process)
    assert (change["event"], change["told"]) == ("acquired", False)


def told(path) -> list[str]:
    """The lines that were written whole."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def test_a_command_is_run_for_each_change(cli, server, tmp_path):
    out = tmp_path / "out"
    script = (f'printf "%s %s %s %s " "$LOCKKEEPER_EVENT" "$LOCKKEEPER_NAME" "$LOCKKEEPER_MERGED" '
              f'"${{LOCKKEEPER_OWNER-none}}" >>{out}; cat >>{out}')
    process = cli.start("watch", "job", "--", "sh", "-c", script, LOCKKEEPER_FENCE="7")
    until(lambda: len(told(out)) == 1, 10, "the state is told")
    owner = cli("lock", "-l", "60", "job").stdout.strip()
    until(lambda: len(told(out)) == 2, 10, "the grant is told")
    cli("unlock", "job", owner)
    until(lambda: len(told(out)) == 3, 10, "the release is told")
    words = [line.split(" ", 4) for line in told(out)]
    assert [word[:4] for word in words] == [
        ["state", "job", "1", "none"], ["acquired", "job", "1", owner],
        ["released", "job", "1", "none"]]
    objects = [json.loads(word[4]) for word in words]
    assert [one["event"] for one in objects] == ["state", "acquired", "released"]
    assert objects[2]["was"] == owner and objects[2]["merged"] == 1 and not objects[2]["gap"]
    process.terminate()
    assert process.wait(10) == -signal.SIGTERM


def test_what_comes_while_it_runs_is_one_change(cli, server, tmp_path):
    out, began = tmp_path / "out", tmp_path / "began"
    script = (f'echo "$LOCKKEEPER_EVENT $LOCKKEEPER_NAME $LOCKKEEPER_MERGED ${{LOCKKEEPER_GAP-0}}" '
              f'>>{out}; : >{began}; '
              f'until [ -e {tmp_path}/$LOCKKEEPER_NAME$LOCKKEEPER_MERGED ]; do sleep 0.05; done')
    process = cli.start("watch", "--json", "a", "b", "--", "sh", "-c", script)
    first, second = [line(process)["name"] for _ in range(2)]
    until(began.exists, 10, "it runs")
    cli("lock", "-l", "60", first)
    assert line(process)["event"] == "acquired"
    cli("break", "--yes", first)
    assert line(process)["event"] == "broken"
    server.call("CLIENT", "KILL", "TYPE", "pubsub")
    events = [line(process)["event"] for _ in range(4)]
    assert sorted(events) == ["gap", "gap", "state", "state"]
    assert told(out) == [f"state {first} 1 0"]
    for one in (f"{first}1", f"{second}3", f"{first}4"):
        (tmp_path / one).touch()
    until(lambda: len(told(out)) == 3, 10, "all are told")
    assert told(out)[1:] == [f"state {second} 3 1", f"state {first} 4 1"]
    process.terminate()
    process.wait(10)


def test_the_present_state_can_be_left_out(cli, server):
    cli("lock", "-l", "60", "job")
    result = cli("watch", "--no-initial", "--until", "held", "-w", "10", "job")
    assert (result.returncode, result.stdout) == (0, "")
    server.call("FLUSHALL")


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_once_ends_as_the_command(cli, server, script, code):
    process = cli.start("watch", "--once", "--json", "job", "--", "sh", "-c", script)
    line(process)
    cli("lock", "-l", "60", "job")
    assert process.wait(10) == code
    server.call("FLUSHALL")


def test_a_command_that_cannot_be_executed(cli, server, tmp_path):
    result = cli("watch", "job", "--", str(tmp_path / "none"))
    assert result.returncode == 127 and "none" in result.stderr
    result = cli("watch", "job", "--", str(tmp_path))
    assert result.returncode == 126


@pytest.mark.parametrize("words", [["--"], ["--", "cat"], ["job", "--"], ["--", "--", "cat"]])
def test_names_and_a_command(cli, server, words):
    result = cli("watch", "-w", "0.3", *words)
    assert result.returncode == (124 if words == ["--", "cat"] else 125)
    result = cli("watch", "-w", "0.3", "--", "-job", "--", "cat")
    assert result.returncode == 124 and json.loads(result.stdout)["name"] == "-job"


def test_what_does_not_end_is_killed_with_the_watch(cli, server, tmp_path):
    began = tmp_path / "began"
    script = (f'trap "" INT TERM; echo $$ >{began}.new; mv {began}.new {began}; '
              'while :; do sleep 0.1; done')
    process = cli.start("watch", "job", "--", "sh", "-c", script)
    until(began.exists, 10, "it runs")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    pid = int(began.read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, "it was killed")


def test_who_waits_asks_nothing_meanwhile(cli, server):
    def commands_in_a_second() -> int:
        before = int(server.info("total_commands_processed"))
        time.sleep(1)
        return int(server.info("total_commands_processed")) - before

    owner = cli("lock", "-l", "60", "job").stdout.strip()
    process = cli.start("wait", "job")
    until(lambda: server.info("tracking_clients") != "0", 10, "it is told")
    until(lambda: commands_in_a_second() <= 5, 20, "it asks nothing")
    assert process.poll() is None
    cli("unlock", "job", owner)
    assert process.wait(10) == 0


def test_names_that_begin_so_come_and_go(cli, server):
    cli("lock", "-l", "60", "job-1")
    cli("lock", "-l", "60", "other")
    cli("lock", "-l", "60", "job[x]")
    process = cli.start("watch", "--json", "--prefix", "job-", "--prefix", "job[")
    states = [line(process) for _ in range(2)]
    assert sorted(one["name"] for one in states) == ["job-1", "job[x]"]
    assert all(one["event"] == "state" and one["initial"] and one["holders"] for one in states)
    cli("lock", "-l", "60", "another")
    cli("lock", "-l", "60", "job-2")
    state = line(process)
    assert (state["event"], state["name"], state["holders"]) == ("state", "job-2", 1)
    cli("break", "--yes", "job-2")
    assert (line(process)["event"]) == "broken"
    cli("lock", "-l", "60", "job-2")
    assert (line(process)["event"]) == "acquired"
    server.call("FLUSHALL")
    assert sorted(line(process)["event"] for _ in range(3)) == ["lost"] * 3


def test_once_is_the_first_that_comes(cli, server):
    cli("lock", "-l", "60", "job-1")
    process = cli.start("watch", "--no-initial", "--once", "--prefix", "job-", "--", "printenv",
                        "LOCKKEEPER_NAME")
    until(lambda: server.info("tracking_clients") != "0", 10, "it is told")
    cli("lock", "-l", "60", "job-2")
    assert process.wait(20) == 0 and process.stdout.read() == "job-2\n"
    server.call("FLUSHALL")


def test_no_name_at_all(cli, server):
    assert cli("watch").returncode == 125
    assert cli("watch", "--json").returncode == 125
    assert cli("watch", "--prefix", "job-", "-w", "0.2").returncode == 124
