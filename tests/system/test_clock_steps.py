"""A server whose clock is set: forward while it is away, and back under a copy on its way."""
from __future__ import annotations

import socket

import pytest

from keeper import BUILD
from proxy import CUT_BEFORE, SWALLOW
from servers import Server
from waiting import never, until

SKEW = BUILD / "tests" / "history" / "skew.so"
BACK = 6  # seconds
SCRIPTS = ("evalsha", "acquire", "release")


class ClockedServer(Server):
    """A real server; move() sets its clock, also while it is down. It keeps its data."""

    def __init__(self, folder):
        super().__init__(folder, {"appendonly": "yes"})
        self.clock = folder / "clock"
        self.clock.write_bytes(bytes(4096))
        # By a bare name: LD_PRELOAD would end at a space of the path.
        self.environment = {"LD_LIBRARY_PATH": str(SKEW.parent), "LD_PRELOAD": SKEW.name,
                            "LOCKKEEPER_TEST_CLOCK_FILE": str(self.clock)}

    def move(self, seconds: float) -> None:
        before = int(self.call("TIME")[0]) if self.process.poll() is None else None
        with self.clock.open("r+b") as file:
            file.write(b"%d\0" % int(seconds * 1000))
        if before is not None:
            now = int(self.call("TIME")[0])
            assert abs(now - before - seconds) < abs(seconds) / 2, "its clock is not ours to set"


@pytest.fixture
def clocked(folder):
    place = folder / "clocked"
    place.mkdir()
    server = ClockedServer(place)
    server.start()
    yield server
    server.kill()


def count(server) -> int:
    return int(server.call("GET", "pool"))


@pytest.mark.parametrize("minutes", [10, 50])
def test_a_permit_comes_back_after_an_outage_of_minutes(clocked, make_proxy, make_keeper, minutes):
    """The record of what was taken has not expired meanwhile."""
    proxy = make_proxy(clocked.path)
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=300)
    clocked.call("SET", "pool", 5)
    keeper.call("try", "warm", kind="semaphore").is_code("LK_EBUSY")

    def rule(message):
        if not message.reply or message.what != "evalsha" or message.lock != b"pool":
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("within", "pool", kind="semaphore", count=2, wait=300).is_code("LK_EMAYBEHELD")
    assert count(clocked) == 3
    clocked.stop()
    clocked.move(60 * minutes)
    clocked.restart()
    proxy.rule, proxy.refuse = None, False
    until(lambda: count(clocked) == 5, 10, "given back")


def asked(argv: list[bytes]) -> list[bytes]:
    """Without the deadline, which each copy has by the clock that the client knows by then."""
    return [word for word in argv if not (len(word) == 16 and word.isdigit())]


class Delayed:
    """A rule: the first request with this key is kept with its connection, the answer to its
    repetition is lost, and the clock is set back at the `moment`. It counts what gives back."""

    def __init__(self, server, name: bytes, moment: str, seconds: float = BACK):
        self.server, self.name, self.moment, self.seconds = server, name, moment, seconds
        self.argv, self.bytes, self.back = [], b"", 0

    def step(self, moment: str) -> None:
        if self.moment == moment:
            self.moment = ""
            self.server.move(-self.seconds)

    def __call__(self, message):
        if message.what not in SCRIPTS or self.name not in message.argv:
            return None
        if not self.bytes:
            self.argv, self.bytes = asked(message.argv), message.data
            self.step("before the repetition")
            return CUT_BEFORE
        if asked(message.argv) != self.argv:
            self.back += not message.reply
            return None
        if not message.reply:
            return None
        self.step("after the repetition")
        return SWALLOW

    def arrive(self) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(self.server.path)
            connection.sendall(self.bytes)
            return connection.recv(100)


@pytest.mark.parametrize("moment", ["before the repetition", "after the repetition"])
@pytest.mark.parametrize("kind", ["lock", "multi", "red"])
def test_a_copy_that_a_step_back_makes_timely(clocked, make_server, make_proxy, make_keeper, kind,
                                              moment):
    """What it took is given back when it can run no more by the clock as it is now."""
    proxy = make_proxy(clocked.path)
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=400)
    given = {"kind": kind}
    others = [make_server(), make_server()] if kind == "red" else []
    for number, other in enumerate(others):
        keeper.open(other.unix_url, c=f"c{number}", command_timeout_ms=400)
        given["nodes"] = "c,c0,c1"
    keeper.call("acquire", "warm", **given).ok()
    until(lambda: clocked.call("EXISTS", "warm"), 5, "the node is connected")
    keeper.call("release", "warm", **given).ok()
    proxy.rule = delayed = Delayed(clocked, b"late", moment)
    keeper.call("try", "late", **given).is_code("OK" if others else "LK_EMAYBEHELD")
    until(lambda: not delayed.moment, 5, "the clock was set back")
    if others:  # a majority without the copies' node
        keeper.call("release", "late", **given)
    until(lambda: delayed.back and not clocked.call("EXISTS", "late"), 5, "what ran is given back")
    never(lambda: clocked.call("EXISTS", "late"), 1, "nothing is there after the command limit")
    assert b"LATE" not in delayed.arrive() and clocked.call("EXISTS", "late")
    until(lambda: not clocked.call("EXISTS", "late"), 15, "what the copy took is given back")


def test_compensation_after_a_step_back_survives_a_lost_connection(clocked, make_proxy,
                                                                   make_keeper):
    """What is sent when the lease is over by the clock as it was is still sent again."""
    proxy = make_proxy(clocked.path)
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=400, watchdog_ms=1000)
    keeper.call("acquire", "warm").ok()
    keeper.call("release", "warm").ok()
    delayed = Delayed(clocked, b"late", "after the repetition", 3)
    lost = []

    def rule(message):
        last = message.reply and asked(message.argv) != delayed.argv and delayed.back == 2
        if last and not lost and message.lock == b"late":
            lost.append(keeper.stats().resent)
            return CUT_BEFORE
        return delayed(message)
    proxy.rule = rule
    keeper.call("try", "late").is_code("LK_EMAYBEHELD")
    until(lambda: lost, 10, "it is given back for the last time, and the answer is lost")
    until(lambda: delayed.back == 3, 10, "it is given back once more")
    assert keeper.stats().resent == lost[0] + 1, "as the same request"
