"""redis-cluster://: what nodes say of a slot, told by nodes that say what they are told to.

Real clusters say most of this only for a moment, and some of it never. Each test looks at what the
call says, how long it takes, what each node was asked, and who has the lock in the end.
"""
from __future__ import annotations

import time

import pytest

from clusters import slot_of
from deployments import refused_port
from fake_cluster import SILENCE, Neighbour, ask, connected, is_script, moved, taken
from keeper import EVENT_LOST
from redisson_rw import channel_of_rw
from resp import ErrorReply
from rights import need_ipv6
from servers import channel_of
from waiting import boottime_ns, until

REDIRECTS_MAX = 16


@pytest.fixture
def keeper(fake, make_keeper):
    return connected(make_keeper, fake)


def circle(fake, name: str) -> None:
    """The first two nodes send its scripts to and fro."""
    for node, to in zip(fake.nodes, (fake.nodes[1], fake.nodes[0])):
        words = moved(slot_of(name), to)
        node.rule = lambda asked, words=words: words if is_script(asked) else None


def truth(fake) -> None:
    """The nodes say what is so."""
    for node in fake.nodes:
        node.rule = lambda words: None


@pytest.mark.parametrize("way", ["MOVED", "ASK"])
def test_an_empty_endpoint_is_the_node_that_was_asked(fake, keeper, way):
    first, second, _ = fake.nodes
    name = fake.name_on(first)
    first.script(ErrorReply(f"{way} {slot_of(name)} :{second.port}"))
    if way == "MOVED":
        fake.give(slot_of(name), second)
    taken(keeper, fake, name, second)


CUT_SHORT = ["MOVED ", "MOVED 7", "MOVED 7 ", "MOVED 7 127.0.0.1", "MOVED 7 127.0.0.1:",
             "MOVED 7 127.0.0.1:0", "MOVED 7 127.0.0.1:65536", "MOVED 7 :", "MOVED 16384 [::1]:1",
             "MOVED -1 127.0.0.1:1", "MOVED x 127.0.0.1:1", "MOVED 7 a host:1", "ASK ", "ASK 7",
             "ASK 7 " + "h" * 2000 + ":1"]


def test_a_redirect_that_is_cut_short(fake, keeper):
    """Once: the same call goes on and is granted, in one connection."""
    node = fake.nodes[0]
    disconnects = keeper.stats().disconnects
    for words in CUT_SHORT:
        name = fake.name_on(node)
        node.script(ErrorReply(words))
        taken(keeper, fake, name, node)
        assert node.answered.total() >= 4, words
    assert keeper.stats().disconnects == disconnects


def test_redirects_that_are_always_cut_short(fake, keeper):
    """The call ends with the server's words, and nothing is left."""
    node, name = fake.nodes[0], fake.name_on(fake.nodes[0])
    neighbour = Neighbour(keeper, fake, fake.nodes[1])
    node.rule = lambda words: ErrorReply("MOVED 7 127.0.0.1:") if is_script(words) else None
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert "MOVED 7 127.0.0.1:" in seen.message and seen.took < 5, seen.message
    neighbour.was_well()
    asked = node.count("EVALSHA")
    seen = keeper.call("within", name, thread="w", wait=300)
    seen.is_code("LK_EUNREACHABLE")
    assert "moved" in seen.message and seen.took < 4, seen.message
    assert node.count("EVALSHA") - asked <= 10 and not fake.holders(name)
    node.rule = lambda words: None
    taken(keeper, fake, name, node)


def test_a_redirect_without_any_words(fake, keeper):
    """It says nothing of the outcome that we know: so says the call, and no lock stays."""
    node = fake.nodes[0]
    for words in ("MOVED", "ASK"):
        name = fake.name_on(node)
        node.script(ErrorReply(words))
        keeper.call("try", name).is_code("LK_EREFUSED", "LK_EUNAVAILABLE", "LK_EMAYBEHELD")
        node.script()
        taken(keeper, fake, name, node)


@pytest.mark.parametrize("host, name", [("127.0.0.1", "localhost"), ("::1", "::1")])
def test_host_names_and_ipv6(fake_cluster, make_keeper, host, name):
    """In the map, in MOVED and in ASK, whose address has no brackets."""
    if host == "::1":
        need_ipv6()
    fake = fake_cluster(host=host, name=name)
    keeper = connected(make_keeper, fake)
    first, second, third = fake.nodes
    lock = fake.name_on(first)
    first.script(ask(slot_of(lock), third))
    taken(keeper, fake, lock, third)
    fake.give(slot_of(lock), second)
    taken(keeper, fake, lock, second)
    assert second.host in second.listener.server_address


@pytest.mark.parametrize("hole", ["mute", "full"])
@pytest.mark.parametrize("way", ["MOVED", "ASK"])
def test_to_a_black_hole(fake, make_keeper, way, hole):
    """The target says nothing, or lets nobody connect. The call keeps its limit, and the others
    are not stalled; nobody has the lock twice when the target is there again."""
    first, second, third = fake.nodes
    keeper = connected(make_keeper, fake, command_timeout_ms=700, connect_timeout_ms=1000)
    name = fake.name_on(first)
    neighbour = Neighbour(keeper, fake, third)
    if hole == "full":
        second.fill()
    second.rule = lambda words: SILENCE
    redirect = ErrorReply(f"{way} {slot_of(name)} {second.place}")
    first.rule = lambda words: redirect if is_script(words) else None
    seen = keeper.call("within", name, wait=2000)
    seen.is_code("LK_EUNREACHABLE", "LK_EUNAVAILABLE", "LK_EMAYBEHELD")
    assert seen.took < 5 and second.count("EVALSHA") <= 10, seen
    neighbour.was_well()
    truth(fake)
    second.empty()
    taken(keeper, fake, name, first)
    taken(keeper, fake, fake.name_on(second), second)


@pytest.mark.parametrize("way", ["MOVED", "ASK"])
def test_to_a_place_that_nobody_knows(fake, keeper, way):
    """It is not gone to: the map does not have it. Once the map has it, the same call is served."""
    node, name = fake.nodes[0], fake.name_on(fake.nodes[0])
    stranger = f"{way} {slot_of(name)} 127.0.0.1:{refused_port()}"
    node.rule = lambda words: ErrorReply(stranger) if is_script(words) else None
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    assert stranger in seen.message and seen.took < 5, seen.message
    fourth = fake.add()
    node.rule = lambda words: ErrorReply(f"{way} {slot_of(name)} {fourth.place}") \
        if is_script(words) else None
    waits = keeper.say("try", name)
    until(lambda: node.count("EVALSHA") and not waits.done, 5, "it asks again")
    fake.give(slot_of(name if way == "MOVED" else fake.name_on(node)), fourth)
    waits.result().ok()
    assert fake.holders(name) == [fourth]


CIRCLES = {"one": [(0, "MOVED", 0)], "two": [(0, "MOVED", 1), (1, "MOVED", 0)],
           "three": [(0, "MOVED", 1), (1, "MOVED", 2), (2, "MOVED", 0)],
           "asked": [(0, "ASK", 1), (1, "ASK", 0)], "mixed": [(0, "ASK", 1), (1, "MOVED", 0)]}


@pytest.mark.parametrize("shape", CIRCLES)
def test_a_circle_ends(fake_cluster, make_keeper, shape):
    """After a stated number of redirects, with the words of the last; the storm of questions for
    the map has a bound. When the circle is gone, the lock is granted, once."""
    fake = fake_cluster(masters=4)
    keeper, name = connected(make_keeper, fake), fake.name_on(fake.nodes[0])
    neighbour = Neighbour(keeper, fake, fake.nodes[3])

    def turn(node, way, to):
        words = ErrorReply(f"{way} {slot_of(name)} {to.place}")
        node.rule = lambda asked: words if is_script(asked) else None
    for number, way, to in CIRCLES[shape]:
        turn(fake.nodes[number], way, fake.nodes[to])
    members = fake.nodes[:3]
    before = sum(node.count("EVALSHA") for node in members)
    began, maps = time.monotonic(), max(node.count("CLUSTER", "SLOTS") for node in fake.nodes)
    seen = keeper.call("try", name).is_code("LK_EUNAVAILABLE")
    asked = sum(node.count("EVALSHA") for node in members) - before
    assert seen.took < 5 and f" {slot_of(name)} 127.0.0.1:" in seen.message, seen.message
    assert asked == REDIRECTS_MAX + 1
    waited = keeper.call("within", name, thread="w", wait=1000)
    waited.is_code("LK_EUNAVAILABLE", "LK_EUNREACHABLE", "LK_EMAYBEHELD")
    assert waited.took < 5
    asked = sum(node.count("EVALSHA") for node in members) - before
    assert asked < 30 * (REDIRECTS_MAX + 1)
    maps = max(node.count("CLUSTER", "SLOTS") for node in fake.nodes) - maps
    assert maps < 10 + 250 * (time.monotonic() - began)
    neighbour.was_well()
    keeper.call("try", name)  # which waits for the request that the last call has left
    truth(fake)
    taken(keeper, fake, name, fake.nodes[0])


def test_a_release_in_a_circle(fake, keeper):
    """It says that it may not be done. What it says of the lock is so, and nothing is left."""
    first, name = fake.nodes[0], fake.name_on(fake.nodes[0])
    keeper.call("acquire", name, lease=20_000).ok()
    circle(fake, name)
    seen = keeper.call("release", name)
    seen.is_code("LK_EUNAVAILABLE", "LK_EMAYBEHELD")
    assert seen.took < 5 and fake.holders(name) == [first], seen
    truth(fake)
    if keeper.call("is_held", name).result:
        keeper.call("release", name).ok()
    until(lambda: not fake.holders(name), 5, "it is given back")
    taken(keeper, fake, name, first)


def test_held_through_a_circle(fake, make_keeper):
    """The renewals that were refused are made up for within the lease; behind its end it is lost,
    and its holder is told."""
    keeper, first = connected(make_keeper, fake, watchdog_ms=2000), fake.nodes[0]
    keeper.listen()
    name = fake.name_on(first)
    keeper.call("acquire", name).ok()
    circle(fake, name)
    asked = first.count("EVALSHA")
    until(lambda: first.count("EVALSHA") >= asked + REDIRECTS_MAX // 2, 5, "a renewal is refused")
    truth(fake)
    end = time.monotonic() + 2.5
    until(lambda: time.monotonic() > end, 10)
    assert keeper.call("is_held", name).result == 1 and fake.holders(name) == [first]
    assert not keeper.events_of(EVENT_LOST)
    circle(fake, name)
    before = fake.scripts()
    until(lambda: keeper.events_of(EVENT_LOST, name), 5, "its holder is told")
    assert keeper.call("is_held", name).result == 0 and fake.scripts() - before < 1000
    truth(fake)
    until(lambda: not fake.holders(name), 5, "its lease ends")
    keeper.call("release", name).is_code("LK_ELOST")
    taken(keeper, fake, name, first)


def test_redirects_are_counted_for_each_request(fake, keeper):
    """Not for all time: a success ends the count, and so does TRYAGAIN, behind which the server has
    another view of the slot."""
    first, second, _ = fake.nodes
    name = fake.name_on(first)
    there, back = (ask(slot_of(name), node) for node in (second, first))
    again = ErrorReply("TRYAGAIN Multiple keys request during rehashing of slot")
    for to_second, to_first in (([there] * 8, [back] * 8),
                                ([there] * 7 + [again] + [there] * 7, [back] * 14)):
        before = fake.scripts()
        first.script(*to_second)
        second.script(*to_first)
        taken(keeper, fake, name, first)
        assert fake.scripts() - before >= 2 * (len(to_second) + len(to_first) + 1)


@pytest.mark.parametrize("threadless", [0, 1])
def test_asynchronous_calls(fake, make_keeper, threadless):
    """The loop, or the program's turns, follow as a calling thread does."""
    first, second, third = fake.nodes
    keeper, name = connected(make_keeper, fake, 1, threadless=threadless), fake.name_on(first)
    for words in CUT_SHORT[:3]:
        first.script(ErrorReply(words))
        taken(keeper, fake, name, first, 1)
    there, back = (ask(slot_of(name), node) for node in (second, first))
    first.script(*[there] * 8)
    second.script(*[back] * 8)
    taken(keeper, fake, name, first, 1)
    for node, to in ((first, second), (second, third), (third, first)):
        node.script(*[moved(slot_of(name), to)] * 20)
    seen = keeper.call("try", name, queue=1).is_code("LK_EUNAVAILABLE")
    asked = first.answered + second.answered + third.answered
    assert max(asked.values()) == REDIRECTS_MAX + 1 and seen.took < 5
    for node in fake.nodes:
        node.script()
    taken(keeper, fake, name, first, 1)


@pytest.mark.parametrize("way", ["ASK", "MOVED"])
def test_answers_stay_with_their_calls(fake, keeper, make_keeper, way):
    """While a slot moves, the first node serves some commands of one pipeline, and redirects others
    between them. Each call gets the answer to its own, and each lock is taken once."""
    first, second, _ = fake.nodes
    tag = fake.name_on(first)
    names = [f"{{{tag}}}{number}" for number in range(24)]
    asked: list[str] = []

    def keys_move(words):
        if not is_script(words):
            return None
        if not asked:
            until(lambda: first.waiting("EVALSHA") >= len(names) - 1, 10, "all are sent")
        asked.append(words[3].decode())
        if way == "ASK":
            return ask(slot_of(tag), second) if int(asked[-1].split("}")[1]) % 2 else None
        if len(asked) == len(names) // 2:
            for name in asked:
                fake.move(name, first, second)
        return None
    first.rule = keys_move
    calls = [keeper.say("try", name, thread=name) for name in names]
    assert {call.result().code for call in calls} == {"OK"}
    other = make_keeper(fake.url)
    for number, name in enumerate(names):
        here = second if way == "MOVED" or number % 2 else first
        assert fake.holders(name) == [here] and len(here.server.holders(name)) == 1
        other.call("try", name).is_code("LK_EBUSY")
    calls = [keeper.say("release", name, thread=name) for name in names]
    assert {call.result().code for call in calls} == {"OK"}
    assert not any(fake.holders(name) for name in names)


def lock_for_java(node, *names: str) -> None:
    for name in names:
        node.server.call("HSET", name, "java:1", 1)
        node.server.call("PEXPIRE", name, 60_000)


def write_lock_for_java(node, *names: str) -> None:
    for name in names:
        node.server.call("HSET", name, "mode", "write", "java:1:write", 1)
        node.server.call("PEXPIRE", name, 60_000)


def is_heard(node, name: str, wait, channel=channel_of) -> None:
    """Its release wakes the waiter, long before the lease ends."""
    assert not wait.done
    node.server.call("DEL", name)
    began = boottime_ns()
    node.server.call("SPUBLISH", channel(name), "0")
    assert wait.result(20).ok().end_ns - began < 10e9


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("listens", [False, True], ids=["at first", "later"])
@pytest.mark.parametrize("words", ["CLUSTERDOWN Hash slot not served", "MOVED 7 127.0.0.1:1"])
def test_a_subscription_that_is_refused(fake, make_keeper, words, listens, queue):
    """For a moment, at first or behind one that the server has ended. Meanwhile the waiter looks
    again from time to time, and not all the time; then it subscribes, and hears."""
    node, name = fake.nodes[0], fake.name_on(fake.nodes[0])
    channel = channel_of(name)
    lock_for_java(node, name)
    keeper, refused = connected(make_keeper, fake, messages="sharded"), []

    def refuse(words_asked):
        if words_asked[0].upper() != b"SSUBSCRIBE" or refused:
            return None
        refused.append(words_asked)
        return ErrorReply(words)

    if not listens:
        node.rule = refuse
    asked = node.count("EVALSHA")
    wait = keeper.say("within", name, wait=60_000, queue=queue)
    if listens:
        until(lambda: node.server.call("PUBSUB", "SHARDNUMSUB", channel)[1], 10, "it listens")
        node.rule = refuse
        node.tell([b"sunsubscribe", channel.encode(), 0])
    until(lambda: node.count("SSUBSCRIBE") == 2 + listens, 10, "it listens again")
    until(lambda: node.server.call("PUBSUB", "SHARDNUMSUB", channel)[1], 10, "it hears")
    assert node.count("EVALSHA") - asked < 25
    is_heard(node, name, wait)


class Crossing:
    """The slot of `left` goes while its SUNSUBSCRIBE is on its way, with others behind it. So the
    server has ended the subscription before, unasked, and answers the command by `answer`. Then it
    answers one more, and is mute for a while."""

    def __init__(self, node, left: str, behind: int, answer: str):
        self.node, self.channel = node, channel_of_rw(left).encode()
        self.behind, self.answer, self.crossed, self.later = behind, answer, False, 0
        node.rule = self.rule

    def rule(self, words):
        verb = words[0].upper()
        if verb == b"SSUBSCRIBE" and self.crossed and self.answer != "sunsubscribe":
            self.later += 1
            return SILENCE if self.later == 2 <= self.behind else None
        if verb != b"SUNSUBSCRIBE" or words[1] != self.channel or self.crossed:
            return None
        self.crossed = True
        until(lambda: self.node.waiting("SSUBSCRIBE") == self.behind, 10, "they are behind it")
        ended = [b"sunsubscribe", self.channel, 0]
        self.node.tell(ended)
        return ended if self.answer == "sunsubscribe" else ErrorReply(self.answer)


ANSWERS = ["MOVED 7 127.0.0.1:1", "CLUSTERDOWN Hash slot not served", "sunsubscribe"]


def leave(keeper, node, name: str):
    """A wait listens for it, and goes. A reader has no turn, so no channel of its own beside."""
    wait = keeper.say("acquire", name, thread="leaves", cancel="go", kind="read")
    until(lambda: node.count("SSUBSCRIBE", channel_of_rw(name)), 10, "it listens")
    return lambda: (keeper.cancel("go"), wait.result().is_code("LK_ECANCELLED"))


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_unasked_sunsubscribe_crosses_our_own(fake, make_keeper, answer):
    """The answers behind it are not taken for those of others: who is said to listen does."""
    node = fake.nodes[0]
    left, *names = [fake.name_on(node) for _ in range(4)]
    write_lock_for_java(node, left, *names)
    keeper = connected(make_keeper, fake, messages="sharded", command_timeout_ms=60_000)
    leaves = leave(keeper, node, left)
    crossing = Crossing(node, left, len(names), answer)
    leaves()
    until(lambda: crossing.crossed, 10, "it is on its way")
    waits = [keeper.say("within", name, thread=name, wait=60_000, kind="read") for name in names]
    for name in names:
        until(lambda name=name: node.server.call("PUBSUB", "SHARDNUMSUB", channel_of_rw(name))[1],
              10, "each listens")
    for name, wait in zip(names, waits):
        is_heard(node, name, wait, channel_of_rw)


@pytest.mark.parametrize("answer", ANSWERS)
def test_who_left_as_the_subscription_ended_listens_again(fake, make_keeper, answer):
    node = fake.nodes[0]
    name = fake.name_on(node)
    write_lock_for_java(node, name)
    keeper = connected(make_keeper, fake, messages="sharded", command_timeout_ms=60_000)
    leaves = leave(keeper, node, name)
    crossing = Crossing(node, name, 1, answer)
    leaves()
    until(lambda: crossing.crossed, 10, "it is on its way")
    wait = keeper.say("within", name, thread="again", wait=60_000, kind="read")
    until(lambda: node.count("SSUBSCRIBE", channel_of_rw(name)) >= 2, 10, "it listens again")
    is_heard(node, name, wait, channel_of_rw)
