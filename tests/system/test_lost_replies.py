"""Connections that end around every step of acquire and release.

Never two owners, never a count of two, never a stranger's lock freed. No grant of which nobody was
told is renewed, and none outlives its lease.
"""
from __future__ import annotations

import random
import socket
import threading

import pytest

import checker
import redisson
from keeper import CLOSE_ABANDON
from proxy import CUT_BEFORE, HOLE, Cut, Once, Park, Replace, reply_to, request
from waiting import never, until

UNKNOWN = ("LK_EMAYBEHELD",)
PLACES = {
    "before the request": (request, CUT_BEFORE),
    "in the request": (request, Cut(20)),
    "behind the request": (request, Cut(1 << 20)),
    "before the reply": (reply_to, CUT_BEFORE),
    "in the reply": (reply_to, Cut(2)),
    "behind the reply": (reply_to, Cut(1 << 20)),
}
KINDS = {"lease": {"lease": 20000}, "watchdog": {}}


@pytest.fixture(params=["tcp", "unix"])
def through(request, proxy, make_keeper):
    """A client behind the proxy that is connected already."""
    url = proxy.url if request.param == "tcp" else proxy.unix_url
    keeper = make_keeper(url, watchdog_ms=3000)
    keeper.call("acquire", "warm").ok()
    keeper.call("release", "warm").ok()
    return keeper


def owned_once(server, name) -> None:
    assert list(server.holders(name).values()) == [b"1"]


@pytest.mark.parametrize("rst", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_acquire_cut(server, proxy, through, place, kind, rst):
    where, verdict = PLACES[place]
    proxy.rule = once = Once(where("acquire"), Cut(verdict.at, rst))
    through.call("acquire", "cut", **KINDS[kind]).ok()
    assert once.hit.is_set()
    owned_once(server, "cut")
    assert through.call("hold_count", "cut").result == 1
    through.call("release", "cut").ok()
    never(lambda: server.call("EXISTS", "cut"), 0.05, "one release frees it")


@pytest.mark.parametrize("no_wait", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_release_cut(server, proxy, through, make_keeper, place, no_wait):
    """The repeated release must not free the lock of whoever came next."""
    stranger = make_keeper(server.unix_url)
    where, verdict = PLACES[place]
    through.call("acquire", "cut").ok()
    waits = stranger.say("acquire", "cut")
    until(lambda: server.channels(), 5)
    proxy.rule = once = Once(where("release"), verdict)
    through.call("release", "cut", no_wait=no_wait).ok()
    waits.result(10).ok()
    until(once.hit.is_set, 5)
    until(lambda: through.call("ping").code == "OK", 5)
    never(lambda: server.call("HLEN", "cut") != 1, 0.15, "the stranger's lock was freed")
    assert stranger.call("is_held", "cut").result == 1
    through.call("release", "cut").is_code("LK_ENOTOWNER")
    stranger.call("release", "cut").ok()
    assert server.call("EXISTS", "cut") == 0


def test_acquire_reply_never_comes(server, proxy, make_keeper):
    """The connection stays open and is silent: it is given up, and the acquire sent again."""
    keeper = make_keeper(proxy.url, command_timeout_ms=300)
    keeper.call("ping").ok()
    proxy.rule = Once(reply_to("acquire"), HOLE)
    answer = keeper.call("within", "silent", wait=5000).ok()
    assert answer.took < 4
    owned_once(server, "silent")
    keeper.call("release", "silent").ok()
    assert server.call("EXISTS", "silent") == 0


@pytest.mark.parametrize("verb", ["try", "within"])
def test_granted_but_never_answered(server, proxy, make_keeper, verb):
    """The server granted it and is gone for us: the caller is told so, and later it is freed."""
    keeper = make_keeper(proxy.url, watchdog_ms=20000, command_timeout_ms=300)
    keeper.call("ping").ok()

    def rule(message):
        if message.what != "acquire" or not message.reply:
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    answer = keeper.call(verb, "untold", wait=400)
    answer.is_code(*UNKNOWN)
    assert answer.took < 5
    assert keeper.call("is_held", "untold").result == 0
    assert keeper.call("hold_count", "untold").result == 0
    assert server.call("HLEN", "untold") == 1
    proxy.rule, proxy.refuse = None, False
    until(lambda: server.call("EXISTS", "untold") == 0, 10, "it is released")
    keeper.call("acquire", "untold").ok()
    keeper.call("release", "untold").ok()


def test_a_grant_of_which_nobody_was_told_is_not_renewed(server, proxy, make_keeper):
    """Nobody can release it: then it ends with its lease."""
    keeper = make_keeper(proxy.url, watchdog_ms=1500, command_timeout_ms=200)
    keeper.call("ping").ok()

    def rule(message):
        if message.what != "acquire" or not message.reply:
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("within", "unknown", wait=300).is_code(*UNKNOWN)
    until(lambda: server.call("EXISTS", "unknown") == 0, 2.5, "it ends with its lease")


def test_compensated_even_with_a_long_lease(server, proxy, make_keeper):
    """The server is away for longer than the watchdog's lease, but the grant has a longer one."""
    keeper = make_keeper(proxy.url, watchdog_ms=400, command_timeout_ms=200)
    keeper.call("ping").ok()

    def rule(message):
        if message.what != "acquire" or not message.reply:
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("within", "long", lease=3_600_000, wait=300).is_code(*UNKNOWN)
    never(lambda: server.call("HLEN", "long") != 1, 1.5)
    proxy.rule, proxy.refuse = None, False
    until(lambda: server.call("EXISTS", "long") == 0, 10, "it is released")


def test_request_that_arrives_late_grants_nothing(server, proxy, make_keeper):
    """It is parked for longer than anybody waits; then it must not take the lock."""
    keeper = make_keeper(proxy.url, watchdog_ms=20000, command_timeout_ms=300)
    keeper.call("ping").ok()
    gate = threading.Event()
    proxy.rule = once = Once(request("acquire"), Park(event=gate))
    answer = keeper.call("within", "late", wait=300)
    answer.is_code("OK", *UNKNOWN, "LK_EUNREACHABLE")
    assert once.hit.is_set()
    if answer.code == "OK":
        keeper.call("release", "late").ok()
    until(lambda: server.call("EXISTS", "late") == 0, 5)
    never(lambda: server.call("EXISTS", "late"), 0.35)  # the command limit, and its deadline
    proxy.rule = None
    gate.set()
    never(lambda: server.call("EXISTS", "late"), 1.0, "a late request took the lock")


def test_first_request_parked_second_granted_then_released(server, proxy, make_keeper):
    """The first copy of an acquire arrives after its lock was released: no zombie."""
    keeper = make_keeper(proxy.url, watchdog_ms=20000, command_timeout_ms=300)
    keeper.call("ping").ok()
    gate = threading.Event()
    proxy.rule = once = Once(request("acquire"), Park(event=gate))
    keeper.call("within", "zombie", wait=8000).ok()
    keeper.call("release", "zombie").ok()
    assert once.hit.is_set()
    never(lambda: server.call("EXISTS", "zombie"), 0.35)  # until the deadline of the first copy
    gate.set()
    never(lambda: server.call("EXISTS", "zombie"), 0.5, "a zombie has the lock")


@pytest.mark.parametrize("place", PLACES)
def test_hand_over_in_the_wait_queue_cut(server, proxy, make_keeper, history, place):
    """Threads of one client wait; the connection is cut at one of five releases and acquires.

    Not at each 5th: with five in flight every connection would end at the same place.
    """
    keeper, path = make_keeper(proxy.url, backoff_max_ms=40), history()
    keeper.call("ping").ok()
    where, verdict = PLACES[place]
    seen, dice = {"acquire": 0, "release": 0}, random.Random(7)

    def rule(message):
        if message.what not in seen or not where(message.what)(message):
            return None
        seen[message.what] += 1
        return verdict if dice.random() < 0.2 else None
    proxy.rule = rule
    answer = keeper.call("stress", thread="s", name="line", threads=8, names=4, pairs=40,
                         history=path, limit=60)
    assert (answer["acquire_OK"], answer["release_OK"]) == (320, 320), dict(answer)
    checker.check(checker.read(path))
    assert server.call("DBSIZE") == 0
    assert seen["acquire"] > 5 and seen["release"] > 5


@pytest.mark.parametrize("release_cut", [False, True])
def test_strayed_acquire_arrives_after_the_release(server, proxy, make_keeper, release_cut):
    """Its connection was cut, its repetition granted and released: what it takes is released,
    also where the release was repeated and found nothing."""
    keeper = make_keeper(proxy.url, watchdog_ms=20000, command_timeout_ms=1500)
    keeper.call("ping").ok()
    strayed = []

    def rule(message):
        if message.what == "release" and message.reply and release_cut:
            proxy.rule = None
            return CUT_BEFORE
        if message.what != "acquire" or message.reply or strayed:
            return None
        strayed.append(message.data)
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("acquire", "strayed").ok()
    keeper.call("release", "strayed").ok()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.path)
        connection.sendall(strayed[0])
        assert connection.recv(100) == b"$-1\r\n", "the copy has taken it"
    until(lambda: server.call("EXISTS", "strayed") == 0, 8, "it is released")


class HandOver:
    """One thread of a client holds a lock and the next one waits: what the release sends first is
    a hand-over."""

    def __init__(self, make_keeper, url, kind):
        self.keeper, self.kind = make_keeper(url, term_ms=1000, watchdog_ms=20000), kind
        self.keeper.call("acquire", "passed", kind=kind).ok()
        self.waits = self.keeper.say("acquire", "passed", kind=kind, thread="next", lease=20000)
        until(lambda: self.keeper.stats().waiting == 1, 5)

    def release(self):
        return self.keeper.call("release", "passed", kind=self.kind)

    def comes(self) -> None:
        """To the next one, long before a lease has ended it."""
        self.waits.result(10).ok()
        self.keeper.call("release", "passed", kind=self.kind, thread="next").ok()


@pytest.mark.parametrize("kind", ["lock", "fenced", "plain"])
def test_hand_over_refused(server, proxy, make_keeper, kind):
    """The server takes no writes for a while: the release says so, and is made up for."""
    line = HandOver(make_keeper, proxy.url, kind)
    server.set("min-replicas-to-write", 1)
    answer = line.release().is_code(*UNKNOWN)
    assert "NOREPLICAS" in answer.message
    server.set("min-replicas-to-write", 0)
    line.comes()


@pytest.mark.parametrize("kind", ["lock", "fenced"])
def test_hand_over_sent_twice_and_then_refused(server, proxy, make_keeper, kind):
    """The copy that nobody heard of has given the lock to the next one: it is released."""
    line = HandOver(make_keeper, proxy.url, kind)

    def rule(message):
        if not message.reply or message.lock != b"passed":
            return None
        proxy.rule = None
        server.set("min-replicas-to-write", 1)
        return CUT_BEFORE
    proxy.rule = rule
    line.release().is_code(*UNKNOWN)
    server.set("min-replicas-to-write", 0)
    line.comes()


def test_hand_over_sent_twice_that_only_freed(proxy, make_keeper):
    """As when there is no room for the next one. The second copy finds neither: it is released."""
    line = HandOver(make_keeper, proxy.url, "lock")
    freed = {False: Replace(b"*2\r\n$3\r\nDEL\r\n$6\r\npassed\r\n"), True: CUT_BEFORE}
    proxy.rule = lambda m: freed.pop(m.reply, None) if m.lock == b"passed" else None
    line.release().ok()
    assert not freed
    line.comes()


def test_a_server_that_is_always_too_late(server, proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url)
    late = {False: Replace(b"*1\r\n$4\r\nPING\r\n"), True: Replace(b"+LATE 1\r\n")}
    proxy.rule = lambda m: late[m.reply] if m.lock == b"slow" else None
    seen = keeper.call("try", "slow").is_code("LK_EUNAVAILABLE")
    assert seen.message.endswith(": the request reached the server after its deadline")
    proxy.rule = None
    keeper.call("try", "slow").ok()


@pytest.mark.parametrize("kind", ["lock", "fenced", "plain"])
def test_hand_over_that_was_late(server, proxy, make_keeper, kind):
    """Nothing was done: it is released instead."""
    line = HandOver(make_keeper, proxy.url, kind)
    late = {False: Replace(b"*1\r\n$4\r\nPING\r\n"), True: Replace(b"+LATE 1\r\n")}
    proxy.rule = lambda m: late.pop(m.reply, None) if m.lock == b"passed" else None
    line.release().ok()
    assert not late
    line.comes()


def test_renewal_replies_lost(server, proxy, make_keeper):
    """The lock is kept although every second renewal gets no answer."""
    keeper = make_keeper(proxy.url, watchdog_ms=1200, command_timeout_ms=200)
    keeper.listen()
    keeper.call("acquire", "kept").ok()
    seen = []

    def rule(message):
        if not reply_to("renew")(message):
            return None
        seen.append(message)
        return CUT_BEFORE if len(seen) % 2 else None
    proxy.rule = rule
    never(lambda: server.call("EXISTS", "kept") != 1, 3.5, "the lock was lost")
    assert len(seen) > 4
    assert keeper.call("is_held", "kept").result == 1
    assert keeper.events_of(2) == []
    keeper.call("release", "kept").ok()


def test_renewal_never_outlives_the_release(server, proxy, make_keeper):
    """A renewal parked until after the release neither makes the key nor marks it lost."""
    keeper = make_keeper(proxy.url, watchdog_ms=1200)
    keeper.listen()
    keeper.call("acquire", "parked").ok()
    gate = threading.Event()
    proxy.rule = once = Once(request("renew"), Park(event=gate))
    until(once.hit.is_set, 5)
    keeper.call("release", "parked", limit=10).ok()
    gate.set()
    never(lambda: server.call("EXISTS", "parked"), 0.5, "the renewal made the key")
    assert keeper.events_of(2) == []


def test_message_lost_with_its_connection(server, proxy, make_keeper):
    """Released while the waiter's subscription was cut: it tries again when it is back."""
    a, b = make_keeper(server.unix_url), make_keeper(proxy.url)
    a.call("acquire", "missed").ok()
    waits = b.say("acquire", "missed")
    until(lambda: server.channels(), 5)
    proxy.deafen()
    proxy.cut_all()
    until(lambda: not server.channels(), 5)
    a.call("release", "missed").ok()
    never(lambda: waits.done, 0.1)
    proxy.hear()
    waits.result(8).ok()
    until(lambda: server.channels() == [], 5)
    b.call("release", "missed").ok()


def test_message_swallowed(server, proxy, make_keeper):
    """Without the message, the holder's time to live wakes the waiter."""
    b = make_keeper(proxy.url)
    b.call("ping").ok()
    with server.connect() as connection:
        assert redisson.ask_raw(connection, "quiet", "java:1", 1500) is None
        waits = b.say("acquire", "quiet")
        until(lambda: server.channels(), 5)
        proxy.rule = lambda message: HOLE if message.what == "message" else None
        connection.call("DEL", "quiet")
        connection.call("PUBLISH", "redisson_lock__channel:{quiet}", "0")
    assert waits.result(6).ok().took < 5


def parking(seed: int, share: float = 0.04, longest: float = 0.36):
    """A rule that parks some messages, for up to three leases of the test below."""
    generator = random.Random(seed)

    def rule(_):
        return Park(generator.uniform(0, longest)) if generator.random() < share else None
    return rule


@pytest.mark.slow
def test_parked_messages(server, proxy, make_keeper, history):
    keepers = [make_keeper(proxy.unix_url, command_timeout_ms=100) for _ in range(6)]
    paths = [history() for _ in keepers]
    for keeper in keepers:
        keeper.call("ping").ok()
    proxy.rule = parking(seed=11)
    runs = [keeper.say("stress", thread="s", name="contest", threads=1, pairs=100000, lease=120,
                       wait=500, hold_us=10000, history=path, capacity=500000, run=number)
            for number, (keeper, path) in enumerate(zip(keepers, paths))]
    until(lambda: sum(keeper.stats().acquires for keeper in keepers) > 400, 60, "enough grants")
    proxy.rule = None
    for keeper in keepers:
        keeper.call("stop", thread="-")
    for run in runs:
        run.result(30)
    assert len(checker.check(checker.read(*paths), over_allowed=1)) > 100
    for keeper in keepers:
        keeper.call("close", how=CLOSE_ABANDON)
    until(lambda: server.call("DBSIZE") == 0, 5)


@pytest.mark.slow
def test_cuts_at_random_bytes(server, proxy, make_keeper, history):
    """Every connection ends after some bytes, in the middle of whatever was under way."""
    keeper, path = make_keeper(proxy.url), history()
    keeper.call("ping").ok()
    count = [0]

    def rule(message):
        if message.what == "script":  # there are more of these in a handshake than between cuts
            return None
        count[0] += 1
        return Cut(count[0] % 29, rst=count[0] % 2 == 0) if count[0] % 23 == 0 else None
    proxy.rule = rule
    run = keeper.say("stress", thread="s", name="bytes", threads=16, names=5, pairs=40,
                     history=path)
    answer = run.result(60)
    proxy.rule = None
    assert (answer["acquire_OK"], answer["release_OK"]) == (640, 640), dict(answer)
    checker.check(checker.read(path))
    until(lambda: server.call("DBSIZE") == 0, 5)
    assert proxy.accepted > 20


@pytest.mark.parametrize("kind", ["lock", "fair", "plain", "write", "multi"])
def test_forced_release_cut(server, proxy, make_keeper, kind):
    """The holder's lock is freed, and the next one has it when the connection comes back: nobody
    throws that one out."""
    holder, following = make_keeper(server.unix_url), make_keeper(server.unix_url)
    through = make_keeper(proxy.unix_url)
    through.call("acquire", "warm", kind=kind).ok()
    through.call("release", "warm", kind=kind).ok()
    holder.call("acquire", "forced", kind=kind).ok()
    waits = following.say("within", "forced", kind=kind, wait=20_000)
    until(lambda: following.stats().busy > 0, 10, "it has met the holder")

    def lose(message):
        if message.reply and b"forced" in message.argv:
            proxy.refuse = True
            return CUT_BEFORE
        return None
    proxy.rule = lose
    told = through.say("force", "forced", kind=kind)
    waits.result(20).ok()
    until(lambda: proxy.refuse, 10, "the answer is lost")
    proxy.rule, proxy.refuse = None, False
    told.result(20).is_code("LK_EMAYBEHELD")
    through.call("ping").ok()
    assert following.call("is_held", "forced", kind=kind).result == 1
    keys = server.call("KEYS", "forced*")
    assert keys, "it still is there"
    following.call("release", "forced", kind=kind).ok()
