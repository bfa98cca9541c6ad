"""The plain lock beside the libraries of docs/beside.md that pip has: exclusion, sight, waking."""
from __future__ import annotations

import json
import subprocess

import pytest

import peers
from keeper import BUILD, Keeper
from waiting import never, until

KEYS = {"python-redis-lock": "lock:door", "pottery": "redlock:door", "sherlock": "door",
        "walrus": "lock:door", "redis-lock-py": "door"}


@pytest.fixture(params=KEYS)
def theirs(request, server):
    try:
        keeper = Keeper(program=peers.beside(request.param))
    except peers.Unavailable as reason:
        pytest.fail(f"{request.param} cannot be had: {reason}", pytrace=False)
    keeper.library, keeper.key = request.param, KEYS[request.param]
    keeper.open(server.url)
    yield keeper
    keeper.stop()


def command(server, *args: str) -> subprocess.CompletedProcess:
    return subprocess.run([BUILD / "cli" / "lockkeeper", *args, "--url", server.unix_url],
                          capture_output=True, text=True, timeout=60)


def plain(ours, verb: str, name: str, **options):
    return ours.call(verb, name, kind="plain", **options)


@pytest.mark.parametrize("lease", [{"lease_s": 30}, {}], ids=["with a lease", "by default"])
def test_each_keeps_the_other_out(ours, theirs, lease):
    theirs.call("acquire", "door", **lease).ok()
    plain(ours, "try", theirs.key).is_code("LK_EBUSY")
    waiter = ours.say("acquire", theirs.key, thread="waiter", kind="plain")
    theirs.call("release", "door").ok()
    waiter.result().ok()
    theirs.call("try", "door", **lease).is_code("LK_EBUSY")
    plain(ours, "release", theirs.key, thread="waiter").ok()
    theirs.call("try", "door", **lease).ok()
    theirs.call("release", "door").ok()
    assert plain(ours, "try", theirs.key).ok()
    plain(ours, "release", theirs.key).ok()


@pytest.mark.parametrize("lease", [{"lease_s": 30}, {}], ids=["with a lease", "by default"])
def test_ls_show_and_break_know_it(server, theirs, lease):
    theirs.call("acquire", "door", **lease).ok()
    listed = json.loads(command(server, "ls", "--all", "--json").stdout)
    (lock,) = [lock for lock in listed if lock["name"] == theirs.key]
    assert theirs.library in lock["looks_like"] and lock["type"] == "plain lock"
    assert theirs.library in command(server, "show", theirs.key).stdout
    assert command(server, "break", "--yes", theirs.key).returncode == 0
    assert command(server, "show", theirs.key).returncode == 3


@pytest.mark.parametrize("theirs", ["python-redis-lock", "walrus", "redis-lock-py"],
                         indirect=True)
def test_our_release_wakes_theirs(server, theirs):
    """Without it they sleep: for ever; for the lease that they asked for; and redis-lock-py, which
    asks again after 5.5 s and 13 s, for seven seconds."""
    channel, limit_s = f"rlock-channel:{theirs.key}", 5
    slept_s = 6 if theirs.library == "redis-lock-py" else 0.5
    lease = {"lease_s": 60} if theirs.library == "walrus" else {}
    owner = command(server, "lock", "--plain", "-l", "60", theirs.key).stdout.strip()
    waiter = theirs.say("acquire", "door", thread="waiter", **lease)

    def waits() -> bool:
        blocked = "blocked_clients:1" in server.call("INFO", "clients").decode()
        return blocked or server.call("PUBSUB", "NUMSUB", channel)[1] == 1
    until(waits, 20, "it waits")
    never(waiter.come.is_set, slept_s, "it waits")
    released = command(server, "unlock", "--plain", "--notify", theirs.library, theirs.key, owner)
    assert released.returncode == 0, released.stderr
    waiter.result(limit_s).ok()
    theirs.call("release", "door", thread="waiter").ok()
