"""lockkeeper watch: the state of locks, and each change."""
from __future__ import annotations

import json

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
