"""Redisson and we on a master that sentinels watch, and in a cluster: every kind, each way round.

Redisson's messages in a cluster are sharded by default, and plain where it is told so.
"""
from __future__ import annotations

import itertools
import pathlib
import tempfile

import pytest

import checker
import mixed
from clusters import PATIENT_MS, Cluster
from deployments import Watched
from keeper import Keeper
from meeting import begin_wait, soon

PLACES = {
    # name: (deployment, messages of Redisson, ours)
    "sentinel": ("trio", "plain", "plain"),
    "cluster-sharded": ("cluster", "sharded", "sharded"),
    "cluster-sharded-both": ("cluster", "sharded", "both"),
    "cluster-plain": ("cluster", "plain", "plain"),
    "cluster-plain-both": ("cluster", "plain", "both"),
}
ONE_OF_EACH = pytest.mark.parametrize("place", ["sentinel", "cluster-sharded"], indirect=True)
PAIRS = [("lock", "lock"), ("fair", "fair"), ("write", "write"), ("write", "read"),
         ("read", "write"), ("fenced-java", "fenced-java"), ("spin", "spin"), ("multi", "multi")]
"""What one holds, and what the other waits for."""


class Place:
    """A C client and one of Redisson on a deployment, and names that no test has used."""

    def __init__(self, deployment, jvm, messages: str):
        self.deployment, self.jvm, self.numbers = deployment, jvm, itertools.count()
        self.ours = Keeper(deployment.url, messages=messages)

    def name(self, kind: str, shard: int = 0) -> str:
        if kind == "multi":
            return ",".join(self.name("part", index) for index in range(3))
        if isinstance(self.deployment, Cluster):
            return self.deployment.name_on(shard, kind)
        return f"{kind}-{next(self.numbers)}"

    def names(self, kind: str) -> list[str]:
        """One on each master."""
        shards = len(getattr(self.deployment, "shards", [0]))
        return [self.name(kind, shard) for shard in range(shards if kind != "multi" else 1)]


@pytest.fixture(scope="module")
def cluster():
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        made = Cluster(pathlib.Path(folder), replicas=0, node_timeout_ms=PATIENT_MS)
        yield made
        made.kill()


@pytest.fixture(scope="module")
def trio():
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        made = Watched(pathlib.Path(folder))
        yield made
        made.kill()


@pytest.fixture(scope="module", params=PLACES)
def place(request, driver, jvm):
    deployment, of_java, of_ours = PLACES[request.param]
    made = Place(request.getfixturevalue(deployment), jvm, of_ours)
    jvm.open(made.deployment.url, messages=of_java)
    yield made
    jvm.call("close", thread="-")
    made.ours.stop()


@pytest.fixture(params=["ours-java", "java-ours"])
def pair(request, place):
    """Who holds, and who waits."""
    return (place.ours, place.jvm) if request.param == "ours-java" else (place.jvm, place.ours)


@pytest.mark.parametrize("held, wanted", PAIRS, ids=["-for-".join(pair) for pair in PAIRS])
def test_a_release_wakes_the_other(place, pair, held, wanted):
    """On each master. Until then the other is refused."""
    giver, taker = pair
    for name in place.names(held):
        giver.call("acquire", name, kind=held).ok()
        taker.call("try", name, kind=wanted).is_code("LK_EBUSY")
        waits = begin_wait(taker, name, thread=name, kind=wanted)
        soon(waits, giver.call("release", name, kind=held).ok())
        giver.call("try", name, kind=held).is_code("LK_EBUSY")
        taker.call("release", name, kind=wanted, thread=name).ok()


@pytest.mark.parametrize("kind", ["semaphore", "permits"])
def test_a_permit_wakes_the_other(place, pair, kind):
    giver, taker = pair
    for name in place.names(kind):
        giver.call("set", name, kind=kind, count=1).ok()
        ids = giver.call("acquire", name, kind=kind).ok().get("ids", "")
        taker.call("try", name, kind=kind).is_code("LK_EBUSY")
        waits = begin_wait(taker, name, thread=name, kind=kind)
        soon(waits, giver.call("release", name, kind=kind, ids=ids).ok())
        giver.call("try", name, kind=kind).is_code("LK_EBUSY")


def test_a_latch_opens_for_both(place, pair):
    """By the last count-down, whosever it is."""
    giver, taker = pair
    for name in place.names("latch"):
        giver.call("set", name, kind="latch", count=2).ok()
        waits = [begin_wait(keeper, name, thread=name, kind="latch") for keeper in pair]
        taker.call("down", name, kind="latch").ok()
        assert giver.call("count", name, kind="latch").ok().result == 1
        assert not any(wait.done for wait in waits)
        down = giver.call("down", name, kind="latch").ok()
        for wait in waits:
            soon(wait, down)


@ONE_OF_EACH
@pytest.mark.parametrize("kind", ["lock", "fair", "write", "fenced-java", "spin"])
def test_exclusion_under_load(place, history, kind):
    pairs = (100, 40, 300) if kind != "spin" else (30, 20, 10_000)
    claims = checker.check(mixed.contend(
        place.ours, place.jvm, history, name=place.name(kind), kind=kind, hold_us=200,
        ours_pairs=pairs[0], theirs_pairs=pairs[1], pause_us=pairs[2]))
    assert mixed.switches(claims) > 10


@ONE_OF_EACH
def test_readers_and_writers_under_load(place, history):
    mixed.read_and_write(place.ours, place.jvm, history, place.name("book"), (50, 20))


@ONE_OF_EACH
def test_multi_locks_in_opposite_order(place, history):
    mixed.take_several(place.ours, place.jvm, history, place.name("multi"), (30, 12))


@ONE_OF_EACH
@pytest.mark.parametrize("kind", ["semaphore", "permits"])
def test_never_more_out_than_there_are(place, history, kind):
    mixed.take_permits(place.ours, place.jvm, history, place.name(kind), kind, (80, 40))


@pytest.mark.parametrize("place, messages", [("cluster-sharded", "plain"),
                                             ("cluster-plain", "sharded")], indirect=["place"])
def test_messages_of_the_other_kind(place, make_ours, messages):
    """They wake nobody: the other waits until the lease ends, and there is one owner all the same.
    """
    stranger, java = make_ours(place.deployment.url, messages=messages), place.jvm
    for giver, taker in ((stranger, java), (java, stranger)):
        name = place.name("lock")
        giver.call("within", name, wait=1000, lease=2000).ok()
        waits = begin_wait(taker, name)
        giver.call("release", name).ok()
        waits.result().ok()
        giver.call("try", name).is_code("LK_EBUSY")
        taker.call("release", name, thread="waiter").ok()
