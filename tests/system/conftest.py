"""The system tests' own fixtures and marks; the rest stands in fixtures.py."""
from __future__ import annotations

import functools
import pathlib
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "history")]

from certificates import Certificates  # noqa: E402  (behind the path)
from clusters import PATIENT_MS, Cluster  # noqa: E402
from deployments import MASTER, FakeSentinel, Replicas, Watched  # noqa: E402
from fixtures import (background, driver, folder, history, keeper, make_keeper,  # noqa: E402,F401
                      make_proxy, make_server, proxy, server)
from long_hold import LongHold  # noqa: E402


def pytest_collection_modifyitems(items):
    """Tests marked `last` go to the end: they watch something that takes its time meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def pytest_configure(config):
    config.addinivalue_line("markers", "last: runs after all others")
    config.addinivalue_line("markers", "slow: takes several seconds by its nature")


@pytest.fixture
def deploy(folder):
    """deploy(Replicas, Watched or Cluster, **options): it runs until the test ends."""
    made = []

    def make(kind, **options):
        own = folder / f"deployment{len(made)}"
        own.mkdir()
        made.append(kind(own, **options))
        return made[-1]

    yield make
    for deployment in made:
        deployment.kill()


@pytest.fixture
def replicas(deploy):
    """replicas(**options): a master and its replicas."""
    return functools.partial(deploy, Replicas)


@pytest.fixture
def watched(deploy):
    """watched(**options): the same with sentinels."""
    return functools.partial(deploy, Watched)


@pytest.fixture
def named():
    """named([place, id, TLS or nothing], …): sentinels that say so, and the URL that lists them."""
    made = []

    def make(*rows) -> str:
        made.extend(FakeSentinel(*row) for row in rows)
        return ("redis-sentinel://" +
                ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in made) + f"/{MASTER}")

    make.made = made
    yield make
    for sentinel in made:
        sentinel.stop()


@pytest.fixture
def clusters(deploy):
    """clusters(**options): three masters with a replica each, for a test that breaks them."""
    return functools.partial(deploy, Cluster)


@pytest.fixture(scope="module")
def standing(request):
    """A cluster takes seconds to form, so the tests of a file share one. The file may state its
    CLUSTER_NODE_TIMEOUT_MS."""
    node_timeout_ms = getattr(request.module, "CLUSTER_NODE_TIMEOUT_MS", PATIENT_MS)
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        made = Cluster(pathlib.Path(folder), node_timeout_ms=node_timeout_ms)
        yield made
        made.kill()


@pytest.fixture
def cluster(standing):
    """The one that they share, whole. A test gives back the slots that it moves, and uses names of
    its own; which of its nodes are masters changes."""
    standing.wait()
    return standing


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session", autouse=True)
def long_hold(request):
    """Begun with the session, but only where its test is going to run."""
    if not any(item.name == "test_held_past_40_seconds" for item in request.session.items):
        yield None
        return
    hold = LongHold()
    yield hold
    hold.end()
