"""The plain lock beside Spring Integration's RedisLockRegistry, both of its kinds."""
from __future__ import annotations

import json
import subprocess

import pytest

from keeper import BUILD
from meeting import begin_wait, command
from waiting import boottime_ns, until

KEY = "reg:door"  # "door" of the registry "reg"
CHANNEL = "reg-channel:reg:door"
KINDS = ["SPIN_LOCK", "PUB_SUB_LOCK"]
told = pytest.mark.parametrize("spring", ["PUB_SUB_LOCK"], indirect=True)


@pytest.fixture(params=KINDS)
def spring(request, spring_jvm, server):
    """A registry whose leases, and so the sleeps of its PUB_SUB_LOCK, last a minute."""
    spring_jvm.open(server.url, type=request.param)
    yield spring_jvm
    spring_jvm.call("close", thread="-")


def plain(ours, verb: str, **options):
    return ours.call(verb, KEY, kind="plain", **options)


def print_time(what: str, since_ns: int, until_ns: int) -> None:
    print(f"{what}: {(until_ns - since_ns) / 1e6:.1f} ms")


def test_each_keeps_the_other_out(ours, spring):
    spring.call("acquire", "door").ok()
    plain(ours, "try").is_code("LK_EBUSY")
    waiter = ours.say("acquire", KEY, thread="waiter", kind="plain")
    released = spring.call("release", "door").ok()
    print_time("ours had it after", released["start_ns"], waiter.result().ok()["end_ns"])
    spring.call("try", "door").is_code("LK_EBUSY")
    plain(ours, "release", thread="waiter").ok()
    spring.call("try", "door").ok()
    spring.call("release", "door").ok()
    plain(ours, "try").ok()
    plain(ours, "release").ok()


def test_a_late_release_of_theirs_leaves_ours_alone(ours, spring, server):
    spring.call("acquire", "door").ok()
    assert server.call("DEL", KEY) == 1
    plain(ours, "try").ok()
    spring.call("release", "door").is_code("LK_ENOTOWNER")
    assert plain(ours, "is_held").ok()["result"] == 1
    plain(ours, "release").ok()


def test_ls_show_and_break_know_it(server, spring):
    spring.call("acquire", "door").ok()
    (lock,) = json.loads(command(server, "ls", "--all", "--json").stdout)
    assert lock["name"] == KEY and "Spring Integration" in lock["looks_like"]
    assert "Spring Integration" in command(server, "show", KEY).stdout
    assert command(server, "break", "--yes", KEY).returncode == 0
    assert command(server, "show", KEY).returncode == 3
    spring.call("release", "door").is_code("LK_ENOTOWNER")


@told
def test_our_release_wakes_theirs(server, spring):
    """Without --notify it would sleep for a minute."""
    owner = command(server, "lock", "--plain", "-l", "60", KEY).stdout.strip()
    waiter = begin_wait(spring, "door")
    begun_ns = boottime_ns()
    released = command(server, "unlock", "--plain", "--notify", "spring", KEY, owner)
    assert released.returncode == 0, released.stderr
    print_time("Spring had it after", begun_ns, waiter.result().ok()["end_ns"])
    spring.call("release", "door", thread="waiter").ok()


@told
def test_our_break_wakes_theirs(server, spring):
    """What another registry holds; within one its threads wait for each other."""
    server.call("SET", KEY, "b30d6a0e-5b4a-4b0e-9d6f-0a4f5e1c2d3e", "PX", 60000)
    waiter = begin_wait(spring, "door")
    begun_ns = boottime_ns()
    assert command(server, "break", "--yes", KEY).returncode == 0
    print_time("Spring had it after", begun_ns, waiter.result().ok()["end_ns"])
    spring.call("release", "door", thread="waiter").ok()


@told
def test_their_release_wakes_ours(server, spring):
    """It listens to their channel."""
    spring.call("acquire", "door").ok()
    waiter = subprocess.Popen([BUILD / "cli" / "lockkeeper", "run", "--plain", "--notify", "spring",
                               "--poll", "60", "--url", server.unix_url, KEY, "true"])
    until(lambda: server.call("PUBSUB", "NUMSUB", CHANNEL)[1] == 1, 20, "it listens")
    released = spring.call("release", "door").ok()
    assert waiter.wait(30) == 0
    print_time("ours was through after", released["start_ns"], boottime_ns())
