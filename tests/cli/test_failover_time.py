"""lockkeeper run -v says at its start when a failover may outlast the lease."""
from __future__ import annotations

import pytest

from clusters import Cluster
from deployments import MASTER, FakeSentinel

SAYS = "a failover may take"


@pytest.fixture
def sentinel(server):
    """A fake one: its real kin would have to be started, and set."""
    made = FakeSentinel(("127.0.0.1", server.port), "a")
    yield made
    made.stop()


def url_of(*ports: int) -> str:
    return f"redis-sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{MASTER}"


def test_sentinels_that_wait_for_long(cli, sentinel):
    sentinel.down_after_ms, url = 14000, url_of(sentinel.port)
    run = cli("run", "-v", "job", "true", LOCKKEEPER_URL=url)
    assert run.returncode == 0
    assert f"{SAYS} 18000 ms" in run.stderr and "a lease of 36 s outlasts it (-l)" in run.stderr
    assert SAYS not in cli("run", "job", "true", LOCKKEEPER_URL=url).stderr
    assert SAYS not in cli("run", "-v", "-l", "36s", "job", "true", LOCKKEEPER_URL=url).stderr
    assert SAYS in cli("run", "-v", "-l", "36s", "-k", "7", "job", "true",
                       LOCKKEEPER_URL=url).stderr, "it wants more at the end"


def test_one_that_is_not_there_is_passed_over(cli, sentinel):
    sentinel.down_after_ms = 14000
    run = cli("run", "-v", "job", "true", LOCKKEEPER_URL=url_of(1, sentinel.port))
    assert run.returncode == 0 and f"{SAYS} 18000 ms" in run.stderr


@pytest.mark.parametrize("down_after_ms", [10_000, None])
def test_sentinels_that_do_not(cli, sentinel, down_after_ms):
    """Or do not say."""
    sentinel.down_after_ms = down_after_ms
    run = cli("run", "-v", "job", "true", LOCKKEEPER_URL=url_of(sentinel.port))
    assert run.returncode == 0 and "acquired" in run.stderr and SAYS not in run.stderr


def test_a_single_server(cli):
    assert SAYS not in cli("run", "-v", "job", "true").stderr


def test_a_cluster(cli, folder):
    place = folder / "cluster"
    place.mkdir()
    cluster = Cluster(place, replicas=0)
    try:
        for node in cluster.nodes:
            node.set("cluster-node-timeout", 15000)
        run = cli("run", "-v", "job", "true", LOCKKEEPER_URL=cluster.url)
        assert run.returncode == 0
        assert f"{SAYS} 24500 ms" in run.stderr and "a lease of 45 s" in run.stderr
        for node in cluster.nodes:
            node.set("cluster-node-timeout", 5000)
        assert SAYS not in cli("run", "-v", "job", "true", LOCKKEEPER_URL=cluster.url).stderr
    finally:
        cluster.kill()
