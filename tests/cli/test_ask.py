"""lockkeeper ask, run --yield and run --replace: a holder that can be asked to give its lock up."""
from __future__ import annotations

import time

import pytest

from test_rights import grant
from test_run import hold
from waiting import until


@pytest.fixture
def told(cli):
    """The command, whose clients tell who they are, as they do by default."""
    cli.environment.pop("LOCKKEEPER_CLIENT_RECORD")
    return cli


def held(told, server, *words: str, command: tuple[str, ...] = ("sleep", "60"), **environment: str):
    process = told.start("run", *words, "job", *command, **environment)
    until(lambda: server.call("EXISTS", "job"), 10, "it is held")
    return process


def listens(server) -> None:
    until(lambda: server.call("PUBSUB", "NUMSUB", "lockkeeper_ask:{job}")[1] > 0, 10, "it listens")


def test_a_holder_that_yields_ends_its_command_and_releases(told, server):
    process = held(told, server, "--yield")
    listens(server)
    result = told("ask", "--reason", "release 4711", "job")
    assert (result.returncode, result.stderr) == (0, "")
    assert process.wait(6) == 143, "sooner than the next renewal, in ten seconds"
    assert "job is asked for (release 4711): ending the command" in process.stderr.read()
    assert server.call("EXISTS", "job") == 0


def test_the_command_has_its_grace(told, server):
    process = held(told, server, "--yield", "-k", "0.4", command=(
        "sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.1; done"))
    process.stdout.readline()
    listens(server)
    began = time.monotonic()
    assert told("ask", "job").returncode == 0
    assert process.wait(20) == 137 and time.monotonic() - began >= 0.4


def test_a_holder_that_does_not_yield_goes_on_and_the_asker_is_told(told, server):
    process = held(told, server, "--note", "the backup")
    began = time.monotonic()
    result = told("ask", "job")
    assert result.returncode == 124 and time.monotonic() - began < 5
    assert "does not listen" in result.stderr and "note: the backup" in result.stderr
    replaced = told("run", "--replace", "job", "true")
    assert replaced.returncode == 124 and "does not listen" in replaced.stderr
    assert process.poll() is None
    process.terminate()
    assert process.wait(20) == 143


def test_a_free_lock_has_nobody_to_ask(told, server):
    result = told("ask", "job")
    assert (result.returncode, result.stderr) == (3, "lockkeeper: job: nobody holds it\n")
    assert server.call("KEYS", "*") == []
    assert told("run", "--replace", "job", "echo", "ran").stdout == "ran\n"


def test_a_hook_decides_otherwise(told, server, tmp_path):
    process = held(told, server, "--on", f"ask=echo $LOCKKEEPER_EVENT $LOCKKEEPER_REASON "
                                         f">>{tmp_path}/asked")
    listens(server)
    for why in ("first", "second"):
        assert told("ask", "--reason", why, "job").returncode == 0
        until(lambda why=why: (tmp_path / "asked").exists()
              and (tmp_path / "asked").read_text().endswith(f"ask {why}\n"), 10, "the hook ran")
    assert process.poll() is None
    process.terminate()
    assert process.wait(20) == 143


@pytest.mark.parametrize("kind", [["--fair"], ["--plain"], ["--exclusive"], ["--shared"],
                                  ["--fence"], ["--also", "second"]], ids=" ".join)
def test_it_is_replaced_whatever_the_kind(told, server, kind):
    process = held(told, server, "--yield", *kind)
    listens(server)
    kind = ["--exclusive"] if kind == ["--shared"] else kind
    result = told("run", "--replace", "-w", "20", *kind, "job", "echo", "mine")
    assert (result.returncode, result.stdout) == (0, "mine\n")
    assert process.wait(20) == 143


def test_a_request_whose_message_is_lost_is_found_at_the_next_renewal(told, server):
    """Nobody hears the message, but the key is there."""
    process = held(told, server, "--yield", "-l", "2")
    listens(server)
    server.call("ACL", "SETUSER", "mute", "on", "nopass", "~*", "resetchannels", "+@all")
    result = told("ask", "job", LOCKKEEPER_USERNAME="mute", LOCKKEEPER_PASSWORD="any")
    assert result.returncode == 124 and 0 < server.call("PTTL", "lockkeeper_ask:{job}") <= 60000
    assert process.wait(20) == 143


def test_the_message_comes_after_its_connection_was_lost(told, server):
    process = held(told, server, "--yield")
    listens(server)
    for _ in range(3):
        server.call("CLIENT", "KILL", "TYPE", "pubsub")
        listens(server)
    began = time.monotonic()
    assert told("ask", "job").returncode == 0
    assert process.wait(20) == 143 and time.monotonic() - began < 5


def test_a_request_is_for_the_grant_that_it_was_made_to(told, server):
    """Not for the next, though the request is still there."""
    process = held(told, server, "--yield")
    listens(server)
    assert told("ask", "job").returncode == 0 and process.wait(20) == 143
    assert server.call("EXISTS", "lockkeeper_ask:{job}") == 1
    process = held(told, server, "--yield", "-l", "0.6")
    time.sleep(1)  # several renewals, each of which reads the request
    assert process.poll() is None
    process.terminate()
    assert process.wait(20) == 143


def test_a_holder_of_another_library_does_not_listen(told, server):
    hold(server, "job")
    assert told("ask", "job").returncode == 124
    server.call("RPUSH", "list", "x")
    assert told("ask", "list").returncode == 125


def test_who_has_no_right_loses_the_request_and_not_the_lock(told, server, folder):
    """And the doctor names it."""
    secret = folder / "secret"
    secret.write_text("change-me\n")
    user = {"LOCKKEEPER_URL": f"unix://lockkeeper@{server.path}", "LOCKKEEPER_KEY_PREFIX": "app:",
            "LOCKKEEPER_PASSWORD_FILE": str(secret)}
    grant(server, "locks.acl")
    server.call("ACL", "SETUSER", "lockkeeper", "+acl|dryrun")
    process = told.start("run", "--yield", "job", "sleep", "60", **user)
    channel = "lockkeeper_ask:{app:job}"
    until(lambda: server.call("PUBSUB", "NUMSUB", channel)[1] > 0, 10, "it listens")
    assert "lockkeeper_ask" not in told("doctor", **user).stdout, "the list is enough"
    assert told("ask", "job", **user).returncode == 0 and process.wait(20) == 143
    server.call("ACL", "SETUSER", "lockkeeper", "resetkeys", "resetchannels", "~app:*",
                "~{app:*}:*", "~lockkeeper_turns:{app:*", "&redisson_lock__channel:{app:*")
    process = told.start("run", "--yield", "-l", "1", "job", "sleep", "2", **user)
    until(lambda: server.call("EXISTS", "app:job"), 10, "it is held")
    assert told("ask", "job", **user).returncode == 125
    assert process.wait(20) == 0
    assert "lockkeeper_ask" in told("doctor", "job", **user).stdout


@pytest.mark.parametrize("words, why", [
    (("ask", "--reason", "a\nb", "job"), "control character"),
    (("ask", "--reason", "x" * 257, "job"), "longer than 256 bytes"),
    (("ask",), "NAME"), (("ask", ""), "empty"),
    (("run", "--replace", "-n", "job", "true"), "--replace"),
    (("run", "--yield", "--permits", "2", "job", "true"), "--yield"),
    (("run", "--on", "asks=true", "job", "true"), "asks"),
])
def test_wrong_use(told, words, why):
    result = told(*words)
    assert result.returncode == 125 and why in result.stderr
