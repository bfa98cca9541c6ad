"""The scripts of an election, asked directly, as copies that come late would."""
from __future__ import annotations

import pytest

import lua

KEYS = ["web", "lockkeeper_fence:{web}", "lockkeeper_election:{web}", "lockkeeper_candidates:{web}",
        "lockkeeper_order:{web}"]
CHANNEL = "lockkeeper_candidate:{web}"
LEASE_MS, LATEST_US = 60000, 10**18
AT_ONCE, IF_NONE_ELSE = 0, 1  # how a candidate stands


def stand(server, field: str, version: int, priority: int = 0):
    return server.call("EVAL", lua.text_of("election", "stand"), len(KEYS), *KEYS, "acquire", field,
                       CHANNEL, LEASE_MS, LATEST_US, LEASE_MS, priority, AT_ONCE, version, "host",
                       "value")


def change(server, field: str, version: int, priority: int, standing: int):
    return server.call("EVAL", lua.text_of("election", "standing"), 4, KEYS[0], *KEYS[2:], field,
                       priority, standing, version, CHANNEL)


@pytest.fixture
def candidates(server):
    """c:1 leads, c:2 waits."""
    assert stand(server, "c:1", 1).startswith("TOKEN ")
    assert stand(server, "c:2", 1) > 0


def test_a_copy_changes_nothing_of_one_that_waits(server, candidates):
    assert change(server, "c:2", 2, 5, AT_ONCE) == 1
    assert change(server, "c:2", 3, 7, IF_NONE_ELSE) == 1
    stands = server.call("HGETALL", KEYS[3]), server.call("ZRANGE", KEYS[4], 0, -1, "WITHSCORES")
    assert stands[0][1].startswith(b"7 1 ")
    assert change(server, "c:2", 2, 5, AT_ONCE) == 1
    assert stands == (server.call("HGETALL", KEYS[3]),
                      server.call("ZRANGE", KEYS[4], 0, -1, "WITHSCORES"))


def test_a_copy_changes_nothing_of_one_that_leads(server, candidates):
    assert change(server, "c:1", 3, 0, 2) == 1
    record = server.call("HGETALL", KEYS[2])
    assert b"leave" in record or b"leaving" in record
    assert change(server, "c:1", 2, 0, AT_ONCE) == 1
    assert server.call("HGETALL", KEYS[2]) == record
