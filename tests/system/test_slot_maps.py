"""redis-cluster://: what nodes say of all slots, told by nodes that say what they are told to.

Maps that are half, stale, empty or different; a cluster that is down; a node that leaves.
"""
from __future__ import annotations

import itertools
import time

import pytest

from clusters import SLOTS, slot_of
from fake_cluster import Neighbour, connected, is_script, taken
from keeper import EVENT_LOST
from resp import ErrorReply
from waiting import until

LEASE_MS = 2000
DOWN = ErrorReply("CLUSTERDOWN The cluster is down")


@pytest.fixture
def keeper(fake, make_keeper):
    return connected(make_keeper, fake, watchdog_ms=LEASE_MS)


def kept(keeper, fake, name: str, node) -> None:
    """For longer than its lease; then it is released, and nothing is left."""
    end = time.monotonic() + 1.5 * LEASE_MS / 1000
    until(lambda: time.monotonic() > end, 10)
    assert keeper.call("is_held", name).result == 1 and not keeper.events_of(EVENT_LOST)
    assert fake.holders(name) == [node]
    keeper.call("release", name).ok()
    assert not fake.holders(name)


def test_a_cluster_that_is_down(fake, keeper):
    """What is refused has not run: the call says so. A wait goes on when the cluster is back, and
    what was held through it is kept."""
    held, name = fake.name_on(fake.nodes[0]), fake.name_on(fake.nodes[1])
    keeper.listen()
    keeper.call("acquire", held).ok()
    for node in fake.nodes:
        node.rule = lambda words: DOWN if is_script(words) else None
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert "CLUSTERDOWN" in seen.message and seen.took < 3, seen.message
    before = fake.scripts()
    seen = keeper.call("within", name, wait=500).is_code("LK_EUNAVAILABLE")
    assert "CLUSTERDOWN" in seen.message and 0.4 < seen.took < 3, seen.message
    assert fake.scripts() - before < 30
    waits = keeper.say("acquire", name)
    until(lambda: keeper.stats().waiting == 1, 5, "it waits")
    for node in fake.nodes:
        node.rule = lambda words: None
    waits.result().ok()
    assert fake.holders(name) == [fake.nodes[1]]
    keeper.call("release", name).ok()
    kept(keeper, fake, held, fake.nodes[0])


def test_a_node_leaves(fake, keeper, make_keeper):
    """Its slots and keys have gone to another. The holder keeps its lock, the waiter gets it."""
    first, _, third = fake.nodes
    held, free = fake.name_on(third), fake.name_on(third)
    other = connected(make_keeper, fake)
    keeper.listen()
    keeper.call("acquire", held).ok()
    waits = other.say("acquire", held)
    until(lambda: third.count("SUBSCRIBE"), 5, "it listens")
    fake.move(held, third, first)
    fake.ranges = [[begin, end, first if node is third else node]
                   for begin, end, node in fake.ranges]
    third.stop()
    taken(keeper, fake, free, first)
    neighbour = Neighbour(keeper, fake, fake.nodes[1])
    end = time.monotonic() + 1.5 * LEASE_MS / 1000
    until(lambda: time.monotonic() > end, 10)
    assert keeper.call("is_held", held).result == 1 and not keeper.events_of(EVENT_LOST)
    assert fake.holders(held) == [first] and not waits.done
    keeper.call("release", held).ok()
    waits.result(10).ok()
    neighbour.was_well()
    other.call("release", held).ok()
    assert not fake.holders(held)


def half(fake) -> list:
    """The ranges without those of the last node."""
    return [row for row in fake.ranges if row[2] is not fake.nodes[-1]]


def test_half_a_map_at_the_start(fake, make_keeper):
    """What it covers is served; of the rest the call says what the server says."""
    first, _, third = fake.nodes
    covered, name, whole = fake.name_on(first), fake.name_on(third), fake.ranges
    fake.ranges = half(fake)
    keeper = make_keeper(fake.url)
    taken(keeper, fake, covered, first)
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert "Hash slot not served" in seen.message and seen.took < 3, seen.message
    seen = keeper.call("within", name, wait=300).is_code("LK_EUNAVAILABLE")
    assert "Hash slot not served" in seen.message and seen.took < 3, seen.message
    waits = keeper.say("acquire", name)
    until(lambda: keeper.stats().waiting == 1, 5, "it waits")
    fake.ranges = whole
    waits.result().ok()
    assert fake.holders(name) == [third]
    keeper.call("release", name).ok()
    taken(keeper, fake, fake.name_on(third), third)


def test_half_a_map_later(fake, keeper):
    """A lock in the other half is kept when the map is whole again within its lease."""
    third, whole = fake.nodes[2], fake.ranges
    held, name = fake.name_on(third), fake.name_on(third)
    keeper.listen()
    keeper.call("acquire", held).ok()
    neighbour = Neighbour(keeper, fake, fake.nodes[0])
    fake.ranges = half(fake)
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert "not served" in seen.message and seen.took < 3, seen.message
    fake.ranges = whole
    taken(keeper, fake, name, third)
    neighbour.was_well()
    kept(keeper, fake, held, third)


EMPTY = {"nothing": [], "number": 0, "no node": [[0, SLOTS - 1]],
         "nils": [[0, SLOTS - 1, [None, None, None]]], "an error": ErrorReply("ERR")}


def saying(words: str, answer):
    """A node that answers so."""
    wanted = words.encode().split()
    return lambda asked: answer if asked[:len(wanted)] == wanted else None


def test_empty_answers(fake, make_keeper):
    """From all, the call says what is missing, and where; from one of three, they do no harm."""
    keeper, (first, *others) = make_keeper(), fake.nodes
    for what, answer in EMPTY.items():
        for node in fake.nodes:
            node.rule = saying("CLUSTER SLOTS", answer)
        keeper.open(fake.url, c=what, client_record="off")
        seen = keeper.call("try", "some", c=what)
        seen.is_code("LK_EUNAVAILABLE", "LK_EUNREACHABLE")
        assert first.place in seen.message and seen.took < 5, (what, seen.message)
        for node in others:
            node.rule = lambda words: None
        for node in fake.nodes:
            name = fake.name_on(node)
            until(lambda name=name, c=what: keeper.call("try", name, c=c).code == "OK", 5, what)
            assert fake.holders(name) == [node]
            keeper.call("release", name, c=what).ok()


def test_a_node_that_does_not_say_who_it_is(fake, make_keeper):
    """Its view of the map still counts."""
    for node, answer in zip(fake.nodes, (b"", [], ErrorReply("ERR"))):
        node.rule = saying("CLUSTER MYID", answer)
    connected(make_keeper, fake)


def told_apart(fake) -> list:
    """A map for each node, none of which is another's."""
    (_, end, first), (begin, _, second), last = fake.ranges
    return [[[0, end + more, first], [begin + more, last[0] - 1, second], last]
            for more in range(3)]


def test_no_two_views_alike(fake, make_keeper):
    """Each node takes all slots for its own. Nobody is believed, and the call says why; until two
    of the three agree."""
    maps = [[[0, SLOTS - 1, node]] for node in fake.nodes]
    for node, slots in zip(fake.nodes, maps):
        node.slots = slots
    keeper, name = make_keeper(fake.url, client_record="off"), fake.name_on(fake.nodes[0])
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert "the nodes disagree" in seen.message and seen.took < 5, seen.message
    assert all(node.place in seen.message for node in fake.nodes) and not fake.scripts()
    fake.nodes[1].slots = maps[0]
    until(lambda: keeper.call("try", name).code == "OK", 5, "two agree")
    assert fake.holders(name) == [fake.nodes[0]]
    keeper.call("release", name).ok()


def name_in(slot: int) -> str:
    return next(name for name in (f"name{number}" for number in itertools.count())
                if slot_of(name) == slot)


def test_two_views_that_differ_in_one_slot(fake, make_keeper):
    """One for each, and the third node tells none. Names in all other slots are served; of that one
    the nodes themselves say who has it."""
    first, second, third = fake.nodes
    (first.slots, second.slots), disputed = told_apart(fake)[1::-1], fake.ranges[1][0]
    third.rule = saying("CLUSTER SLOTS", ErrorReply("ERR"))
    keeper = make_keeper(fake.url, client_record="off")
    for node in fake.nodes:
        taken(keeper, fake, fake.name_on(node), node)
    taken(keeper, fake, name_in(disputed), second)


def test_a_lock_whose_slot_two_views_dispute(fake, make_keeper):
    """It stays where it is, and so does all else of its node, all of whose slots are disputed."""
    first, second, third = fake.nodes
    keeper = connected(make_keeper, fake, watchdog_ms=LEASE_MS)
    keeper.listen()
    held = fake.name_on(second)
    keeper.call("acquire", held).ok()
    begin, end, _ = fake.ranges[1]
    first.slots = [fake.ranges[0], [begin, end, third], fake.ranges[2]]
    third.rule = saying("CLUSTER SLOTS", ErrorReply("ERR"))
    asked = [node.count("CLUSTER", "SLOTS") for node in (first, second)]
    until(lambda: all(node.count("CLUSTER", "SLOTS") > count + 1
                      for node, count in zip((first, second), asked)), 10, "it has heard the views")
    for node in fake.nodes:
        taken(keeper, fake, fake.name_on(node), node)
    kept(keeper, fake, held, second)


def test_views_that_part_later(fake, keeper):
    """The last map that most of them told stays: what is held is kept, and others are served."""
    keeper.listen()
    held = fake.name_on(fake.nodes[1])
    keeper.call("acquire", held).ok()
    for node, slots in zip(fake.nodes, told_apart(fake)):
        node.slots = slots
    asked = [node.count("CLUSTER", "SLOTS") for node in fake.nodes]
    until(lambda: all(node.count("CLUSTER", "SLOTS") > count + 1
                      for node, count in zip(fake.nodes, asked)), 10, "it has heard the views")
    for node in fake.nodes:
        taken(keeper, fake, fake.name_on(node), node)
    kept(keeper, fake, held, fake.nodes[1])


def storm(keeper, fake, name: str, node, during_s: float) -> int:
    """How often it is taken and released, and how often each node was asked for the map: not more
    than so often a second."""
    asked = [node.count("CLUSTER", "SLOTS") for node in fake.nodes]
    began, turns = time.monotonic(), 0
    while time.monotonic() < began + during_s:
        keeper.call("acquire", name).ok()
        assert turns or fake.holders(name) == [node]
        keeper.call("release", name).ok()
        turns += 1
    most = 10 + 250 * (time.monotonic() - began)
    assert all(node.count("CLUSTER", "SLOTS") - before < most
               for node, before in zip(fake.nodes, asked))
    return turns


def test_moved_without_a_change_of_the_map(fake, keeper):
    """The slot has moved, but all nodes still tell the old map: each call finds it, by one redirect
    a request at most, and the questions for the map have a bound."""
    first, second, third = fake.nodes
    old, name = fake.ranges, fake.name_on(first)
    neighbour = Neighbour(keeper, fake, third)
    fake.give(slot_of(name), second)
    for node in fake.nodes:
        node.slots = old
    before = first.count("EVALSHA"), second.count("EVALSHA")
    turns = storm(keeper, fake, name, second, 1.0)
    there = second.count("EVALSHA") - before[1]
    assert first.count("EVALSHA") - before[0] <= there and there >= 2 * turns
    assert not fake.holders(name)
    neighbour.was_well()


def test_moved_to_a_replica_of_another_shard(fake_cluster, make_keeper):
    """A node that the map does not name as a master is not written to. Said once, the call goes on;
    said always, it ends with these words."""
    fake = fake_cluster()
    first, _, third = fake.nodes
    replica = fake.add()
    fake.ranges[2].append(replica)
    keeper = make_keeper(fake.url, client_record="off", replica_acks=0)
    for node in (first, third):
        taken(keeper, fake, fake.name_on(node), node)
    name = fake.name_on(first)
    words = ErrorReply(f"MOVED {slot_of(name)} {replica.place}")
    first.script(words)
    taken(keeper, fake, name, first)
    neighbour = Neighbour(keeper, fake, third)
    first.rule = lambda asked: words if is_script(asked) else None
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert str(words) in seen.message and seen.took < 5, seen.message
    neighbour.was_well()
    first.rule = lambda asked: None
    taken(keeper, fake, name, first)
    assert replica.count("EVALSHA") == 0


def test_a_stale_map_is_mended_by_moved(fake, make_keeper):
    """The client's first map is old. One redirect, and the next calls go straight there, as the
    next map says."""
    first, second, _ = fake.nodes
    keeper, name = connected(make_keeper, fake), fake.name_on(first)
    fake.give(slot_of(name), second)
    taken(keeper, fake, name, second)
    asked = second.count("CLUSTER", "SLOTS")
    until(lambda: second.count("CLUSTER", "SLOTS") > asked, 5, "it has the new map")
    before = first.count("EVALSHA")
    for _ in range(10):
        taken(keeper, fake, name, second)
    assert first.count("EVALSHA") == before
