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
from moving import EVERY_LOCK, Contest
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
