"""A server whose clock is set forward while it is away."""
from __future__ import annotations

import pytest

from keeper import BUILD
from proxy import CUT_BEFORE
from servers import Server
from waiting import until

SKEW = BUILD / "tests" / "history" / "skew.so"


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
