"""A release wakes the client that has waited longest, and the next one if that is silent."""
from __future__ import annotations

import pytest

import lua
from keeper import CLOSE_IF_IDLE
from servers import Subscriber
from waiting import boottime_ns, until

TURNS = "lockkeeper_turns:{%s}"
TAKEN = "9000000000000000"
CHANNEL = "redisson_lock__channel:{%s}"
CHANNELS = {"lock": CHANNEL, "fenced": CHANNEL, "write": "redisson_rwlock:{%s}"}
LOOK_S = 5.0  # look_again_ms: by then a waiter that nobody wakes finds the lock


@pytest.fixture(params=["lock", "fenced", "write"])
def kind(request):
    return request.param


def places(server, name):
    return server.call("ZCOUNT", TURNS % name, "0", "(" + TAKEN)


def line_up(server, keepers, name, kind):
    """Each begins to wait when the one before it has its place."""
    waits = []
    for number, keeper in enumerate(keepers, 1):
        waits.append(keeper.say("acquire", name, kind=kind))
        until(lambda: places(server, name) == number, 10, "it has a place")
    return waits


@pytest.fixture
def crowd(server, make_keeper, kind):
    """One who has the lock "hot", and four who wait for it, in order."""
    holder, *others = (make_keeper(server.unix_url) for _ in range(5))
    for keeper in others:
        keeper.call("ping").ok()
    holder.call("acquire", "hot", kind=kind).ok()
    return holder, others, line_up(server, others, "hot", kind)


def test_each_has_its_turn(server, crowd, kind):
    holder, others, waits = crowd
    for keeper, wait in zip(others, waits):
        holder.call("release", "hot", kind=kind).ok()
        assert wait.result().ok().took < LOOK_S * 4
        assert sum(other.done for other in waits) == waits.index(wait) + 1
        holder = keeper
    holder.call("release", "hot", kind=kind).ok()
    until(lambda: server.call("EXISTS", TURNS % "hot") == 0, 10, "nothing stays")


def test_the_others_are_not_woken(server, crowd, kind):
    holder, others, waits = crowd
    last = others[3]
    until(lambda: last.stats().busy >= 2, 10, "it tried, and again when it listened")
    holder.call("release", "hot", kind=kind).ok()
    waits[0].result().ok()
    others[0].call("release", "hot", kind=kind).ok()
    waits[1].result().ok()
    # The third was the next one, and may have looked; the fourth has not, but of itself.
    looks = last.stats().busy - 2
    assert looks <= (boottime_ns() - waits[3].began_ns) // (LOOK_S / 2 * 1e9)


def test_who_has_a_place_hears_nothing_of_others(server, crowd, kind):
    """Each message would wake a process for nothing."""
    if kind == "write":
        pytest.skip("readers may listen beside it: all are told")
    holder, others, waits = crowd
    heard = others[3].stats().messages
    holder.call("release", "hot", kind=kind).ok()
    for number, (keeper, wait) in enumerate(list(zip(others, waits))[:2], 1):
        wait.result().ok()
        until(lambda: server.call("PUBSUB", "NUMSUB", CHANNELS[kind] % "hot")[1] == 4 - number, 10,
              "who has the lock does not listen")
        keeper.call("release", "hot", kind=kind).ok()
    waits[2].result().ok()
    assert others[3].stats().messages - heard <= 1, "only that it is the next one"


def test_java_hears_its_number(server, crowd, kind):
    """Its codec reads the message as a number, and wakes at 0, or at 1 from a writer."""
    holder, _, waits = crowd
    java = Subscriber(server, CHANNELS[kind] % "hot")
    holder.call("release", "hot", kind=kind).ok()
    until(lambda: java.messages, 10)
    assert int(java.messages[0]) == (1 if kind == "write" else 0)
    waits[0].result().ok()


def test_kinds_of_one_client_have_places_of_their_own(server, make_keeper):
    holder, waiter = make_keeper(server.unix_url), make_keeper(server.unix_url)
    holder.call("acquire", "two", kind="lock").ok()
    waits = {kind: waiter.say("acquire", "two", kind=kind, thread=kind)
             for kind in ("lock", "fenced")}
    until(lambda: places(server, "two") == 2, 10, "each has a place")
    released = holder.call("release", "two", kind="lock").ok()
    until(lambda: any(wait.done for wait in waits.values()), 10, "one of them has it")
    first = next(kind for kind, wait in waits.items() if wait.done)
    waiter.call("release", "two", kind=first, thread=first).ok()
    granted = [wait.result().ok() for wait in waits.values()]
    assert (max(grant.end_ns for grant in granted) - released.start_ns) / 1e9 < LOOK_S / 2


@pytest.fixture
def patient(server, make_keeper):
    """Clients that look again only when they are told."""
    return [make_keeper(server.unix_url, look_again_ms=60000, watchdog_ms=60000) for _ in range(4)]


def test_each_waiter_of_a_client_has_a_place_at_once(server, patient):
    holder, waiter, *_ = patient
    holder.call("acquire", "two", kind="lock").ok()
    waits = []
    for number, kind in enumerate(("lock", "fenced"), 1):
        waits.append(waiter.say("acquire", "two", kind=kind, thread=kind))
        until(lambda: places(server, "two") == number, 10, "it has a place")
    java = Subscriber(server, CHANNEL % "two")
    holder.call("release", "two", kind="lock").ok()
    until(lambda: java.messages, 10, "Java hears beside two who listen together")
    until(lambda: any(wait.done for wait in waits), 10, "one of them has it")


def test_who_gives_up_leaves_no_place(server, make_keeper, kind):
    holder, waiter = make_keeper(server.unix_url), make_keeper(server.unix_url)
    holder.call("acquire", "left", kind=kind).ok()
    waits = waiter.say("within", "left", kind=kind, wait=2000)
    until(lambda: places(server, "left") == 1, 10, "it has a place")
    waits.result().is_code("LK_ETIMEDOUT")
    until(lambda: server.call("EXISTS", TURNS % "left") == 0, 3, "it has no place any more")


def free_it_unheard(server, name):
    """As a release does whose message is still on its way to the first."""
    first = server.call("ZRANGE", TURNS % name, 0, 0)[0]
    assert server.call("ZADD", TURNS % name, "XX", "CH", TAKEN, first) == 1
    assert server.call("DEL", name) == 1


@pytest.mark.parametrize("leaves", ["limit", "cancel", "close"])
def test_who_leaves_passes_its_turn_on(server, make_keeper, kind, leaves):
    """Nobody else tells of the lock, which is free: the next one would wait for a minute."""
    holder, leaver, follower = (make_keeper(server.unix_url, look_again_ms=60000, watchdog_ms=60000)
                                for _ in range(3))
    holder.call("acquire", "hot", kind=kind, lease=60000).ok()
    wait = 1500 if leaves == "limit" else 60000
    left = leaver.say("within", "hot", kind=kind, wait=wait, cancel="token")
    until(lambda: places(server, "hot") == 1, 10, "it has a place")
    waits = follower.say("acquire", "hot", kind=kind)
    until(lambda: places(server, "hot") == 2, 10, "it has a place")
    free_it_unheard(server, "hot")
    if leaves == "cancel":
        leaver.cancel("token")
    elif leaves == "close":
        leaver.call("close", thread="other", how=CLOSE_IF_IDLE).ok()
    left.result().is_code("LK_ETIMEDOUT", "LK_ECANCELLED", "LK_ECLOSED")
    waits.result(20).ok()
    follower.call("release", "hot", kind=kind).ok()
    until(lambda: server.call("EXISTS", TURNS % "hot") == 0, 10, "nothing stays")


class Order:
    """Places of the lock "hot", whose owners do nothing but listen."""

    def __init__(self, server, *ids):
        self.server = server
        self.ears = {name: Subscriber(server, f"{CHANNEL % 'hot'}:{name}") for name in ids}
        for number, name in enumerate(ids, 1):
            server.call("ZADD", TURNS % "hot", number, name)

    def run(self, noun, name, argument):
        self.server.call("EVAL", lua.text_of(noun, name), 1, "hot", argument, CHANNEL % "hot")

    def release(self):
        self.server.call("HSET", "hot", "owner:1", 1)
        self.run("lock", "release", "owner:1")

    def leave(self, name):
        self.run("turns", "leave", name)

    def heard(self, **expected):
        """Each has heard so much, and no more: what is sent to all comes behind it."""
        for name, ear in self.ears.items():
            self.server.call("PUBLISH", f"{CHANNEL % 'hot'}:{name}", "end")
            until(lambda: b"end" in ear.messages, 10, "it hears")
            said = b" ".join(word for word in ear.messages if word != b"end").decode()
            assert said == expected.get(name, ""), name
            ear.messages.clear()


@pytest.fixture
def order(server):
    made = Order(server, "a", "b", "c", "d")
    yield made
    for ear in made.ears.values():
        ear.stop()


def test_the_turn_goes_from_one_to_the_next(order):
    order.release()
    order.heard(a="now", b="soon")
    order.leave("a")
    order.heard(b="now", c="soon")
    order.leave("a")
    order.heard()
    order.leave("b")
    order.heard(c="now", d="soon")


def test_whose_turn_it_is_not_passes_on_nothing(order):
    order.leave("c")
    order.leave("nobody")
    order.heard()


def test_who_leaves_the_front_of_a_held_lock_names_the_next(order):
    order.server.call("HSET", "hot", "owner:1", 1)
    order.leave("b")
    order.heard()
    order.leave("a")
    order.heard(c="soon")


def test_the_first_of_a_free_lock_passes_on_its_turn(order):
    """None was told: the lock's lease has ended, or each leaves it to those before it."""
    order.leave("a")
    order.heard(b="now", c="soon")


def test_who_is_to_look_soon_leaves_that_to_the_next(order):
    order.release()
    order.heard(a="now", b="soon")
    order.leave("b")
    order.heard(c="soon")


def test_the_last_place_of_a_free_lock_wakes_all(server):
    """Who listens and has no place is not known."""
    order, all_of_them = Order(server, "a"), Subscriber(server, CHANNEL % "hot")
    order.leave("a")
    until(lambda: all_of_them.messages, 10, "they hear")
    assert all_of_them.messages == [b"0"]


def test_writers_of_one_client_have_their_turns(server, patient):
    holder, waiter, *_ = patient
    holder.call("acquire", "hot", kind="write").ok()
    waits = {}
    for number in range(1, 4):
        thread = f"t{number}"
        waits[thread] = waiter.say("acquire", "hot", kind="write", thread=thread)
        until(lambda: waiter.stats().busy == 2 * number, 10, "it waits")
    holder.call("release", "hot", kind="write").ok()
    while waits:
        until(lambda: any(wait.done for wait in waits.values()), 20, "one has its turn")
        thread = next(thread for thread, wait in waits.items() if wait.done)
        waits.pop(thread).result().ok()
        waiter.call("release", "hot", kind="write", thread=thread).ok()


def test_readers_of_a_writer_s_client_hear(server, patient):
    """They listen to the channel together."""
    holder, waiter, *_ = patient
    holder.call("acquire", "hot", kind="write").ok()
    writes = waiter.say("acquire", "hot", kind="write", thread="w")
    until(lambda: places(server, "hot") == 1, 10, "it has a place")
    reads = waiter.say("acquire", "hot", kind="read", thread="r")
    until(lambda: waiter.stats().busy >= 3, 10, "both sleep")
    holder.call("release", "hot", kind="write").ok()
    until(lambda: writes.done or reads.done, 20, "one has it")
    first, other = ("write", reads) if writes.done else ("read", writes)
    waiter.call("release", "hot", kind=first, thread=first[0]).ok()
    other.result(20).ok()


def test_the_last_reader_tells_the_first_writer(server, patient):
    *readers, first, second = patient
    for reader in readers:
        reader.call("acquire", "hot", kind="read").ok()
    waits = line_up(server, [first, second], "hot", "write")
    told = server.call("ZRANGE", TURNS % "hot", 0, -1)
    ears = [Subscriber(server, f"{CHANNELS['write'] % 'hot'}:{name.decode()}") for name in told]
    readers[0].call("release", "hot", kind="read").ok()
    readers[1].call("release", "hot", kind="read").ok()
    waits[0].result().ok()
    until(lambda: ears[0].messages and ears[1].messages, 10, "both are told")
    assert ears[0].messages[-1] == b"now"
    assert not waits[1].done
    first.call("release", "hot", kind="write").ok()
    waits[1].result().ok()


def test_readers_hear_of_a_writer_though_another_has_its_turn(server, patient):
    holder, other, *readers = patient
    holder.call("acquire", "hot", kind="write").ok()
    writes = line_up(server, [other], "hot", "write")[0]
    reads = [reader.say("acquire", "hot", kind="read") for reader in readers]
    until(lambda: all(reader.stats().busy >= 2 for reader in readers), 10, "and sleep")
    holder.call("release", "hot", kind="write").ok()
    until(lambda: writes.done or all(read.done for read in reads), 20, "one side has it")
    if writes.done:
        other.call("release", "hot", kind="write").ok()
    for read, reader in zip(reads, readers):
        read.result(20).ok()
        reader.call("release", "hot", kind="read").ok()
    writes.result(20).ok()


def test_a_writer_that_reads_on_wakes_no_other(server, patient):
    """No writer has its turn."""
    holder, other, reader, _ = patient
    holder.call("acquire", "hot", kind="write").ok()
    holder.call("acquire", "hot", kind="read").ok()
    waits = line_up(server, [other], "hot", "write")[0]
    reads = reader.say("acquire", "hot", kind="read")
    until(lambda: reader.stats().busy >= 2, 10, "it waits")
    tries = other.stats().busy
    holder.call("release", "hot", kind="write").ok()
    reads.result(20).ok()
    assert other.stats().busy == tries
    holder.call("release", "hot", kind="read").ok()
    reader.call("release", "hot", kind="read").ok()
    waits.result(20).ok()


def test_a_plain_lock_gives_turns(server, make_keeper):
    """Its waiters look often, so who is told first need not be the first that has it."""
    holder, *others = (make_keeper(server.unix_url) for _ in range(3))
    holder.call("acquire", "hot", kind="plain").ok()
    waits = line_up(server, others, "hot", "plain")
    first = server.call("ZRANGE", TURNS % "hot", 0, 0)[0].decode()
    told = Subscriber(server, f"{CHANNEL % 'hot'}:{first}")
    holder.call("release", "hot", kind="plain").ok()
    until(lambda: told.messages, 10, "the first is told")
    assert told.messages[0] == b"now"
    until(lambda: any(wait.done for wait in waits), 10, "one of them has it")
