"""Who holds a lock, and what a wait waits for: what operators read."""
from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import socket
import subprocess
import time

import pytest

from command import BINARY
from terminal import Terminal
from test_run import hold
from waiting import until

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def told(cli):
    """The command, whose clients tell who they are, as they do by default."""
    cli.environment.pop("LOCKKEEPER_CLIENT_RECORD")
    return cli


def records(server) -> list[bytes]:
    return server.call("KEYS", "lockkeeper_client:*")


def is_held(server, words: tuple[str, ...]) -> bool:
    """A semaphore's key is there before anybody has a permit."""
    name = next(word for word in ("job", "slots") if word in words)
    if "--permits" in words:
        return server.call("ZCARD", f"{{{name}}}:timeout") > 0
    return server.call("EXISTS", name) > 0


def held(told, server, *words: str, **environment: str):
    process = told.start("run", *words, **environment)
    until(lambda: len(records(server)) == 1 and is_held(server, words), 10, "it is held")
    return process


def first_said(waiter) -> str:
    """Its first line that knows something: a busy server may not have answered before."""
    while True:
        line = waiter.stderr.readline()
        if "no answer yet" not in line and not line.startswith("lockkeeper: server: "):
            return line


def test_show_ls_and_json_tell_who_holds_it(told, server):
    process = held(told, server, "job", "/bin/sleep", "30")
    who = rf"sleep, pid {process.pid} on {re.escape(socket.gethostname())} \(user {USER}\), " \
          r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(rf"^client: {who}$", told("show", "job").stdout, re.MULTILINE)
    assert re.search(rf"\t{who}$", told("ls").stdout, re.MULTILINE)
    (lock,) = json.loads(told("ls", "--json").stdout)
    client = lock["holders"][0]["client"]
    assert lock["holders"][0]["owner"].startswith(client.pop("id") + ":")
    assert abs(client.pop("since_ms") / 1000 - time.time()) < 60
    assert client == {"host": socket.gethostname(), "pid": process.pid, "user": USER,
                      "program": "sleep"}
    process.terminate()
    process.wait(20)
    assert server.call("KEYS", "*") == []


def test_arguments_are_recorded_only_if_allowed(told, server):
    process = held(told, server, "job", "sleep", "30", LOCKKEEPER_CLIENT_RECORD="arguments")
    assert "sleep 30, pid" in told("show", "job").stdout
    process.terminate()
    process.wait(20)


def test_another_client_is_named_as_such(told, server):
    hold(server, "job")
    assert "client: another client\n" in told("show", "job").stdout
    assert json.loads(told("show", "--json", "job").stdout)["holders"][0]["client"] is None


def test_a_record_cannot_reach_the_terminal(told, server):
    owner = "12345678-1234-4234-8234-123456789abc"
    hold(server, "job", f"{owner}:1")
    record = f"lockkeeper_client:{owner[:18]}"
    server.call("SET", record, f"id={owner}\nprogram=\x1b[31m\nhost=h\npid=7\n")
    text = told("show", "job").stdout + told("ls").stdout
    assert "\x1b" not in text and "\\x1b[31m, pid 7 on h" in text
    server.call("SET", record, b"id=%b\nprogram=\xff\nhost=h\n" % owner.encode())
    assert json.loads(told("ls", "--json").stdout)[0]["holders"][0]["client"]["program"] == "?"


def test_permits_lead_to_their_client(told, server):
    process = held(told, server, "--permits", "1", "slots", "sleep", "30")
    who = rf"sleep, pid {process.pid} on {re.escape(socket.gethostname())} \(user {USER}\), since"
    assert re.search(rf"^permit: \w+\nclient: {who} ", told("show", "slots").stdout, re.MULTILINE)
    assert re.search(rf"\t{who} ", told("ls").stdout)
    (counter,) = json.loads(told("ls", "--json").stdout)
    assert counter["holders"][0]["client"]["pid"] == process.pid
    waiter = told.start("run", "-v", "--permits", "1", "slots", "true")
    assert f"held by sleep, pid {process.pid} on" in first_said(waiter)
    server.call("ZADD", "{slots}:timeout", "922337203685477", "java's permit id")
    assert "another client" in told("ls").stdout
    process.terminate()
    assert waiter.wait(20) == 0


@pytest.mark.parametrize("words", [
    ("run", "job", "sleep", "30"), ("run", "--fair", "job", "sleep", "30"),
    ("run", "--exclusive", "job", "sleep", "30"), ("run", "--permits", "1", "job", "sleep", "30"),
    ("lock", "-l", "1m", "job"),
    ("lock", "--plain", "-l", "1m", "job")], ids=" ".join)
def test_no_holder_is_another_client_not_even_at_first(told, server, words):
    """In what the server saw, for a look from outside may come too late."""
    monitor = server.monitor()
    process = told.start(*words)

    until(lambda: is_held(server, words), 20, "it is held")
    server.call("ECHO", "seen")
    until(lambda: ["ECHO", "seen"] in monitor.commands(), 20, "the monitor shows it")
    commands = monitor.commands()
    tries = [at for at, command in enumerate(commands)
             if command[0] in ("EVALSHA", "EVAL", "SET") and "job" in command]
    written = [at for at, command in enumerate(commands)
               if command[0] == "SET" and command[1].startswith("lockkeeper_client:")]
    assert tries and written and written[0] < tries[-1], commands
    process.terminate()
    process.wait(20)


def test_no_holder_of_several_is_another_client(told, server, make_three):
    """They connect for their first try; the record is there before the command runs."""
    script = 'for path; do redis-cli -s "$path" KEYS "lockkeeper_client:*"; done'
    said = told("run", "--also", "other", "job", "sh", "-c", script, "sh", server.path)
    assert re.fullmatch(r"lockkeeper_client:\S+\n", said.stdout), said
    three = make_three({"appendonly": "yes", "appendfsync": "always"})
    urls = ",".join(one.unix_url for one in three)
    said = told("run", "--url", urls, "job", "sh", "-c", script, "sh",
                *(one.path for one in three))
    assert len(set(re.findall(r"^lockkeeper_client:\S+$", said.stdout, re.MULTILINE))) >= 2, said


CALLS = {
    "substitution": "owner=$(lockkeeper lock -l 1m job) || exit",
    "pipeline": "owner=$(lockkeeper lock -l 1m job | cat)",
    "subshell": "owner=$( (lockkeeper lock -l 1m job; true); true)",
    "file": "lockkeeper lock -l 1m job > \"$0.owner\"",
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("call", CALLS)
def test_lock_records_the_script_that_called_it(told, server, folder, shell, call):
    script = folder / "nightly.sh"
    script.write_text(f"#!/bin/{shell}\n{CALLS[call]}\necho ready\nread line\n")
    script.chmod(0o755)
    process = subprocess.Popen([script], env=told.environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n"
        assert f"client: nightly.sh, pid {process.pid} on " in told("show", "job").stdout
    finally:
        process.communicate("\n", 20)


def test_lock_records_the_scripts_arguments_only_if_allowed(told, server):
    line = ["sh", "-c", "lockkeeper lock -l 1m job; exit", "name", "word"]
    environment = {**told.environment, "LOCKKEEPER_CLIENT_RECORD": "arguments"}
    subprocess.run(line, env=environment, check=True, capture_output=True, timeout=60)
    assert "client: sh -c lockkeeper lock -l 1m job; exit name word, pid " in \
        told("show", "job").stdout


@pytest.mark.parametrize("words", [("client_program=mine",), ("client_pid=4711",)], ids=" ".join)
def test_lock_records_what_it_is_told_to(told, server, words):
    options = [word for assignment in words for word in ("-o", assignment)]
    assert told("lock", *options, "-l", "1m", "job").returncode == 0
    said = told("show", "job").stdout
    assert ("client: mine, pid " if "mine" in words[0] else ", pid 4711 on ") in said


def test_a_verbose_wait_says_who_holds_it(told, server):
    process = held(told, server, "job", "sleep", "30")
    waiter = told.start("run", "-v", "job", "true")
    line = first_said(waiter)
    assert re.match(rf"lockkeeper: waiting for job: held by sleep, pid {process.pid} on ", line)
    assert "unless renewed" in line
    process.terminate()
    assert waiter.wait(20) == 0


WAITS = [("lock", "-l", "1m"), ("wait",)]


@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_other_verbose_waits_say_who_holds_it(told, server, words):
    process = held(told, server, "job", "sleep", "30")
    waiter = told.start(*words, "-v", "-w", "20", "job")
    line = first_said(waiter)
    assert re.match(rf"lockkeeper: waiting for job: held by sleep, pid {process.pid} on ", line)
    process.terminate()
    assert waiter.wait(20) == 0


def test_a_verbose_wait_for_a_latch_tells_its_count(told, server):
    assert told("latch", "set", "start", "3").returncode == 0
    waiter = told.start("latch", "wait", "-v", "start")
    assert first_said(waiter) == "lockkeeper: waiting for start: its count is 3\n"
    assert told("latch", "down", "start", "3").returncode == 0
    assert waiter.wait(20) == 0
    refused = told("latch", "down", "-q", "start")
    assert refused.returncode == 125 and "-n, -w and -q are for wait" in refused.stderr


def test_a_verbose_wait_says_that_no_server_answers(told, server):
    hold(server, "job", ms=60000)
    waiter = told.start("wait", "-v", "job")
    assert "held by another client" in first_said(waiter)
    server.stop()
    until(lambda: ": connect to " in waiter.stderr.readline(), 20, "it says so")
    waiter.kill()


@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_other_waits_show_their_line_on_a_terminal(told, server, words):
    hold(server, "job", ms=4500)
    line = " ".join((shlex.quote(str(BINARY)), *words))
    shell = Terminal(told.environment)
    try:
        shell.line(f"{line} job >/dev/null && echo 'go''es'")
        shell.expect(r"\r\x1b\[Kwaiting for job: held by another client")
        assert shell.expect("goes").endswith("\r\x1b[Kgoes")
        shell.prompt()
        hold(server, "job", ms=3500)
        assert shell.run(f"{line} -q job >/dev/null", 30).strip() == ""
    finally:
        shell.close()


def test_a_wait_that_is_not_verbose_is_silent(told, server):
    hold(server, "job", ms=3500)
    assert told("run", "job", "true").stderr == ""


def test_a_verbose_wait_tells_the_places_of_a_fair_lock(told, server):
    process = held(told, server, "--fair", "job", "sleep", "30")
    one = told.start("run", "--fair", "job", "true")
    until(lambda: server.call("LLEN", "redisson_lock_queue:{job}") == 1, 10, "one waits")
    two = told.start("run", "-v", "--fair", "job", "true")
    assert "; 2 in its wait queue" in first_said(two)
    process.terminate()
    assert one.wait(20) == 0 and two.wait(20) == 0


def test_a_verbose_wait_says_that_the_server_is_gone(told, server):
    hold(server, "job", ms=1500)
    waiter = told.start("run", "-v", "-w", "20", "job", "true")
    assert "held by another client" in first_said(waiter)
    server.stop()
    until(lambda: "unreachable" in waiter.stderr.readline(), 20, "it says so")
    waiter.kill()


def test_on_a_terminal_one_line_is_rewritten_and_then_gone(told, server):
    hold(server, "job", ms=4500)
    shell = Terminal(told.environment)
    try:
        shell.line(f"{shlex.quote(str(BINARY))} run job echo 'in''side'")
        shell.expect(r"\r\x1b\[Kwaiting for job: held by another client")
        text = shell.expect("inside")
        assert text.endswith("\r\x1b[Kinside") and "\n" not in text
        shell.prompt()
    finally:
        shell.close()


@pytest.mark.parametrize("words", [("run", "job", "true"), ("wait", "job")], ids=" ".join)
def test_a_job_in_the_background_leaves_the_terminal_alone(told, server, words):
    hold(server, "job", ms=4500)
    shell = Terminal(told.environment)
    try:
        shell.run(" ".join((shlex.quote(str(BINARY)), *words, "&")))
        text = shell.run("wait; echo 'go''es'")
        assert "goes" in text and "waiting" not in text
    finally:
        shell.close()


def test_a_line_is_not_cut_within_a_character(told, server):
    name = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 10
    hold(server, name, ms=4500)
    shell = Terminal(told.environment)
    try:
        shell.run("stty cols 20")
        text = shell.run(f"{shlex.quote(str(BINARY))} wait {name}")
        assert f"waiting for {name[:3]}\r" in text
    finally:
        shell.close()


def test_quiet_says_nothing_on_a_terminal(told, server):
    hold(server, "job", ms=3500)
    shell = Terminal(told.environment)
    try:
        assert shell.run(f"{shlex.quote(str(BINARY))} run -q job true", 30).strip() == ""
    finally:
        shell.close()
