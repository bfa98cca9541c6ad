"""Fixtures: servers, C clients, and the other libraries' clients. See peers.py, docs/interop.md."""
from __future__ import annotations

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent / "history")]

import peers  # noqa: E402  (behind the path)
from fixtures import driver, folder, history, make_server, server  # noqa: E402,F401
from keeper import Keeper  # noqa: E402


@pytest.fixture
def make_ours(driver, server):  # noqa: F811
    """make_ours(**options): a process with a C client; ended, and looked at, afterwards."""
    made = []

    def make(url=None, **options) -> Keeper:
        made.append(Keeper(url or server.unix_url, **options))
        return made[-1]

    yield make
    for keeper in made:
        keeper.stop()


@pytest.fixture
def ours(make_ours):
    return make_ours()


def started(program) -> Keeper:
    """A process of a peer; the test fails with the reason where it cannot be had."""
    try:
        return Keeper(program=program())
    except peers.Unavailable as reason:
        pytest.fail(f"{program.__name__} cannot be had: {reason}", pytrace=False)


def process_fixture(program):
    @pytest.fixture(scope="session")
    def process():
        keeper = started(program)
        yield keeper
        keeper.stop()
    return process


jvm = process_fixture(peers.redisson)
spring_jvm = process_fixture(peers.spring)
redis_py = process_fixture(peers.redis_py)
redsync = process_fixture(peers.redsync)
redlock = process_fixture(peers.redlock)


@pytest.fixture
def java(jvm, server):  # noqa: F811
    """Redisson, its client named "c", in the one JVM of the session."""
    jvm.uuid = jvm.open(server.url)["uuid"]
    yield jvm
    jvm.call("close", thread="-")


@pytest.fixture
def make_jvm(server):  # noqa: F811
    """make_jvm(**options): a JVM of the test's own, to be killed."""
    made = []

    def make(**options) -> Keeper:
        made.append(started(peers.redisson))
        made[-1].open(server.url, **options)
        return made[-1]

    yield make
    for keeper in made:
        keeper.stop()


@pytest.fixture(params=["redis_py", "redsync", "redlock"])
def other(request, server):  # noqa: F811
    """A client of the family of string locks."""
    keeper = request.getfixturevalue(request.param)
    keeper.open(server.url)
    return keeper


@pytest.fixture
def make_doomed(request, server):  # noqa: F811
    """make_doomed(keeper): another process like `keeper`, to be killed."""
    made = []

    def make(like: Keeper) -> Keeper:
        made.append(Keeper(program=like.process.args))
        made[-1].open(server.url)
        return made[-1]

    yield make
    for keeper in made:
        keeper.stop()
