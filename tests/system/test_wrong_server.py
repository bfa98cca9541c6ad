"""Servers that are not the single master that is asked for: they are named, at once."""
from __future__ import annotations

import pytest

from deployments import Sentinel
from proxy import Replace
from servers import free_port
from waiting import until


@pytest.fixture
def cluster(make_server):
    """A node of a cluster of two; the slot of "a" is the other's."""
    ports = [free_port(), free_port()]
    nodes = [make_server(cluster_enabled="yes", cluster_port=port) for port in ports]
    nodes[0].call("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
    nodes[1].call("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
    nodes[0].call("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, ports[1])
    for node in nodes:
        until(lambda node=node: b"cluster_state:ok" in node.call("CLUSTER", "INFO"), 20)
    return nodes[0]


@pytest.fixture
def sentinel(folder, server):
    """Its port."""
    place = folder / "sentinel"
    place.mkdir()
    made = Sentinel(place, server, 1).start()
    yield made.port
    made.kill()


@pytest.mark.parametrize("verb", ["try", "acquire"])
def test_a_lock_on_another_node_of_a_cluster(cluster, make_keeper, verb):
    keeper = make_keeper(cluster.unix_url)
    answer = keeper.call(verb, "a").is_code("LK_EREFUSED")
    assert answer.took < 5
    assert "MOVED" in answer.message and "cluster" in answer.message


@pytest.mark.parametrize("words", ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
                                   "CROSSSLOT Keys in request don't hash to the same slot"])
def test_each_error_of_a_cluster_is_a_refusal(proxy, make_keeper, words):
    keeper = make_keeper(proxy.unix_url)
    keeper.call("ping").ok()
    proxy.rule = lambda m: Replace(f"-{words}\r\n".encode()) \
        if m.reply and m.argv[0].upper() == b"EVALSHA" else None
    for verb in ("try", "acquire"):
        answer = keeper.call(verb, "elsewhere").is_code("LK_EREFUSED")
        assert answer.took < 5
        assert "cluster" in answer.message and words.split()[0] in answer.message


def test_a_replica_is_named(make_server, make_keeper):
    master, replica = make_server(), make_server()
    replica.call("REPLICAOF", "127.0.0.1", master.port)
    keeper = make_keeper(replica.unix_url, retry_ms=300)
    answer = keeper.call("try", "elsewhere").is_code("LK_EUNAVAILABLE")
    assert "replica" in answer.message and "master" in answer.message


def test_a_sentinel_is_named(sentinel, make_keeper):
    keeper = make_keeper(f"redis://127.0.0.1:{sentinel}")
    answer = keeper.call("acquire", "nothing")
    assert answer.code != "OK" and answer.took < 5
    assert "Sentinel" in answer.message


def test_valkey_spelling(server, make_keeper):
    keeper = make_keeper(server.url.replace("redis://", "valkey://"))
    keeper.call("acquire", "same").ok()
    keeper.call("release", "same").ok()
