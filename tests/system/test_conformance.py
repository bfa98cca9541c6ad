"""What each kind of lock does, on every deployment, over every transport, called in every way.

A kind, a deployment and a way of calling are a line each. All kinds are tried at the same time,
each under a name of its own, since most of a test is waiting. LOCKKEEPER_CONFORMANCE=all tries
every combination; without it each deployment, and each transport and way on some.
"""
from __future__ import annotations

import itertools
import os
import pathlib
import tempfile
import time
from typing import NamedTuple

import pytest

import places
from keeper import Keeper
from waiting import never, until

LEASE_MS = 3000
SHORT_MS = 800
SOON_S = 5.0  # far below what a waiter would sleep that had not heard of a release

WAYS = ("calls", "queue", "loop")
"""A calling thread; a completion queue; the same of a client without threads."""


class Kind(NamedTuple):
    """What sets a kind of lock apart."""
    rival: str = ""  # the kind that it excludes; "": its own
    reentrant: bool = True
    shared: bool = False  # several owners may have it
    fences: bool = False
    quorum: bool = False  # it is on several nodes
    names: int = 1  # that one lock has


KINDS = {
    "lock": Kind(),
    "fair": Kind(),
    "fenced": Kind(fences=True),
    "fenced-java": Kind(fences=True),
    "spin": Kind(),
    "plain": Kind(reentrant=False),
    "read": Kind(rival="write", shared=True),
    "write": Kind(rival="read"),
    "read-polite": Kind(rival="write-preferred", shared=True),
    "write-preferred": Kind(rival="read-polite"),
    "multi": Kind(names=3),
    "red": Kind(quorum=True),
    "red-plain": Kind(quorum=True, reentrant=False),
}
COUNTERS = ("semaphore", "permits", "latch")


def combinations():
    """Places and ways: each place by calls; a server, a cluster and a mixed quorum in each way."""
    every = os.environ.get("LOCKKEEPER_CONFORMANCE") == "all"
    in_each_way = ("single-tcp", "cluster-tcp", "quorum-mixed")
    for name in places.ALWAYS + (places.MORE if every else ()):
        for way in WAYS if every or name in in_each_way else WAYS[:1]:
            yield pytest.param(name, way, id=f"{name}-{way}")


pytestmark = pytest.mark.parametrize("place, way", list(combinations()))


@pytest.fixture(scope="module", autouse=True)
def every_kind(driver):
    """Nothing that the driver can make is missing."""
    keeper = Keeper()
    operations = keeper.call("list").operations.split()
    keeper.stop()
    kinds = {operation.partition(":")[0] for operation in operations} - {"client"}
    assert kinds == {*KINDS, *COUNTERS}


@pytest.fixture(scope="module")
def standing(certificates):
    """standing(name): a place takes seconds to set up, so the tests share it."""
    made = {}
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        def get(name: str) -> places.Place:
            if name not in made:
                own = pathlib.Path(folder, name)
                own.mkdir()
                made[name] = places.place(name, own, certificates)
            return made[name]

        yield get
        for each in made.values():
            each.kill()


class User:
    """A process with one client for each node. Calls of one owner on one kind follow each other."""

    def __init__(self, keeper, where, way: str):
        self.keeper, self.where, self.way = keeper, where, way
        for number, url in enumerate(where.urls):
            keeper.open(url, c=f"n{number}", watchdog_ms=LEASE_MS, threadless=int(way == "loop"),
                        **where.options)

    def say(self, verb: str, kind: str, name: str, owner: str = "one", **arguments):
        about = KINDS.get(kind, Kind())
        if about.names > 1:
            name = ",".join(f"{name}{number}" for number in range(about.names))
        if about.quorum:
            arguments["nodes"] = ",".join(f"n{number}" for number in range(len(self.where.urls)))
        return self.keeper.say(verb, name, thread=f"{owner}-{kind}", kind=kind, c="n0",
                               queue=int(self.way != "calls"), **arguments)


class Round:
    """One name for each kind, and what is done with all of them at once."""

    serial = itertools.count()

    def __init__(self, kinds: list[str]):
        number = next(self.serial)
        self.names = {kind: f"{kind}-{number}" for kind in kinds}

    def of(self, condition) -> Round:
        """The same, of some kinds."""
        return Round([kind for kind in self.names if condition(KINDS[kind])])

    def say(self, user: User, verb: str, rival: bool = False, **arguments) -> dict:
        """Begins a call on each; by a rival: of the kind that it excludes."""
        return {kind: user.say(verb, KINDS[kind].rival or kind if rival else kind, name,
                               **arguments) for kind, name in self.names.items()}

    def all(self, user: User, verb: str, *codes: str, **arguments) -> dict:
        """The answers, each of which must have one of the codes."""
        begun = self.say(user, verb, **arguments)
        return {kind: call.result(60).is_code(*(codes or ("OK",))) for kind, call in begun.items()}

    def count(self, user: User, verb: str, result: int, **arguments) -> None:
        begun = self.say(user, verb, **arguments)
        counted = {kind: call.result(20).result for kind, call in begun.items()}
        assert counted == dict.fromkeys(self.names, result)


@pytest.fixture
def users(standing, place, way, make_keeper):
    """users(count): so many processes that go that way."""
    return lambda count: [User(make_keeper(), standing(place), way) for _ in range(count)]


@pytest.fixture
def locks(place):
    quorum = place.startswith("quorum")
    return Round([kind for kind, about in KINDS.items() if about.quorum == quorum])


def test_excludes(users, locks):
    """Another owner, in the same process or another, and its rival alike."""
    one, other = users(2)
    locks.all(one, "acquire")
    locks.count(one, "is_held", 1)
    locks.all(other, "try", "LK_EBUSY", rival=True)
    locks.all(one, "try", "LK_EBUSY", rival=True, owner="two")
    locks.all(other, "release", "LK_ENOTOWNER")
    locks.all(one, "release", "LK_ENOTOWNER", owner="two")
    locks.all(one, "release")
    locks.count(one, "is_held", 0)
    locks.all(other, "try", rival=True)
    locks.all(other, "release", rival=True)


def test_reentrant(users, locks):
    one, other = users(2)
    locks = locks.of(lambda about: about.reentrant)
    for _ in range(2):
        locks.all(one, "acquire")
    locks.count(one, "hold_count", 2)
    locks.all(one, "release")
    locks.all(other, "try", "LK_EBUSY", rival=True)
    locks.all(one, "release")
    locks.all(other, "try", rival=True)
    locks.all(one, "release", "LK_ENOTOWNER")
    locks.all(other, "release", rival=True)


def test_a_waiter_gets_it(users, locks):
    one, other = users(2)
    locks.all(one, "acquire")
    waits = locks.say(other, "within", wait=60_000, rival=True)
    never(lambda: [kind for kind, wait in waits.items() if wait.done], 0.5, "two owners")
    released = locks.all(one, "release")
    for kind, wait in waits.items():
        granted = wait.result(30).ok()
        assert granted.end_ns - released[kind].end_ns < SOON_S * 1e9, f"{kind} was not heard"
    locks.all(other, "release", rival=True)


def test_a_wait_has_a_limit(users, locks):
    """And who gave up is in nobody's way."""
    one, other = users(2)
    locks.all(one, "acquire")
    locks.all(other, "try", "LK_EBUSY", rival=True)  # connected: who is not is told another reason
    over = ["LK_ETIMEDOUT"]
    if any(KINDS[kind].quorum for kind in locks.names):
        over.append("LK_EMAYBEHELD")  # nodes too busy to answer the last try, which has 25 ms
    for kind, wait in locks.all(other, "within", *over, wait=1000, rival=True).items():
        assert wait.took >= 1, kind
        if "no answer in time" not in wait.message:
            wait.is_code("LK_ETIMEDOUT")
    locks.all(one, "release")
    locks.all(one, "within", wait=20_000)
    locks.all(one, "release")


def test_a_wait_is_cancelled(users, locks):
    one, other = users(2)
    locks.all(one, "acquire")
    waits = {kind: other.say("within", KINDS[kind].rival or kind, name, wait=60_000, cancel=kind)
             for kind, name in locks.names.items()}
    never(lambda: [wait.answer for wait in waits.values() if wait.done], 0.3, "two owners")
    for kind, wait in waits.items():
        until(lambda: other.keeper.cancel(kind) or wait.done, 10, f"{kind} is cancelled")
        wait.result().is_code("LK_ECANCELLED")
    locks.count(one, "is_held", 1)
    locks.all(one, "release")


def test_it_is_renewed(users, locks):
    one, other = users(2)
    locks.all(one, "acquire")
    waits = locks.say(other, "within", wait=60_000, rival=True)
    never(lambda: [kind for kind, wait in waits.items() if wait.done], 1.5 * LEASE_MS / 1000,
          "two owners")
    locks.count(one, "is_held", 1)
    locks.all(one, "release")
    for wait in waits.values():
        wait.result(30).ok()
    locks.all(other, "release", rival=True)


def test_a_named_lease_ends(users, locks):
    """The owner has known the end before another gets it."""
    one, other = users(2)
    granted = locks.all(one, "acquire", lease=SHORT_MS)
    for kind, wait in locks.all(other, "within", wait=60_000, rival=True).items():
        assert wait.end_ns > granted[kind].deadline_ns, f"two owners: {kind}"
    locks.count(one, "is_held", 0)
    locks.all(one, "release", "LK_ELOST")
    locks.all(other, "release", rival=True)


def test_a_lease_is_extended(users, locks):
    one, other = users(2)
    locks.all(one, "acquire", lease=SHORT_MS)
    locks.all(one, "extend", lease=20_000)
    waits = locks.say(other, "within", wait=60_000, rival=True)
    never(lambda: [kind for kind, wait in waits.items() if wait.done], 1.5 * SHORT_MS / 1000,
          "two owners")
    for kind, left in locks.all(one, "remaining").items():
        assert left.value > 10_000, kind
    locks.all(one, "release")
    for wait in waits.values():
        wait.result(30).ok()
    locks.all(other, "release", rival=True)


def test_fence_tokens_rise(users, locks):
    one, other = users(2)
    locks = locks.of(lambda about: about.fences)
    tokens = {kind: [] for kind in locks.names}
    for user in (one, other, one):
        for kind, granted in locks.all(user, "acquire").items():
            tokens[kind].append(granted.fence)
        locks.all(user, "release")
    for kind, seen in tokens.items():
        assert seen == sorted(set(seen)), kind


def test_one_at_a_time(users, locks):
    """Several owners in three processes: each gets it, and never two of them."""
    locks = locks.of(lambda about: not about.shared)
    waits = {kind: {} for kind in locks.names}
    for user, owner in itertools.product(users(3), ("one", "two", "three")):
        begun = locks.say(user, "within", wait=100_000, owner=owner, lease=60_000)
        for kind, wait in begun.items():
            waits[kind][wait] = user, owner
    end = time.monotonic() + 60
    while any(waits.values()):
        assert time.monotonic() < end, {kind: len(left) for kind, left in waits.items()}
        for kind, left in waits.items():
            granted = [wait for wait in left if wait.done]
            assert len(granted) <= 1, (f"two owners: {kind}", [wait.result() for wait in granted])
            for wait in granted:
                wait.result().ok()
                user, owner = left.pop(wait)
                user.say("release", kind, locks.names[kind], owner).result().ok()


def test_counters(users, place):
    """A waiter of each gets what another gives; of permits all that it asked for, or none."""
    if place.startswith("quorum"):
        pytest.skip("there are no counters on a quorum")
    one, other = users(2)
    names = {kind: f"{kind}-{next(Round.serial)}" for kind in COUNTERS}

    def say(user: User, verb: str, kind: str, **arguments):
        return user.say(verb, kind, names[kind], **arguments)

    counts = {"semaphore": 2, "permits": 2, "latch": 1}
    for kind in names:
        say(one, "set", kind, count=counts[kind]).result().ok()
    taken = {kind: say(one, "acquire", kind, count=1).result().ok()
             for kind in ("semaphore", "permits")}
    waits = {kind: say(other, "within", kind, count=counts[kind], wait=60_000) for kind in names}
    never(lambda: [wait.line for wait in waits.values() if wait.done], 0.5, "given twice")
    for kind in taken:
        say(one, "release", kind, count=1, ids=taken[kind].get("ids", "")).result().ok()
    say(one, "down", "latch", count=1).result().ok()
    had = {kind: wait.result(30).ok() for kind, wait in waits.items()}
    for kind in taken:
        say(other, "release", kind, count=2, ids=had[kind].get("ids", "")).result().ok()
        say(one, "try", kind, count=2).result().ok()
