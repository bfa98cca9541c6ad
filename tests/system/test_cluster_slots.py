"""redis-cluster://: a slot moves to another master, with the locks that are in it.

As a whole, where the server can do that (Valkey 9), or key by key. In the latter case the server
refuses each script of several keys, unless all of them exist and are on the same node, until the
slot has moved (TRYAGAIN). So some calls succeed only when the move is over: ONE_KEY names the kinds
of which each call has a single key. And on the old node a script fails in the middle as soon as it
uses a key that it has deleted itself: that might have moved.
"""
from __future__ import annotations

import os
import signal
import time

import pytest

from clusters import maps_asked, slot_of
from keeper import EVENT_LOST
from moving import EVERY_LOCK, Contest, asleep, rival_of
from waiting import never, until

ONE_KEY = ("lock", "spin", "plain", "multi")
LEASE_MS = 2000


class Move:
    """A slot of the first shard that goes to the second."""

    def __init__(self, cluster, by_keys: bool = True):
        self.by_keys = by_keys
        self.cluster, self.to = cluster, cluster.master(1)
        self.tag = cluster.name_on(0, "tag")
        self.slot = slot_of(self.tag)

    def name(self, like: str) -> str:
        return f"{{{self.tag}}}{like}"

    def begin(self) -> None:
        self.cluster.begin_move(self.slot, self.to)

    def keys(self, most: int | None = None) -> list[str]:
        return self.cluster.move_keys(self.slot, self.to, most)

    def end(self) -> None:
        self.cluster.end_move(self.slot, self.to)

    def whole(self) -> None:
        if self.by_keys:
            self.cluster.move_slot(self.slot, self.to)
        else:
            self.cluster.move_whole_slot(self.slot, self.to)

    def back(self) -> None:
        home = self.cluster.master(0)
        if self.by_keys:
            self.cluster.give_slot_back(self.slot)
        elif self.cluster.owner(self.slot) is not home:
            self.cluster.move_whole_slot(self.slot, home)


@pytest.fixture
def move(cluster, request):
    made = Move(cluster, getattr(request, "param", "keys") == "keys")
    if not made.by_keys and not cluster.moves_whole_slots():
        pytest.skip("this server moves slots key by key")
    yield made
    made.back()


EACH_WAY = pytest.mark.parametrize("move", ["keys", "whole"], indirect=True)


@EACH_WAY
@pytest.mark.parametrize("messages", ["plain", "sharded", "both"])
def test_moved_while_held(move, make_keeper, messages):
    """There and back: the holder keeps each kind, its release is heard, the waiter gets it."""
    names = {kind: move.name(kind) for kind in EVERY_LOCK}
    contest = Contest(make_keeper, move.cluster.url, names, LEASE_MS, messages=messages)
    move.whole()
    contest.is_kept()
    assert all(move.to.call("EXISTS", name) == 1 for name in names.values())
    move.back()
    contest.is_kept()
    move.whole()
    contest.hand_over()
    until(lambda: not any(move.to.call("EXISTS", name) for name in names.values()), 10, "all free")


def test_a_move_is_no_reason_to_ask_for_maps(move, make_keeper):
    """ASK says where one key is, and who has the slot stays the same: nobody is asked for the map
    but once a second, whatever the client does in the slot."""
    keeper = make_keeper(move.cluster.url)
    keeper.call("ping").ok()
    move.begin()
    keeper.call("acquire", move.name("asked")).ok()  # connections ask as well: they are made here
    keeper.call("release", move.name("asked")).ok()
    before, begun, pairs = maps_asked(move.cluster.nodes), time.monotonic(), 0
    while time.monotonic() < begun + 2:
        keeper.call("acquire", move.name("asked")).ok()
        keeper.call("release", move.name("asked")).ok()
        pairs += 1
    rounds = (maps_asked(move.cluster.nodes) - before) / len(move.cluster.nodes)
    assert pairs > 10 and rounds <= (time.monotonic() - begun) / 0.75 + 3, (rounds, pairs)


@pytest.mark.parametrize("kind", [kind for kind in EVERY_LOCK if kind not in ONE_KEY])
def test_several_keys_wait_for_the_end_of_the_move(move, make_keeper, kind):
    """Nothing ran, so no call fails for that; and a free lock is granted once, to one."""
    name, url = move.name(kind), move.cluster.url
    one, other = make_keeper(url), make_keeper(url)
    one.call("ping").ok()
    move.begin()
    waits = [keeper.say("within", name, kind=rival_of(kind), wait=60_000, lease=60_000)
             for keeper in (one, other)]
    limited = one.call("within", name, kind=kind, thread="limited", wait=500)
    limited.is_code("LK_ETIMEDOUT", "LK_EUNAVAILABLE", "LK_EUNREACHABLE",
                    "LK_EMAYBEHELD")  # the last try has no answer yet
    assert limited.took < 4
    move.keys()
    move.end()
    first = until(lambda: [wait for wait in waits if wait.done], 20, "one has it")[0]
    first.result().ok()
    holder = (one, other)[waits.index(first)]
    assert sum(wait.done for wait in waits) == 1, "two owners"
    holder.call("release", name, kind=rival_of(kind)).ok()
    waits[1 - waits.index(first)].result(20).ok()


@pytest.mark.parametrize("moved", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("kind", EVERY_LOCK)
def test_released_within_the_move(move, make_keeper, kind, moved):
    """At once, or when the move is over: the waiter gets it, and nothing is left behind. The fair
    lock's script may have failed behind its first write, so the caller may be told that."""
    name = move.name(kind)
    contest = Contest(make_keeper, move.cluster.url, {kind: name}, 10_000)
    move.begin()
    if moved:
        move.keys()
    released = contest.holder.say("release", name, kind=kind)
    if kind in ONE_KEY:
        released.result(10).ok()
    else:
        until(lambda: released.done or asleep(contest.holder), 10, "it is done, or waits")
    move.keys()
    move.end()
    halfway = ("LK_EMAYBEHELD",) if kind == "fair" and not moved else ()
    contest.has_it(kind, released.result(20).is_code("OK", *halfway).end_ns)
    until(lambda: not move.to.call("EXISTS", name), 10, "it is free")


@pytest.mark.parametrize("queued", [0, 1])
def test_extended_within_the_move(move, make_keeper, queued):
    """Of the two keys of a read hold one has moved: the call waits for the other."""
    keeper, name = make_keeper(move.cluster.url), move.name("read")
    keeper.call("acquire", name, kind="read", queue=queued, lease=60_000).ok()
    refused = refusals(move.cluster)
    move.begin()
    assert len(move.keys(1)) == 1
    extends = keeper.say("extend", name, kind="read", queue=queued, lease=90_000)
    until(lambda: extends.done or refusals(move.cluster) > refused + 2, 10, "it is tried")
    move.keys()
    move.end()
    extends.result(20).ok()


def test_keys_of_one_slot_on_two_nodes(move, make_keeper):
    """Many locks of the slot, half of them moved, are renewed in one turn of the watchdog."""
    names = [move.name(f"lock{number}") for number in range(20)]
    keeper = make_keeper(move.cluster.url, watchdog_ms=LEASE_MS)
    keeper.listen()
    for name in names:
        keeper.call("acquire", name).ok()
    move.begin()
    assert len(move.keys(10)) == 10
    end = time.monotonic() + 2 * LEASE_MS / 1000
    while time.monotonic() < end:  # it sleeps, so that many are due at once, in one script
        os.kill(keeper.pid, signal.SIGSTOP)
        time.sleep(0.15)
        os.kill(keeper.pid, signal.SIGCONT)
        time.sleep(0.05)
    assert not keeper.events_of(EVENT_LOST), "some are lost"
    assert all(keeper.call("is_held", name).result == 1 for name in names)
    multi = ",".join(move.name(f"part{number}") for number in range(3))
    waits = keeper.say("within", multi, thread="multi", kind="multi", wait=30_000)
    move.keys()
    move.end()
    waits.result().ok()
    for name in names:
        keeper.call("release", name).ok()
    assert not any(move.to.call("EXISTS", name) for name in names)


# What each call adds to the count. Those of the same permits come one after the other.
CALLS = {
    "semaphore": [("acquire", 1, -1), ("within", 2, -2), ("release", 1, 1), ("add", 4, 4),
                  ("release_if_exists", 1, 1), ("available", 0, 0)],
    "permits": [("acquire", 1, -1), ("within", 2, -2), ("add", 4, 4), ("extend", 0, 0),
                ("lease", 0, 0), ("taken", 0, 0), ("available", 0, 0)],
    "latch": [("down", 1, -1), ("down", 2, -2), ("count", 0, 0)],
}


class Count:
    """A counter with nine, of which a permit is taken where there are any."""

    def __init__(self, move, keeper, kind: str):
        self.move, self.keeper, self.kind, self.name = move, keeper, kind, move.name(kind)
        keeper.call("set", self.name, kind=kind, count=9).ok()
        self.ids = self.take() if kind == "permits" else ""

    def take(self) -> str:
        return self.keeper.call("acquire", self.name, kind=self.kind, count=1).ok()["ids"]

    def say(self, verb: str, count: int, thread: str):
        return self.keeper.say(verb, self.name, thread=thread, kind=self.kind, count=count,
                               ids=self.ids, lease=60_000, wait=60_000)

    def value(self) -> int:
        return int(self.move.cluster.node_of(self.name).call("GET", self.name))

    def all_calls(self) -> tuple[list, int]:
        """Begins all of them; and what they add together."""
        rows = CALLS[self.kind]
        calls = [self.say(verb, count, f"t{at}") for at, (verb, count, _) in enumerate(rows)]
        adds = sum(row[2] for row in rows)
        if self.kind == "permits":  # in the thread of an earlier call, which uses the same permit
            calls.append(self.say("release", 1, "t3"))
            adds += 1
        return calls, adds


def refusals(cluster) -> int:
    """How many scripts were refused because their keys are being moved."""
    lines = "".join(node.call("INFO", "errorstats").decode() for node in cluster.masters())
    return sum(int(line.split("count=")[1]) for line in lines.splitlines() if "TRYAGAIN" in line)


@pytest.mark.parametrize("moved", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("kind", CALLS)
def test_counters_within_the_move(move, make_keeper, kind, moved):
    """There and back. What is called before its end is done once, when it can be: nothing of a
    call has run that was refused meanwhile."""
    count = Count(move, make_keeper(move.cluster.url, command_timeout_ms=20_000), kind)
    for to in (move.to, move.cluster.master(0)):
        before, refused = count.value(), refusals(move.cluster)
        move.cluster.begin_move(move.slot, to)
        if moved:
            assert count.name in move.cluster.move_keys(move.slot, to)
        calls, adds = count.all_calls()
        until(lambda n=refused: refusals(move.cluster) >= n + 3 * len(calls), 20, "they are tried")
        move.cluster.move_keys(move.slot, to)
        move.cluster.end_move(move.slot, to)
        for call in calls:
            call.result(20).is_code("OK")
        assert count.value() == before + adds
        count.ids = count.take() if kind == "permits" else ""


@pytest.mark.parametrize("kind, verb", [("semaphore", "add"), ("semaphore", "release"),
                                        ("permits", "add"), ("latch", "down")])
def test_counters_that_are_called_too_early(move, make_keeper, kind, verb):
    """The move takes longer than the call may: it fails, and says that nothing was changed."""
    count = Count(move, make_keeper(move.cluster.url, command_timeout_ms=300), kind)
    before = count.value()
    move.begin()
    answer = count.say(verb, 1, "early").result(20)
    move.keys()
    move.end()
    said = answer.is_code("LK_EUNAVAILABLE", "LK_EUNREACHABLE").message
    assert "TRYAGAIN" in said or "not sent: its keys are being moved" in said
    never(lambda: count.value() != before, 0.5, "it was changed all the same")
