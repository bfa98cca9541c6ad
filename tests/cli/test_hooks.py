"""lockkeeper run --on EVENT=COMMAND, and run --json: what is told of a run."""
from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from command import Tree, guard_of
from test_run import hold
from waiting import until

EVENTS = ("start", "skip", "timeout", "risk", "lost", "ask", "end", "error")
LIMIT = 10  # seconds that a hook has
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Told:
    """A hook for every event, which keeps its environment in a file of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.hook = f'env -0 >{folder}/new.$$; mv {folder}/new.$$ {folder}/told.$(date +%s%N)'
        self.options = ["--on", f"{','.join(EVENTS)}={self.hook}"]

    def all(self) -> list[dict[str, str]]:
        found = []
        for path in sorted(self.folder.glob("told.*")):
            pairs = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")
            made = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            found.append({name.removeprefix("LOCKKEEPER_"): value
                          for name, value in made.items() if name.startswith("LOCKKEEPER_")})
        return found

    def events(self) -> list[str]:
        return [told["EVENT"] for told in self.all()]


@pytest.fixture
def told(tmp_path):
    return Told(tmp_path)


def last_line(result) -> dict:
    return json.loads(result.stderr.splitlines()[-1])


# ---- which event, and what stands in it ----

@pytest.mark.parametrize("status", [0, 3])
def test_start_and_end(cli, told, tmp_path, status):
    result = cli("run", "--json", *told.options, "job", "sh", "-c",
                 f'echo "$LOCKKEEPER_RUN" >{tmp_path}/run; sleep 0.3; exit {status}')
    assert result.returncode == status
    start, end = told.all()
    assert (start["EVENT"], end["EVENT"]) == ("start", "end")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                        start["RUN"])
    assert start["RUN"] == end["RUN"] == (tmp_path / "run").read_text().strip()
    assert start["NAME"] == end["NAME"] == "job"
    assert start["OWNER"] == end["OWNER"] and ":" in end["OWNER"]
    assert "STATUS" not in start and end["STATUS"] == str(status)
    assert float(start["HELD"]) < float(end["HELD"]) >= 0.3
    assert start["WAITED"] == end["WAITED"]
    found = last_line(result)
    assert (found["event"], found["run"], found["name"], found["status"], found["lost"]) == \
        ("end", end["RUN"], "job", status, False)
    assert found["owner"] == end["OWNER"] and found["holder"] is found["trace_id"] is None
    assert found["held_ms"] == round(float(end["HELD"]) * 1000)
    assert found["waited_ms"] == round(float(end["WAITED"]) * 1000)


def test_the_token_of_a_fenced_lock(cli, told):
    result = cli("run", "--fence", "--json", *told.options, "job", "true")
    assert {line["FENCE"] for line in told.all()} == {str(last_line(result)["fence"])}


@pytest.mark.parametrize("options, event", [(["-n"], "skip"), (["-w", "0"], "skip"),
                                            (["-w", "0.3"], "timeout")])
def test_who_has_it_instead(cli, told, options, event):
    holder = cli.start("run", "job", "sleep", "60", LOCKKEEPER_CLIENT_RECORD="full")
    until(lambda: cli("show", "job").returncode == 0, 10, "it is held")
    result = cli("run", *options, "--json", *told.options, "job", "true")
    assert result.returncode == 124
    (line,) = told.all()
    assert (line["EVENT"], line["STATUS"]) == (event, "124")
    assert line["HOLDER"].startswith("sleep, pid ") and os.uname().nodename in line["HOLDER"]
    assert "HELD" not in line and "OWNER" not in line
    found = last_line(result)
    assert (found["event"], found["holder"]) == (event, line["HOLDER"])
    assert found["owner"] is found["held_ms"] is None
    if event == "timeout":
        assert found["waited_ms"] >= 300
    holder.terminate()
    assert holder.wait(30) == 143


def test_a_skip_costs_nobody_anything_without_them(cli, server):
    """With -q, who holds it is asked for hooks and --json alone."""
    hold(server, "job")
    cli("run", "-n", "job", "true")

    def asked(*options):
        server.call("CONFIG", "RESETSTAT")
        cli("run", "-n", "-q", *options, "job", "true")
        text = server.call("INFO", "commandstats").decode()
        return {line.split(":")[0] for line in text.splitlines() if line.startswith("cmdstat_")}
    assert "cmdstat_type" in asked("--json")
    assert "cmdstat_type" not in asked("--on", "end=true")


@pytest.mark.parametrize("words, status", [(["no-such-command"], 127), (["/etc/passwd"], 126)])
def test_what_cannot_be_executed_is_an_error(cli, told, words, status):
    result = cli("run", "--json", *told.options, "job", *words)
    assert result.returncode == status
    (line,) = told.all()
    assert (line["EVENT"], line["STATUS"]) == ("error", str(status))
    assert (last_line(result)["event"], last_line(result)["level"]) == ("error", "error")


def test_no_server_is_an_error_and_no_skip(cli, told):
    result = cli("run", "--json", *told.options, "job", "true",
                 LOCKKEEPER_URL="redis://127.0.0.1:1")
    assert result.returncode == last_line(result)["status"] == 125
    assert told.events() == ["error"]


def test_a_wait_that_a_signal_ended_is_an_error(cli, server, told):
    hold(server, "job")
    process = cli.start("run", *told.options, "job", "true")
    time.sleep(0.5)  # whenever it comes, the outcome is the same
    process.terminate()
    assert process.wait(30) == 143
    (line,) = told.all()
    assert (line["EVENT"], line["STATUS"]) == ("error", "143")


def test_a_lost_lock(cli, server, told):
    process = cli.start("run", "-l", "3", "--json", *told.options, "job", "sleep", "60")
    until(lambda: told.events() == ["start"], 20, "it runs")
    server.call("DEL", "job")
    assert process.wait(30) == 123
    assert told.events() == ["start", "lost", "end"]
    assert told.all()[2]["STATUS"] == "123"
    found = json.loads(process.stderr.read().splitlines()[-1])
    assert (found["event"], found["lost"], found["level"]) == ("end", True, "error")


def test_a_lease_that_cannot_be_renewed(cli, server, told):
    process = cli.start("run", "-l", "3", *told.options, "job", "sleep", "60")
    until(lambda: told.events() == ["start"], 20, "it runs")
    server.pause()
    try:
        assert process.wait(30) == 123
    finally:
        server.resume()
    assert set(told.events()[1:-1]) == {"risk", "lost"} and told.events()[-1] == "end"


def test_an_exit_status_of_123_is_not_a_loss(cli, told):
    result = cli("run", "--json", *told.options, "job", "sh", "-c", "exit 123")
    assert result.returncode == 123
    assert told.events() == ["start", "end"] and last_line(result)["lost"] is False


def test_nothing_of_a_run_further_out(cli, told, server):
    """A hook of the inner run sees what is the inner run's."""
    hold(server, "inner")
    cli("run", "--fence", "outer", "sh", "-c", 'lockkeeper run -n "$@"', "sh", *told.options,
        "inner", "true")
    (line,) = told.all()
    assert line["EVENT"] == "skip" and line["NAME"] == "inner"
    assert not {"OWNER", "FENCE", "HELD", "DEADLINE_MS"} & set(line)


@pytest.mark.parametrize("name", [b"a\"\n\xff\\", "é", "x" * 20000, "$(touch pwned) `id`"])
def test_any_name(cli, told, tmp_path, name):
    result = cli("run", "--json", *told.options, name, "true")
    assert result.returncode == 0
    text = os.fsdecode(name)
    assert {line["NAME"] for line in told.all()} == {text}
    found = last_line(result)["name"]
    assert found == ('a"\\x0a\\xff\\' if isinstance(name, bytes) else name)


def test_secrets_are_not_in_a_hooks_environment(cli, server, told):
    server.call("ACL", "SETUSER", "ann", "on", ">geheim", "~*", "&*", "+@all")
    cli("run", *told.options, "job", "true",
        LOCKKEEPER_PASSWORD="geheim", LOCKKEEPER_USERNAME="ann")
    assert told.events() == ["start", "end"]
    assert not any("geheim" in value for line in told.all() for value in line.values())


# ---- traces ----

def test_the_context_of_a_trace_reaches_the_command_unchanged(cli, told):
    context = {"TRACEPARENT": TRACE, "TRACESTATE": "a=1,b@c=x y", "BAGGAGE": "k=v%20w;p,é=1"}
    result = cli("run", "--json", *told.options, "job", "sh", "-c",
                 'printf "%s|%s|%s" "$TRACEPARENT" "$TRACESTATE" "$BAGGAGE"', **context)
    assert result.stdout == "|".join(context.values())
    assert {line["TRACE_ID"] for line in told.all()} == {TRACE[3:35]}
    found = last_line(result)
    assert (found["trace_id"], found["traceparent"]) == (TRACE[3:35], TRACE)


@pytest.mark.parametrize("value", ["", "x", TRACE[:-1], TRACE + "0", TRACE.upper(),
                                   "ff" + TRACE[2:], TRACE + "-more", TRACE.replace("-", "_"),
                                   f"00-{'0' * 32}-b7ad6b7169203331-01", "\xff" * 55])
def test_what_is_not_of_that_form_has_no_id(cli, told, value):
    result = cli("run", "--json", *told.options, "job", "sh", "-c", 'printf %s "$TRACEPARENT"',
                 TRACEPARENT=value)
    assert result.stdout == value  # the command's own affair
    assert last_line(result)["trace_id"] is None
    assert not any("TRACE_ID" in line for line in told.all())


def test_a_later_version_may_be_longer(cli):
    result = cli("run", "--json", "job", "true", TRACEPARENT="01" + TRACE[2:] + "-more")
    assert last_line(result)["trace_id"] == TRACE[3:35]


# ---- hooks that behave badly ----

@pytest.mark.parametrize("hook, what", [
    ("exit 5", "failed: exit status 5"),
    ("no-such-program", "failed: exit status 127"),
    ("kill -9 $$", "died of signal 9"),
    ("(", "failed: exit status 2"),
])
def test_a_failure_is_a_warning(cli, hook, what):
    result = cli("run", "--log-format", "json", "--on", f"start={hook}", "job", "sh", "-c",
                 "echo ran; exit 4")
    assert (result.returncode, result.stdout) == (4, "ran\n")
    found = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    (line,) = [line for line in found if "hook" in line["message"]]
    assert line["message"] == f"hook 1 (start) {what}" and line["level"] == "warning"


def test_what_a_hook_prints_and_reads(cli):
    """Its output stays out of the command's, whose input stays whole."""
    result = cli("run", "--on", "start=echo out; cat; echo err >&2; ls /proc/self/fd >&2",
                 "job", "cat", input="for the command\n")
    assert result.stdout == "for the command\n"
    assert result.stderr.split() == ["out", "err", "0", "1", "2", "3"]  # 3 is the folder


def test_a_hook_that_writes_much(cli):
    result = cli("run", "--json", "--on", "start=head -c 50000000 /dev/zero", "job", "sh", "-c",
                 "exit 6")
    assert (result.returncode, result.stdout) == (6, "")
    assert result.stderr.count("\0") == 50_000_000
    assert json.loads(result.stderr.split("\0")[-1])["status"] == 6


@pytest.mark.slow
def test_a_hook_that_writes_and_nobody_reads(cli, server):
    """It is killed at its limit, and holds up neither the release nor the end."""
    process = cli.start("run", "--on", "start=yes", "job", "sh", "-c", "exit 6")
    until(lambda: int(server.info("total_commands_processed")) and not server.call("EXISTS", "job")
          and process.poll() is None, LIMIT / 2, "the lock is released, and the hook writes on")
    assert process.wait(3 * LIMIT) == 6


def test_several_hooks_of_one_event(cli, tmp_path):
    """A hundred, beside one another: each waits for the last."""
    options = []
    for number in range(100):
        options += ["--on", f"start=touch {tmp_path}/{number}; until [ -e {tmp_path}/99 ]; "
                            "do sleep 0.1; done"]
    began = time.monotonic()
    result = cli("run", *options, "job", "true")
    assert (result.returncode, result.stderr) == (0, "")
    assert len(os.listdir(tmp_path)) == 100
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_a_hook_is_killed_at_its_limit_with_all_that_it_started(cli, server, tmp_path):
    """It holds up neither renewals, nor the release, nor the hooks of other events."""
    tree = Tree()
    hook = f"{tree.mark}; export LK_TEST_TREE; trap '' TERM INT HUP; sleep 99 & " \
           "(setsid sleep 99 &) ; setsid sleep 99 & while :; do sleep 99; done"
    began = time.monotonic()
    process = cli.start("run", "-l", "2", "--json", "--on", f"start={hook}", "--on",
                        f"end={hook}", "--on", f"end=date +%s.%N >{tmp_path}/end", "job",
                        "sh", "-c", "sleep 3; exit 6")
    tree.await_size(4)
    until(lambda: server.call("EXISTS", "job") == 0, 20, "the lock is released")
    assert 3 <= time.monotonic() - began < LIMIT
    assert process.wait(60) == 6
    assert time.monotonic() - began < 3 + 2 * LIMIT + 5
    assert tree.pids() == []
    text = process.stderr.read()
    assert text.count("was killed: it ran for more than 10 s") == 2
    assert json.loads(text.splitlines()[-1])["held_ms"] < 1000 * LIMIT
    assert (tmp_path / "end").exists()


def test_what_a_hook_leaves_in_its_group_is_waited_for(cli, tmp_path):
    result = cli("run", "--on", f"end=(sleep 0.5; touch {tmp_path}/done) &", "job", "true")
    assert result.returncode == 0 and (tmp_path / "done").exists()


def test_the_end_is_told_behind_the_start(cli, told):
    """However slow the first one is; the lock does not wait."""
    result = cli("run", "--json", "--on", f"start=sleep 4; {told.hook}", "--on",
                 f"end={told.hook}", "job", "true")
    assert told.events() == ["start", "end"]
    assert last_line(result)["held_ms"] < 4000


def test_the_lock_is_lost_while_a_hook_runs(cli, server, told, tmp_path):
    process = cli.start("run", "-l", "3", "--on",
                        f"start=touch {tmp_path}/in; until [ -e {tmp_path}/out ]; do sleep 0.1; "
                        "done", *told.options, "job", "sleep", "60")
    until((tmp_path / "in").exists, 20, "the hook runs")
    server.call("DEL", "job")
    until(lambda: "lost" in told.events(), 20, "the loss is told beside it")
    (tmp_path / "out").touch()
    assert process.wait(30) == 123
    assert told.events() == ["start", "lost", "end"]


def test_a_signal_while_a_hook_runs_is_the_commands(cli, told, tmp_path):
    process = cli.start("run", "--on", f"start=touch {tmp_path}/in; sleep 1; touch {tmp_path}/out",
                        *told.options, "job", "sleep", "60")
    until((tmp_path / "in").exists, 20, "the hook runs")
    process.terminate()
    assert process.wait(30) == 143
    assert (tmp_path / "out").exists() and told.events() == ["start", "end"]


def test_a_late_signal_ends_the_wait_for_hooks_and_not_the_hooks(cli, server, tmp_path):
    process = cli.start("run", "--json", "--on",
                        f"end=touch {tmp_path}/in; sleep 8; touch {tmp_path}/out", "job", "sh",
                        "-c", "exit 7")
    until((tmp_path / "in").exists, 20, "the hook runs")
    time.sleep(1.2)  # those of the first second belong to what ended the command
    process.terminate()
    assert process.wait(30) == 7
    assert not (tmp_path / "out").exists()
    until((tmp_path / "out").exists, 20, "the hook ends")
    assert json.loads(process.stderr.readline())["event"] == "end"


def test_a_killed_keeper_is_an_error(cli, server, told):
    process = cli.start("run", "-l", "2", *told.options, "job", "sleep", "60")
    until(lambda: told.events() == ["start"], 20, "it runs")
    process.kill()
    until(lambda: told.events() == ["start", "error"], 20, "the hook runs")
    assert "STATUS" not in told.all()[1]


def test_a_keeper_that_is_killed_as_it_is_granted(cli, server, told):
    """Before its hook runs or behind that: nothing is told that was not, and the lease ends it."""
    process = cli.start("run", "-l", "1", *told.options, "job", "sleep", "60")
    while not server.call("EXISTS", "job") and process.poll() is None:
        pass
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    until(lambda: server.call("EXISTS", "job") == 0, 10, "the lease ends")
    until(lambda: told.events()[-1:] == ["error"], 20, "the hook runs")
    assert told.events() in (["error"], ["start", "error"])


def test_a_killed_guard(cli, told):
    process = cli.start("run", *told.options, "job", "sleep", "60")
    until(lambda: told.events() == ["start"], 20, "it runs")
    os.kill(guard_of(process), signal.SIGKILL)
    assert process.wait(30) == 125
    assert told.events() == ["start", "end"]


@pytest.mark.slow
def test_a_release_that_is_not_answered(cli, server, told):
    """What is promised is told."""
    process = cli.start("run", "--json", *told.options, "job", "sh", "-c",
                        f"kill -STOP {server.process.pid}; exit 8",
                        LOCKKEEPER_COMMAND_TIMEOUT_MS="60000")
    try:
        assert process.wait(40) == 8
    finally:
        server.process.send_signal(signal.SIGCONT)
    until(lambda: told.events() == ["start", "end"], 20, "the end is told")
    found = json.loads(process.stderr.read().splitlines()[-1])
    assert (found["event"], found["status"]) == ("end", 8)


# ---- options ----

@pytest.mark.parametrize("value", ["", "start", "start=", "=true", "begin=true", "start,=true",
                                   "start,begin=true", ",start=true", "START=true"])
def test_what_is_no_hook_is_refused(cli, tmp_path, value):
    result = cli("run", "--on", value, "job", "touch", f"{tmp_path}/ran")
    assert result.returncode == 125 and "option --on: " in result.stderr
    assert not (tmp_path / "ran").exists()


def test_too_many_are_refused(cli):
    result = cli("run", *["--on", "end=true"] * 129, "job", "true")
    assert result.returncode == 125 and "more than 128" in result.stderr


def test_the_line_of_json_stands_alone_beside_other_messages(cli):
    result = cli("run", "-v", "--json", "--log-format", "json", "job", "true")
    found = [json.loads(line) for line in result.stderr.splitlines()]
    assert all({"time", "level", "pid", "message"} <= set(line) for line in found)
    assert [line["event"] for line in found if "event" in line] == ["end"]
    assert found[-1]["message"] == "run: end"
