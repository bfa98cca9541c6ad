"""The red lock in its string form beside redsync's and node-redlock's quorum of three servers."""
from __future__ import annotations

import pytest

import checker
import mixed
from keeper import Keeper
from waiting import boottime_ns, until

SOON_S = 3.0
RED = {"kind": "red-plain", "nodes": "n0,n1,n2"}


@pytest.fixture
def servers(make_server):
    return [make_server() for _ in range(3)]


@pytest.fixture
def make_ours(driver, servers):
    """make_ours(**options): a process with a client of each server."""
    made = []

    def make(**options) -> Keeper:
        made.append(Keeper())
        for number, server in enumerate(servers):
            made[-1].open(server.unix_url, c=f"n{number}", **options)
        return made[-1]

    yield make
    for keeper in made:
        keeper.stop()


@pytest.fixture
def ours(make_ours):
    return make_ours()


@pytest.fixture(params=["redsync", "redlock"])
def other(request, servers):
    keeper = request.getfixturevalue(request.param)
    keeper.open(",".join(server.url for server in servers))
    return keeper


def red(ours, verb: str, name: str = "q", **options):
    return ours.call(verb, name, **RED, **options)


def test_each_keeps_the_other_out(ours, other):
    red(ours, "acquire").ok()
    other.call("try", "q").is_code("LK_EBUSY")
    other.call("within", "q", wait=200).is_code("LK_ETIMEDOUT")
    waiter = other.say("acquire", "q")
    released = red(ours, "release").ok()
    assert (waiter.result().ok()["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    red(ours, "try").is_code("LK_EBUSY")
    red(ours, "within", wait=200).is_code("LK_ETIMEDOUT")
    waiter = ours.say("acquire", "q", thread="waiter", **RED)
    released = other.call("release", "q").ok()
    assert (waiter.result().ok()["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    red(ours, "release", thread="waiter").ok()


def test_exclusion_under_load(ours, other, history):
    records = mixed.contend(ours, other, history, ours_threads=3, theirs_threads=3, ours_pairs=20,
                            theirs_pairs=10, hold_us=2000, pause_us=40000, **RED)
    assert mixed.switches(checker.check(records)) > 5


def test_exclusion_with_one_server_dead(servers, ours, other, history):
    """Two of three are left: every grant of either needs both."""
    servers[1].kill()
    records = mixed.contend(ours, other, history, ours_threads=2, theirs_threads=2, ours_pairs=10,
                            theirs_pairs=5, hold_us=2000, pause_us=40000, **RED)
    checker.check(records)


def test_a_minority_does_not_matter(servers, ours, other):
    """A foreign key on one server: both are granted by the other two, and keep each other out."""
    servers[2].call("SET", "q", "somebody", "PX", 60000)
    red(ours, "acquire").ok()
    other.call("try", "q").is_code("LK_EBUSY")
    red(ours, "release").ok()
    other.call("try", "q").ok()
    red(ours, "try").is_code("LK_EBUSY")
    other.call("release", "q").ok()
    assert servers[2].call("GET", "q") == b"somebody"


def everywhere(servers, there: int) -> None:
    """Returns when every server has the key, or none.

    A release returns at a majority's word; a grant may be a majority's, until it is renewed.
    """
    until(lambda: all(server.call("EXISTS", "q") == there for server in servers), 5,
          f"the key is there: {there}")


def test_a_majority_is_enough_to_keep_out(servers, make_ours, other):
    """The key is lost on one server: the others have two votes of three."""
    ours = make_ours(watchdog_ms=1500)
    other.call("acquire", "q").ok()
    everywhere(servers, 1)
    servers[0].call("DEL", "q")
    red(ours, "try").is_code("LK_EBUSY")
    other.call("release", "q").ok()
    everywhere(servers, 0)
    red(ours, "try").ok()
    everywhere(servers, 1)
    servers[1].call("DEL", "q")
    other.call("try", "q").is_code("LK_EBUSY")
    red(ours, "release").ok()


def test_leases(ours, other):
    taken = other.call("within", "q", wait=1000, lease=700).ok()
    granted = red(ours, "acquire").ok()
    assert (granted["end_ns"] - taken["start_ns"]) / 1e9 >= 0.69, "before the lease was over"
    red(ours, "release").ok()
    taken = red(ours, "acquire", lease=700).ok()
    granted = other.call("acquire", "q").ok()
    assert (granted["end_ns"] - taken["start_ns"]) / 1e9 >= 0.69, "before the lease was over"
    other.call("release", "q").ok()


def test_our_watchdog_is_honoured(make_ours, other):
    ours = make_ours(watchdog_ms=1000)
    red(ours, "acquire").ok()
    other.call("within", "q", wait=2200).is_code("LK_ETIMEDOUT")
    red(ours, "release").ok()
    other.call("try", "q").ok()
    other.call("release", "q").ok()


def test_killed_c_process_costs_its_lease(make_ours, other):
    ours = make_ours(watchdog_ms=1200)
    red(ours, "acquire").ok()
    ours.kill()
    killed_ns = boottime_ns()
    granted = other.call("acquire", "q").ok()
    assert 0.7 <= (granted["end_ns"] - killed_ns) / 1e9 < 1.2 + SOON_S
    other.call("release", "q").ok()


def test_we_force_theirs(ours, other):
    other.call("acquire", "q").ok()
    assert red(ours, "force").ok()["result"] == 1
    other.call("release", "q").is_code("LK_ENOTOWNER")
    red(ours, "try").ok()
    red(ours, "release").ok()
