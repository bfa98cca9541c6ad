"""The red lock over five servers of which some are slow, silent, unreachable, erring or emptied.

A grant has validity left and stands on a majority; once released, no node keeps the key.
"""
from __future__ import annotations

import contextlib
import re
import socket

import pytest

import resp
from keeper import EVENT_LOST
from proxy import Once, Replace, request
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
