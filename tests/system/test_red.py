"""The red lock over five servers of which some are slow, silent, unreachable, erring or emptied.

A grant has validity left and stands on a majority; once released, no node keeps the key.
"""
from __future__ import annotations

import contextlib
import re
import socket
import threading

import pytest

import resp
from keeper import CLOSE_RELEASE, EVENT_LOST
from proxy import CUT_BEFORE, SWALLOW, Cut, Once, Park, Replace, reply_to, request
from waiting import never, until

NODES, MAJORITY = 5, 3
LEASE_MS = 20000
NODE_LIMIT_MS = 300
GONE_LIMIT = 20  # seconds until no node keeps it; less than any lease here but the watchdog's


class BlackHole:
    """A listener that drops the handshakes of connections: its queue is full."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.fillers = []
        self.fill()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def fill(self) -> None:
        for _ in range(10):
            self.fillers.append(socket.socket())
            self.fillers[-1].settimeout(0.3)
            try:
                self.fillers[-1].connect(self.listener.getsockname())
            except TimeoutError:
                return
        pytest.fail("ten connections, and the listener still takes more")

    def close(self) -> None:
        for each in [self.listener, *self.fillers]:
            each.close()


class Quorum:
    """Five servers, each behind a proxy, and one process with a client at each."""

    def __init__(self, make_server, make_proxy, keeper):
        self.servers = [make_server() for _ in range(NODES)]
        self.proxies = [make_proxy(server.path) for server in self.servers]
        self.urls = [proxy.url for proxy in self.proxies]
        self.keeper = keeper
        self.uuids: list[str] = []

    def open(self, **options) -> Quorum:
        for number, url in enumerate(self.urls):
            opened = self.keeper.open(url, c=f"n{number}",
                                      **{"command_timeout_ms": 1000, **options})
            self.uuids.append(opened.uuid)
        return self

    def know_all(self) -> Quorum:
        """Every node is connected, and has said who it is."""
        for _ in range(10):
            self.call("acquire").ok()
            with contextlib.suppress(AssertionError):
                until(lambda: self.holding() == NODES, 0.5)
            seen = self.holding()
            self.call("release").ok()
            self.gone()
            if seen == NODES:
                return self
        raise AssertionError("a node has never granted it")

    def call(self, verb: str, **arguments):
        return self.say(verb, **arguments).result(20)

    def say(self, verb: str, **arguments):
        nodes = ",".join(f"n{number}" for number in range(NODES))
        return self.keeper.say(verb, "q", kind="red", c="n0", nodes=nodes,
                               **{"node_limit": NODE_LIMIT_MS, **arguments})

    def holding(self) -> int:
        """How many nodes hold it for us: one field of their own client, held once."""
        count = 0
        for server, uuid in zip(self.servers, self.uuids):
            held = server.holders("q")
            assert len(held) <= 1, held
            count += any(field.startswith(uuid.encode()) and times == b"1"
                         for field, times in held.items())
        return count

    def keys(self) -> int:
        return sum(server.call("EXISTS", "q") for server in self.servers)

    def gone(self) -> None:
        until(lambda: self.keys() == 0, GONE_LIMIT, "no node keeps it")

    def check_grant(self, verb: str = "acquire", **arguments):
        """Takes it, looks at it, and gives it up again."""
        answer = self.call(verb, lease=LEASE_MS, **arguments).ok()
        self.check_held(LEASE_MS)
        self.call("release").ok()
        self.gone()
        never(self.keys, 0.1, "a late copy of a request took it")
        return answer

    def check_grants(self, rules: list[Once]) -> None:
        """Until each rule was met: who is late when a majority has granted may not be asked."""
        for _ in range(20):
            self.check_grant()
            if all(rule.hit.wait(0.2) for rule in rules):
                return
        raise AssertionError([rule.seen for rule in rules])

    def check_held(self, lease_ms: int) -> None:
        """A majority has it, and the caller counts on less than the lease."""
        assert self.holding() >= MAJORITY
        left = self.call("remaining").ok().value
        assert 0 < left <= lease_ms - lease_ms // 100 - 2
        assert self.call("is_held").result == 1


@pytest.fixture
def quorum(make_server, make_proxy, make_keeper):
    return Quorum(make_server, make_proxy, make_keeper())


@pytest.fixture
def black_hole():
    made = []

    def make() -> BlackHole:
        made.append(BlackHole())
        return made[-1]

    yield make
    for hole in made:
        hole.close()


@pytest.mark.parametrize("holes", [(0,), (2, 4)], ids=["the-first", "two"])
def test_black_hole(quorum, black_hole, holes):
    """A node whose connection is never made, and never refused."""
    for number in holes:
        quorum.urls[number] = black_hole().url
    quorum.open()
    for _ in range(3):
        quorum.check_grant()


@pytest.mark.parametrize("cut", [(0,), (1, 3), (0, 2, 4)], ids=["one", "two", "a-majority"])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("where, verdict", [(request, Cut(1 << 20)), (reply_to, CUT_BEFORE)],
                         ids=["behind-the-request", "before-the-answer"])
def test_lost_answer(quorum, cut, known, where, verdict):
    """What it granted without our knowing is in the hold, or goes back."""
    quorum.open()
    if known:
        quorum.know_all()
    rules = [Once(where("acquire"), verdict) for _ in cut]
    for number, rule in zip(cut, rules):
        quorum.proxies[number].rule = rule
    quorum.check_grants(rules)
    quorum.know_all()


def test_release_of_what_a_majority_has_lost(quorum):
    """That is certain without the node that is stopped, and is not waited for."""
    quorum.open().know_all()
    quorum.call("acquire", lease=600_000).ok()
    until(lambda: quorum.holding() == NODES, 5)
    for number in (0, 2, 3):
        quorum.servers[number].call("DEL", "q")
    quorum.servers[1].pause()
    quorum.call("release").is_code("LK_ELOST")
    quorum.servers[1].resume()
    quorum.gone()


def erring_reply(text: str) -> Replace:
    """Instead of a request: the server answers with this error, and has done nothing."""
    return Replace(resp.encode("EVAL", "return redis.error_reply(ARGV[1])", 0, "-" + text))


def erring(text: str):
    return lambda message: erring_reply(text) if request("acquire")(message) else None


@pytest.mark.parametrize("emptied", [(0,), (1, 4)], ids=["the-first", "two"])
@pytest.mark.parametrize("how", ["flushed", "restarted"])
def test_emptied_node_is_repaired(quorum, emptied, how):
    """It is given the lock again by a renewal; the majority stands all the while."""
    watchdog_ms = 3000
    quorum.open(watchdog_ms=watchdog_ms).know_all()
    quorum.keeper.listen("n0")
    quorum.call("acquire").ok()
    until(lambda: quorum.holding() == NODES, 5)
    for number in emptied:
        if how == "flushed":
            quorum.servers[number].call("FLUSHALL")
        else:
            quorum.servers[number].restart()
    quorum.check_held(watchdog_ms)
    until(lambda: quorum.holding() == NODES, 20, "every node has it again")
    quorum.check_held(watchdog_ms)
    assert not quorum.keeper.events_of(EVENT_LOST)
    quorum.call("release").ok()
    quorum.gone()


@pytest.mark.parametrize("slow", [(0,), (1, 4)], ids=["the-first", "two"])
@pytest.mark.parametrize("what", ["hello", "info"], ids=["to-connect", "to-say-who-it-is"])
def test_node_that_comes_after_the_majority(quorum, slow, what):
    """Granted without it, and not renewed for long: it is given the lock all the same."""
    for number in slow:
        quorum.proxies[number].rule = Once(request(what), Park(0.5))
    quorum.open()
    quorum.call("acquire", lease=600_000).ok()
    until(lambda: quorum.holding() == NODES, 10, "every node has it")
    quorum.check_held(600_000)
    quorum.call("release").ok()
    quorum.gone()


@pytest.mark.parametrize("lost", [(0,), (3,), (1, 4)], ids=["the-first", "another", "two"])
def test_lost_connection_makes_the_library_ask_all_nodes(quorum, lost):
    """It may have forgotten: it is asked at once, and given the lock again."""
    quorum.open().know_all()
    quorum.call("acquire", lease=600_000).ok()
    until(lambda: quorum.holding() == NODES, 5)
    for number in lost:
        quorum.servers[number].call("DEL", "q")
        quorum.proxies[number].cut_all()
    until(lambda: quorum.holding() == NODES, 10, "every node has it again")
    quorum.check_held(600_000)
    quorum.call("release").ok()
    quorum.gone()


@pytest.mark.parametrize("ends", ["release", "close"])
def test_lost_before_its_deadline_keeps_others_out_until_then(quorum, ends):
    """A majority of the nodes has forgotten it. What the others have stays, as the holder was told,
    unless it gives up."""
    quorum.open(watchdog_ms=6000).know_all()
    quorum.keeper.listen("n0")
    quorum.call("acquire", lease=60_000).ok()
    until(lambda: quorum.holding() == NODES, 5)
    for number in (0, 3, 4):
        quorum.servers[number].call("DEL", "q")
    quorum.proxies[0].cut_all()  # so that all are looked at
    until(lambda: quorum.keeper.events_of(EVENT_LOST), 10, "the holder is told")
    never(lambda: quorum.keys() < 2, 1, "a part was given away")
    if ends == "release":
        quorum.call("release").is_code("LK_ELOST")
        quorum.gone()
        return
    for number in range(NODES):
        quorum.keeper.call("close", c=f"n{number}", how=CLOSE_RELEASE).ok()
    assert quorum.keys() == 0


def lose_behind(proxy, verdict, then):
    """What becomes of the answer; then the node is away, on all connections. Nothing that follows
    the acquire reaches it before, either: on a busy machine that may be the release."""
    taken = threading.Event()

    def rule(message):
        if proxy.refuse:
            return then
        if reply_to("acquire")(message):
            proxy.refuse = True
            return verdict
        if taken.is_set() and not message.reply:
            return SWALLOW
        if request("acquire")(message):
            taken.set()
        return None
    return rule


PASS_AND_CUT = Cut(1 << 20)


@pytest.mark.parametrize("verb", ["try", "within", "acquire"])
@pytest.mark.parametrize("lost, kept, passed, then", [
    ((0, 1), (2, 3), PASS_AND_CUT, CUT_BEFORE), ((0,), (2, 3), None, SWALLOW)],
    ids=["cut", "silent"])
def test_granted_and_then_away(quorum, verb, lost, kept, passed, then):
    """A majority has it: some have not said so, and those that have cannot be asked any more."""
    quorum.open(retry_ms=1200).know_all()

    def away():
        return [number for number in lost + kept if quorum.proxies[number].refuse]

    for _ in range(10):  # a node that still owes an answer is not asked: then once more
        for number, proxy in enumerate(quorum.proxies):
            proxy.rule = erring("LOADING Redis is loading the dataset in memory")
            if number in lost + kept:
                proxy.rule = lose_behind(proxy, passed if number in kept else CUT_BEFORE, then)
        answer = quorum.call(verb, lease=600_000, wait=1200)
        # On a busy machine a node grants it, and the proxy has not seen its answer yet.
        until(lambda: quorum.keys() == len(away()), 5, "what is granted is away")
        asked = away()
        for proxy in quorum.proxies:
            proxy.rule, proxy.refuse = None, False
        quorum.gone()
        never(quorum.keys, 0.3, "it came back")
        if len(asked) == len(lost + kept):
            break
    assert len(asked) == len(lost + kept)
    answer.is_code("LK_EMAYBEHELD")


def is_old(message):
    """INFO says that the server has been running for ten years."""
    if not message.reply or [word.lower() for word in message.argv[:2]] != [b"info", b"server"]:
        return None
    text = re.sub(rb"uptime_in_seconds:\d+", b"uptime_in_seconds:315360000", message.value)
    return Replace(b"$%d\r\n%s\r\n" % (len(text), text))


def test_servers_older_than_our_machine_vote(quorum):
    """Their start is before the first instant of our clock."""
    for proxy in quorum.proxies:
        proxy.rule = is_old
    quorum.open()
    quorum.call("try", quarantine=60_000).ok()
    quorum.call("release").ok()
