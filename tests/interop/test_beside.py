"""The plain lock beside the libraries of docs/beside.md that pip has: exclusion, sight, waking."""
from __future__ import annotations

import json

import pytest

import peers
from keeper import Keeper
from meeting import command
from waiting import boottime_ns, never, until

KEYS = {"python-redis-lock": "lock:door", "pottery": "redlock:door", "sherlock": "door",
        "walrus": "lock:door", "redis-lock-py": "door"}

LIMIT_S = 5  # they sleep on for longer if they are not told
told = pytest.mark.parametrize("theirs", ["python-redis-lock", "walrus", "redis-lock-py"],
                               indirect=True)


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


def begin_wait(server, theirs, lease: dict):
    """Returns when it sleeps. Unless it is told it does so for ever, or for the lease that it asked
    for; and redis-lock-py, which asks again after 5.5 s and 13 s, for seven seconds."""
    channel = f"rlock-channel:{theirs.key}"
    slept_s = 6 if theirs.library == "redis-lock-py" else 0.5
    waiter = theirs.say("acquire", "door", thread="waiter", **lease)

    def waits() -> bool:
        blocked = "blocked_clients:1" in server.call("INFO", "clients").decode()
        return blocked or server.call("PUBSUB", "NUMSUB", channel)[1] == 1
    until(waits, 20, "it waits")
    never(waiter.come.is_set, slept_s, "it waits")
    return waiter


@told
@pytest.mark.parametrize("way", ["unlock", "break"])
def test_our_release_wakes_theirs(server, theirs, way):
    lease = {"lease_s": 60} if theirs.library == "walrus" else {}
    owner = command(server, "lock", "--plain", "-l", "60", theirs.key).stdout.strip()
    waiter = begin_wait(server, theirs, lease)
    begun_ns = boottime_ns()
    if way == "break":
        released = command(server, "break", "--yes", "--notify", theirs.library, theirs.key)
    else:
        released = command(server, "unlock", "--plain", "--notify", theirs.library, theirs.key,
                           owner)
    assert released.returncode == 0, released.stderr
    woken_ns = waiter.result(LIMIT_S).ok()["end_ns"]
    print(f"{theirs.library} had it after {(woken_ns - begun_ns) / 1e6:.1f} ms")
    theirs.call("release", "door", thread="waiter").ok()


@told
def test_break_of_theirs_wakes_theirs(server, theirs):
    """Which needs no word of whom to wake: the key says it."""
    lease = {"lease_s": 60} if theirs.library == "walrus" else {}
    another = Keeper(program=peers.beside(theirs.library))
    try:
        another.open(server.url)
        another.call("acquire", "door", **lease).ok()
        waiter = begin_wait(server, theirs, lease)
        assert command(server, "break", "--yes", theirs.key).returncode == 0
        waiter.result(LIMIT_S).ok()
        theirs.call("release", "door", thread="waiter").ok()
    finally:
        another.stop()
