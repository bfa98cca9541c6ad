"""The lists of docs/acl: every kind of lock and every command runs under them, and nothing else."""
from __future__ import annotations

import re
import time

import pytest

import resp
from command import ROOT, Command
from waiting import until

LEASE_S = 2
FOLDER = ROOT / "docs" / "acl"
LISTS = sorted(path.name for path in FOLDER.glob("*.acl"))


def grant(server, name: str) -> None:
    _, user, *rules = (FOLDER / name).read_text().split()
    assert user == "lockkeeper"
    server.call("ACL", "SETUSER", user, "reset", *rules)


def refusals(server) -> list:
    """What the server refused to anybody, those refusals too that the library forgives."""
    entries = server.call("ACL", "LOG")
    return [dict(zip(entry[::2], entry[1::2])) for entry in entries]


@pytest.fixture(params=LISTS)
def limited(server, request, folder):
    """The command as the user of a list, under the list's prefix."""
    grant(server, request.param)
    secret = folder / "secret"
    secret.write_text("change-me\n")
    made = Command({"LOCKKEEPER_URL": f"unix://lockkeeper@{server.path}",
                    "LOCKKEEPER_PASSWORD_FILE": str(secret), "LOCKKEEPER_KEY_PREFIX": "app:"})
    yield made
    made.stop()
    assert refusals(server) == []


KINDS = [[], ["--fair"], ["--fence"], ["--shared"], ["--exclusive"], ["--plain"],
         ["--permits", "1"], ["--also", "second"]]


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_run_waits_gives_up_renews_and_releases(limited, server, folder, kind):
    stop = folder / "stop"
    mine = "--exclusive" if kind == ["--shared"] else kind
    holder = limited.start("run", "-l", f"{LEASE_S}s", *kind, "job", "sh", "-c",
                           f"echo in; until [ -e {stop} ]; do sleep 0.02; done")
    assert holder.stdout.readline() == "in\n"
    since = time.monotonic()
    rival = [mine] if isinstance(mine, str) else mine
    assert limited("run", "-n", *rival, "job", "true").returncode == 124
    assert limited("run", "-w", "1", *rival, "job", "true").returncode == 124
    waiter = limited.start("run", "-w", "30", *rival, "job", "echo", "mine")
    until(lambda: server.channels() or kind == ["--plain"], 10, "it waits")
    assert limited("show", "job").returncode == 0
    until(lambda: time.monotonic() > since + LEASE_S, 10, "it was renewed")
    stop.touch()
    assert holder.wait(30) == 0, holder.stderr.read()
    assert waiter.wait(30) == 0, waiter.stderr.read()
    assert holder.stderr.read() == waiter.stderr.read() == ""
    left = [name for name in server.call("KEYS", "*") if server.call("PTTL", name) < 0]
    assert left == []


@pytest.mark.parametrize("kind", [[], ["--plain"]], ids=" ".join)
def test_the_commands_with_an_owner(limited, kind):
    owner = limited("lock", *kind, "-l", "1m", "job").stdout.strip()
    assert limited("extend", *kind, "-l", "2m", "job", owner).returncode == 0
    assert owner in limited("ls").stdout and owner in limited("show", "job").stdout
    assert limited("unlock", *kind, "job", owner).returncode == 0
    assert limited("unlock", *kind, "job", owner).returncode == 123


@pytest.mark.parametrize("kind", KINDS[:6], ids=" ".join)
def test_break(limited, kind):
    holder = limited.start("run", *kind, "job", "sh", "-c", "echo in; exec sleep 60")
    assert holder.stdout.readline() == "in\n"
    assert limited("ls", "--json").returncode == 0
    assert limited("break", "--yes", "job").returncode == 0
    assert limited("run", "-n", *kind, "job", "true").returncode == 0


def test_counters_and_tokens(limited):
    for *words, code in (["latch", "set", "gate", "2", 0], ["latch", "wait", "-n", "gate", 124],
                         ["latch", "down", "gate", 0], ["latch", "wait", "-w", "0.2", "gate", 124],
                         ["latch", "down", "gate", 0], ["latch", "wait", "gate", 0],
                         ["sem", "set", "slots", "2", 0], ["sem", "show", "slots", 0],
                         ["show", "slots", 0], ["ls", 0], ["fence", "check", "out", "7", 0],
                         ["fence", "check", "out", "6", 123]):
        assert limited(*words).returncode == code, words


def test_an_election(limited, server):
    leader = limited.start("elect", "--value", "here", "web", "sh", "-c", "echo in; exec sleep 60")
    assert leader.stdout.readline() == "in\n"
    assert limited("leader", "web").stdout.startswith("here")
    second = limited.start("elect", "--once", "web", "echo", "second")
    until(lambda: limited("elect", "--candidates", "web").stdout, 10, "it waits")
    assert limited("elect", "--resign", "web").returncode == 0
    assert second.stdout.readline() == "second\n"
    leader.terminate()
    assert leader.wait(30) == 143 and second.wait(30) == 0


BESIDE = {"lpush"}
"""For waiters of another library, whose list the user has to be granted as well."""


@pytest.mark.parametrize("name", LISTS)
def test_a_list_allows_what_every_script_calls(name):
    granted = set(re.findall(r"\+(\w+)", (FOLDER / name).read_text()))
    called = {word.lower() for path in (ROOT / "src").rglob("*.lua")
              for word in re.findall(r"redis\.p?call\('(\w+)'", path.read_text())}
    assert called and called - BESIDE <= granted, called - granted
    told = (ROOT / "docs/options.md").read_text()
    assert all(f"`+{word}`" in told for word in BESIDE)


@pytest.mark.parametrize("name", LISTS)
def test_the_keys_of_others_stay_out_of_reach(server, name):
    grant(server, name)
    with server.connect() as connection:
        connection.call("AUTH", "lockkeeper", "change-me")
        for key in ("other:job", "redisson_lock_queue:{other:job}", "{other:job}:timeout", "job",
                    "webapp:job", "lockkeeper_fence:{webapp:job}"):
            with pytest.raises(resp.ErrorReply, match="NOPERM"):
                connection.call("EXISTS", key)
        for words in (["PUBLISH", "redisson_lock__channel:{other:job}", "0"], ["KEYS", "*"],
                      ["FLUSHALL"], ["EVAL", "return 1", "0"], ["CONFIG", "SET", "save", ""],
                      ["ACL", "LIST"]):
            with pytest.raises(resp.ErrorReply, match="NOPERM"):
                connection.call(*words)


@pytest.mark.parametrize("kind", [[], ["--plain"]], ids=" ".join)
def test_a_quorum_runs_under_its_list(folder, make_three, kind):
    servers = make_three({"appendonly": "yes", "appendfsync": "always"})
    for server in servers:
        grant(server, "quorum.acl")
    secret = folder / "secret"
    secret.write_text("change-me\n")
    limited = Command({"LOCKKEEPER_PASSWORD_FILE": str(secret), "LOCKKEEPER_KEY_PREFIX": "app:"})
    urls = [word for server in servers for word in ("--url", f"unix://lockkeeper@{server.path}")]
    done = limited("run", *urls, "-l", f"{LEASE_S}s", *kind, "job", "sleep", f"{LEASE_S + 0.5}")
    assert (done.returncode, done.stderr) == (0, "")
    for server in servers:
        assert refusals(server) == []
        assert server.call("EXISTS", "app:job") == 0
