"""run --note: why a lock is held, for those who look, and those who wait for it."""
from __future__ import annotations

import json

import pytest

from test_rights import grant
from test_run import hold
from waiting import until

NOTE = 'release 4711 (100 %, "blue") $(id) \\ é 🔒'


@pytest.fixture
def told(cli):
    """The command, whose clients tell who they are, as they do by default."""
    cli.environment.pop("LOCKKEEPER_CLIENT_RECORD")
    return cli


def held(told, server, *words: str, **environment: str):
    process = told.start("run", *words, "job", "sleep", "60", **environment)
    until(lambda: server.call("EXISTS", "job"), 10, "it is held")
    return process


def ended(process) -> None:
    process.terminate()
    assert process.wait(30) == 143


def test_who_looks_and_who_is_refused_reads_it(told, server, tmp_path):
    process = held(told, server, "--note", NOTE)
    who = f"sleep, pid {process.pid} on "
    for text in (told("show", "job").stdout, told("ls").stdout, told("ls", "-v").stdout):
        assert who in text and f", note: {NOTE}\n" in text
    for words in (("ls", "--json"), ("show", "--json", "job")):
        found = json.loads(told(*words).stdout)
        lock = found[0] if isinstance(found, list) else found
        assert lock["holders"][0]["client"]["note"] == NOTE
    refused = told("run", "-n", "--on", f'skip=printenv LOCKKEEPER_HOLDER >{tmp_path}/who',
                   "job", "true")
    assert refused.returncode == 124
    (line,) = [line for line in refused.stderr.splitlines() if "job: held by " in line]
    assert who in line and f", note: {NOTE}; its lease ends in " in line
    assert f", note: {NOTE}\n" in (tmp_path / "who").read_text()
    for words in (["-w", "0.3"], ["-v", "-w", "3"]):
        waiter = told("run", *words, "job", "true")
        assert waiter.returncode == 124 and f", note: {NOTE}; its lease" in waiter.stderr
    waiter = told("lock", "-n", "-l", "9", "job")
    assert waiter.returncode == 124 and f", note: {NOTE}; its lease" in waiter.stderr
    ended(process)
    assert server.call("KEYS", "*") == []


def test_it_goes_with_the_grant(told, server):
    """One that is killed leaves it to nobody."""
    process = held(told, server, "--note", NOTE)
    record = server.call("KEYS", "lockkeeper_client:*")
    process.kill()
    process.wait(20)
    server.call("DEL", "job")
    hold(server, "job")
    assert server.call("KEYS", "lockkeeper_client:*") == record  # until its time to live is over
    assert 0 < server.call("PTTL", record[0]) <= 90000
    text = told("show", "job").stdout
    assert "another client" in text and "note" not in text


@pytest.mark.parametrize("kind", [["--fair"], ["--plain"], ["--exclusive"], ["--permits", "1"],
                                  ["--also", "second"], ["--fence"]], ids=" ".join)
def test_every_kind_has_it(told, server, kind):
    process = held(told, server, *kind, "--note", NOTE)
    assert f", note: {NOTE}" in told("show", "job").stdout
    ended(process)


def test_a_lock_that_is_kept_has_it(told):
    assert told("run", "--hold-at-least", "60", "--note", NOTE, "job", "true").returncode == 0
    text = told("show", "job").stdout
    assert "kept by true, pid " in text and f", note: {NOTE}" in text


def test_each_server_of_a_quorum_has_it(told, make_three):
    servers = make_three()
    url = ",".join(server.unix_url for server in servers)
    process = told.start("run", "--url", url, "-l", "1", "--quarantine", "1", "-w", "20",
                         "--note", NOTE, "job", "sleep", "60")
    for server in servers:
        until(lambda server=server: server.call("EXISTS", "job"), 20, "it is held")
        assert f", note: {NOTE}" in told("show", "--url", server.unix_url, "job").stdout
    ended(process)


def test_the_option_prevails_over_the_environment(told, server):
    for words, note in ((["--note", "mine"], ", note: mine"), ([], ", note: theirs"),
                        (["--note", ""], None)):
        process = held(told, server, *words, LOCKKEEPER_NOTE="theirs")
        text = told("show", "job").stdout
        assert note in text if note else "note" not in text
        ended(process)


def test_lock_has_it_by_the_environment(told):
    assert told("lock", "-l", "60", "job", LOCKKEEPER_NOTE="by hand").returncode == 0
    assert ", note: by hand" in told("show", "job").stdout


@pytest.mark.parametrize("note, why", [("x" * 257, "longer than 256 bytes"),
                                       ("é" * 129, "longer than 256 bytes"),
                                       ("a\nb", "control character"),
                                       ("\x1b[31m", "control character"),
                                       (b"\xff", "not UTF-8")])
@pytest.mark.parametrize("way", ["option", "environment"])
def test_what_is_no_note_is_refused(told, tmp_path, note, why, way):
    ran = f"{tmp_path}/ran"
    if way == "option":
        result = told("run", "--note", note, "job", "touch", ran)
    else:
        result = told("run", "job", "touch", ran, LOCKKEEPER_NOTE=note)
    assert result.returncode == 125
    assert "note" in result.stderr.lower() and why in result.stderr
    assert "\x1b" not in result.stderr and not (tmp_path / "ran").exists()


def test_the_longest_ones_leave_room_for_the_lease(told, server):
    """Neither the message nor the record cuts a note."""
    note = "é" * 128
    process = held(told, server, "--note", note, LOCKKEEPER_CLIENT_PROGRAM="p" * 256)
    text = told("run", "-n", "-v", "job", "true").stderr
    assert f", note: {note}; its lease ends in " in text
    ended(process)


def test_it_needs_the_record(told):
    result = told("run", "--note", NOTE, "job", "true", LOCKKEEPER_CLIENT_RECORD="off")
    assert result.returncode == 125 and "client_record is off" in result.stderr
    assert told("run", "job", "true", LOCKKEEPER_CLIENT_RECORD="off",
                LOCKKEEPER_NOTE=NOTE).returncode == 0


def test_it_costs_no_command(told, server):
    """Nor a key: it stands in the record that is written anyway."""
    def commands(*words):
        server.call("CONFIG", "RESETSTAT")
        assert told("run", *words, "job", "true").returncode == 0
        text = server.call("INFO", "commandstats").decode()
        return {line.split(",")[0] for line in text.splitlines() if line.startswith("cmdstat_")
                and not line.startswith(("cmdstat_config", "cmdstat_info"))}
    commands()  # the scripts are there from now on
    assert commands() == commands("--note", NOTE)


def test_a_user_without_the_right_loses_the_note_and_not_the_lock(told, server, folder):
    """And the doctor names it, to those who have a note."""
    secret = folder / "secret"
    secret.write_text("change-me\n")
    user = {"LOCKKEEPER_URL": f"unix://lockkeeper@{server.path}", "LOCKKEEPER_NOTE": NOTE,
            "LOCKKEEPER_PASSWORD_FILE": str(secret), "LOCKKEEPER_KEY_PREFIX": "app:"}
    grant(server, "locks.acl")
    server.call("ACL", "SETUSER", "lockkeeper", "+acl|dryrun")
    assert "lockkeeper_client" not in told("doctor", **user).stdout, "the list is enough"
    holder = told.start("run", "job", "sleep", "60", **user)
    until(lambda: server.call("EXISTS", "app:job"), 10, "it is held")
    assert f", note: {NOTE}" in told("show", "job", **user).stdout
    ended(holder)
    server.call("ACL", "SETUSER", "lockkeeper", "resetkeys", "~app:job*", "~{app:job*}:*",
                "~*:{app:job*}")
    assert told("run", "job", "true", **user).returncode == 0
    text = told("doctor", "job", **user).stdout
    assert "the key app:lockkeeper_client:" in text and "(the note)" in text
    user.pop("LOCKKEEPER_NOTE")
    assert "lockkeeper_client" not in told("doctor", "job", **user).stdout
