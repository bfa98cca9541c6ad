"""*Busy* is told only if the server said so: of two callers of a client, one waits for an answer,
and the other one stands behind it."""
from __future__ import annotations

import signal

import pytest

from waiting import until

SHARED = ["lock", "fenced", "plain", "spin", "multi", "semaphore", "permits", "red"]
OWN = ["fair", "write", "read"]
"""Each caller has a place, and tries, of its own."""
WAYS = {"calls": {}, "queue": {"queue": 1}, "threadless": {"queue": 1}}
UNKNOWN = ("LK_EUNREACHABLE", "LK_EUNAVAILABLE", "LK_ENOQUORUM")
TRIED = (*UNKNOWN, "LK_EMAYBEHELD")


class Callers:
    """Those of one client, which has used the lock before."""

    def __init__(self, servers, make_keeper, kind: str, **how):
        options = {"threadless": int(how.pop("threadless", 0)), "command_timeout_ms": 1000}
        self.keeper = make_keeper()
        self.how, self.name = {"kind": kind, **how}, "a,b" if kind == "multi" else "a"
        nodes = [f"c{number}" for number in range(len(servers))]
        for server, node in zip(servers, nodes):
            self.keeper.open(server.unix_url, c=node, **options)
        self.how |= {"c": "c0", **({"nodes": ",".join(nodes)} if kind == "red" else {})}
        if kind in ("semaphore", "permits"):
            self.how["count"] = 1
            self.keeper.call("set", self.name, **self.how).ok()
        ids = self.call("try", "main").ok().get("ids")
        self.call("release", "main", **({"ids": ids} if ids else {})).ok()

    def say(self, verb: str, thread: str, **arguments):
        return self.keeper.say(verb, self.name, thread=thread, **self.how, **arguments)

    def call(self, verb: str, thread: str, **arguments):
        return self.say(verb, thread, **arguments).result()

    def wait(self) -> int:
        return self.keeper.stats("c0").waiting


@pytest.fixture
def servers(make_server, kind):
    made = [make_server() for _ in range(3 if kind == "red" else 1)]
    yield made
    for server in made:
        server.signal(signal.SIGCONT)


@pytest.fixture
def callers(servers, make_keeper, kind, way):
    return Callers(servers, make_keeper, kind, threadless=way == "threadless", **WAYS[way])


def halt(servers, number=signal.SIGSTOP) -> None:
    for server in servers:
        server.signal(number)


@pytest.mark.parametrize("kind", SHARED + OWN)
@pytest.mark.parametrize("way", WAYS)
def test_of_a_silent_server_nobody_knows(servers, callers, kind):
    halt(servers)
    first = callers.say("within", "first", wait=1500)
    until(lambda: callers.wait() >= 1, 5, "it waits")
    mere_try = callers.say("try", "third")
    within = callers.call("within", "second", wait=100)
    within.is_code(*(UNKNOWN if kind in SHARED else TRIED))
    first.result().is_code(*TRIED)
    mere_try.result().is_code(*TRIED)
    assert within.took < 1.5


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("way", WAYS)
def test_the_answer_to_the_caller_before_it_is_waited_for(servers, make_keeper, callers, kind):
    """A mere try ends with what a slow server says."""
    other = Callers(servers, make_keeper, kind)
    other.call("acquire", "other").ok()
    halt(servers)
    first = callers.say("within", "first", wait=1500)
    until(lambda: callers.wait() >= 1, 5, "it waits")
    mere_try = callers.say("try", "second")
    until(lambda: callers.keeper.is_asleep(), 5, "both wait")
    assert not mere_try.done
    halt(servers, signal.SIGCONT)
    mere_try.result().is_code("LK_EBUSY")
    assert not first.done
    first.result().is_code("LK_ETIMEDOUT")
