"""Servers that name each other by addresses other than those at which the client reaches them.

They listen at 127.0.0.1 and at 127.0.0.2, and announce the second. Their own lists of clients show
at which of the two a client has connected.
"""
from __future__ import annotations

import pytest

from clusters import PATIENT_MS
from deployments import MASTER
from moving import takes_each
from servers import free_port
from waiting import until

BOTH = "127.0.0.1 127.0.0.2"
MAP = "127.0.0.2=127.0.0.1"


def reached(servers: list) -> set[str]:
    """The addresses at which clients of ours have connected to those that run."""
    return {line.split(" laddr=")[1].split(":")[0] for server in servers
            for line in server.clients() if "name=lockkeeper" in line}


ANNOUNCED = {"cluster_announce_ip": "127.0.0.2", "replica_announce_ip": "127.0.0.2"}


@pytest.mark.parametrize("mapped", [True, False])
def test_a_cluster(clusters, make_keeper, mapped):
    """Through a failover too. Without the map the client goes where the nodes send it."""
    cluster = clusters(node_timeout_ms=PATIENT_MS, bind=BOTH, **ANNOUNCED)
    options = {"address_map": MAP} if mapped else {}
    keeper = make_keeper(f"redis-cluster://127.0.0.1:{cluster.nodes[0].port}", **options)
    takes_each(keeper, cluster)
    cluster.failover(0)
    takes_each(keeper, cluster)
    assert ("127.0.0.2" in reached(cluster.nodes)) is not mapped


def test_replicas_that_the_master_knows_otherwise(clusters, make_keeper):
    """Whether they have a lock, nobody knows: it is not granted, and the caller is told of both
    addresses. A number of replicas serves."""
    cluster = clusters(masters=1, node_timeout_ms=PATIENT_MS, bind=BOTH,
                       cluster_announce_ip="127.0.0.2")
    url = f"redis-cluster://127.0.0.1:{cluster.nodes[0].port}"
    answer = make_keeper(url).call("try", "lock").is_code("LK_ENOTDURABLE")
    port = cluster.nodes[1].port
    assert f"not connected to it: 127.0.0.2:{port}, or as 127.0.0.1:{port}" in answer.message
    make_keeper(url, replica_acks="1").call("within", "lock", wait=20_000).ok()


@pytest.mark.parametrize("endpoint, told", [("hostname", b"localhost"), ("unknown-endpoint", None)])
def test_names_of_nodes(clusters, make_keeper, endpoint, told):
    """The nodes announce names, or say that they are where the client has found them; their masters
    know them by addresses."""
    cluster = clusters(node_timeout_ms=PATIENT_MS, cluster_announce_hostname="localhost",
                       cluster_preferred_endpoint_type=endpoint)
    keeper = make_keeper(f"redis-cluster://127.0.0.1:{cluster.nodes[0].port}")
    assert {row[2][0] for row in cluster.nodes[0].call("CLUSTER", "SLOTS")} == {told}
    takes_each(keeper, cluster)
    cluster.failover(0)
    takes_each(keeper, cluster)


@pytest.mark.parametrize("mapped", [True, False])
def test_sentinels(watched, make_keeper, mapped):
    """They know the first master by the address that they were given, the next by its own."""
    trio = watched(bind=BOTH, **{"replica-announce-ip": "127.0.0.2"})
    options = {"address_map": MAP} if mapped else {}
    keeper = make_keeper(trio.url, **options)
    keeper.call("acquire", "before").ok()
    assert reached(trio.servers) == {"127.0.0.1"}
    old = trio.master()
    trio.failover()
    keeper.call("within", "after", wait=60_000).ok()
    new = next(each for each in trio.servers if each.port == trio.sentinels[0].names())
    assert new is not old
    until(lambda: reached([new]) == {"127.0.0.1" if mapped else "127.0.0.2"}, 20, "it is there")


def test_a_port(server, make_keeper):
    """What is refused is named both ways."""
    port = free_port()
    there = make_keeper(f"redis://127.0.0.1:{port}",
                        address_map=f"127.0.0.1:{port}=127.0.0.1:{server.port}")
    there.call("acquire", "lock").ok()
    nowhere = make_keeper(server.url, address_map=f"127.0.0.1:{server.port}=127.0.0.1:{port}")
    answer = nowhere.call("try", "lock").is_code("LK_EUNREACHABLE")
    assert f"connect to 127.0.0.1:{port} (for 127.0.0.1:{server.port})" in answer.message


def test_sentinels_that_tell_names(watched, make_keeper):
    """Replicas announce theirs to the master. Through a failover, after which all know the new
    master by name. Sentinels may take the name for an IPv6 address."""
    trio = watched(more="sentinel resolve-hostnames yes\nsentinel announce-hostnames yes",
                   **{"replica-announce-ip": "localhost", "bind": "127.0.0.1 -::1"})
    keeper = make_keeper(trio.url)
    keeper.call("acquire", "before").ok()
    trio.failover()
    keeper.call("within", "after", wait=60_000).ok()
    told = trio.sentinels[0].call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
    assert told[0] == b"localhost"
