"""The time to live of counters: --ttl, and that of `run --permits`."""
from __future__ import annotations

import re

import pytest

from waiting import until

DAY_MS = 24 * 3600 * 1000
HOUR_MS = 3600 * 1000


def lasts(server, key: str, ttl_ms: int) -> bool:
    """It was given, or prolonged, a moment ago."""
    return ttl_ms - 120_000 < server.call("PTTL", key) <= ttl_ms


def test_run_permits_gives_its_counter_30_days(cli, server):
    process = cli.start("run", "--permits", "2", "slots", "sleep", "60")
    until(lambda: server.call("GET", "slots") == b"1", 20)
    assert lasts(server, "slots", 30 * DAY_MS) and lasts(server, "{slots}:timeout", 30 * DAY_MS)
    process.terminate()
    process.wait(20)
    until(lambda: server.call("GET", "slots") == b"2", 20)
    assert lasts(server, "slots", 30 * DAY_MS)
    server.call("DEL", "slots")
    assert cli("run", "--permits", "2", "slots", "true").returncode == 0
    assert lasts(server, "slots", 30 * DAY_MS), "the next one makes it again"


def test_run_permits_leaves_the_time_to_live_of_sem_set(cli, server):
    assert cli("sem", "set", "--ttl", "1h", "slots", "2").returncode == 0
    process = cli.start("run", "--permits", "2", "slots", "sleep", "60")
    until(lambda: server.call("GET", "slots") == b"1", 20)
    assert lasts(server, "slots", HOUR_MS) and lasts(server, "{slots}:timeout", HOUR_MS)
    process.terminate()
    process.wait(20)
    assert cli("run", "--permits", "2", "slots", "true").returncode == 0
    assert lasts(server, "slots", HOUR_MS)


def test_a_number_that_is_lost_during_the_wait_does_not_come_back_for_ever(cli, server):
    """It lasts while a permit is in use, and the next run makes it again, with its 30 days."""
    cli.start("run", "--permits", "1", "slots", "sleep", "60")
    until(lambda: server.call("GET", "slots") == b"0", 20)
    waiter = cli.start("run", "-l", "20s", "--permits", "1", "slots", "sleep", "60")
    until(server.channels, 20, "it waits")
    server.call("FLUSHALL")
    until(lambda: server.call("GET", "slots") == b"0", 20, "it has a permit again")
    assert 0 < server.call("PTTL", "slots") <= 20_500
    waiter.terminate()
    waiter.wait(20)
    assert 0 < server.call("PTTL", "slots") <= 20_500
    assert cli("sem", "delete", "slots").returncode == 0
    assert cli("run", "--permits", "1", "slots", "true").returncode == 0
    assert lasts(server, "slots", 30 * DAY_MS)


def test_another_s_number_keeps_its_own(cli, server):
    """There are none by intent: then one is given."""
    assert cli("sem", "set", "--ttl", "1h", "slots", "0").returncode == 0
    cli.start("run", "--permits", "1", "slots", "sleep", "60")
    until(server.channels, 20, "it waits")
    assert cli("sem", "set", "slots", "1").returncode == 0
    until(lambda: server.call("GET", "slots") == b"0", 20)
    assert lasts(server, "slots", HOUR_MS)


def test_a_holder_s_lease_is_not_the_counter_s(cli, server):
    cli.start("run", "-l", "20s", "--permits", "1", "slots", "sleep", "60")
    until(lambda: server.call("GET", "slots") == b"0", 20)
    said = cli("run", "-n", "-v", "--permits", "1", "slots", "true").stderr
    assert int(re.search(r"its lease ends in (\d+) s unless renewed", said).group(1)) <= 20


def test_run_permits_leaves_one_that_stays_for_ever(cli, server):
    assert cli("sem", "set", "slots", "2").returncode == 0
    assert cli("run", "--permits", "2", "slots", "true").returncode == 0
    assert server.call("PTTL", "slots") == -1


def test_sem_set(cli, server):
    assert cli("sem", "set", "--ttl", "1h", "slots", "2").returncode == 0
    assert lasts(server, "slots", HOUR_MS)
    assert cli("sem", "set", "slots", "3").returncode == 0, "keeps it"
    assert lasts(server, "slots", HOUR_MS)
    server.call("PERSIST", "slots")
    assert cli("sem", "set", "--ttl", "1d", "slots", "4").returncode == 0
    assert lasts(server, "slots", DAY_MS)


def test_latch_set(cli, server):
    assert cli("latch", "set", "--ttl", "1h", "gate", "2").returncode == 0
    assert lasts(server, "gate", HOUR_MS)
    assert cli("latch", "down", "gate").returncode == 0
    assert lasts(server, "gate", HOUR_MS)
    assert cli("latch", "set", "--ttl", "0.2", "door", "1").returncode == 0
    assert cli("latch", "wait", "-w", "30", "door").returncode == 0, "its end opens it"


@pytest.mark.parametrize("words", [
    ("sem", "show", "--ttl", "1h", "slots"), ("sem", "delete", "--ttl", "1h", "slots"),
    ("latch", "down", "--ttl", "1h", "gate"), ("latch", "wait", "--ttl", "1h", "gate"),
    ("sem", "set", "--ttl", "0", "slots", "1"), ("latch", "set", "--ttl", "x", "gate", "1"),
    ("latch", "set", "--ttl", "9000d", "gate", "1")], ids=" ".join)
def test_wrong_use(cli, server, words):
    result = cli(*words)
    assert result.returncode == 125 and "--ttl" in result.stderr
    assert server.call("DBSIZE") == 0
