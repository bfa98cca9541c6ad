"""One queue of C and Java waiters: strict order, and what waiters that went away cost."""
from __future__ import annotations

import pytest

from waiting import boottime_ns, until

SOON_S = 3.0
OUR_PROMISE_S = 3.0  # what a dead waiter of ours costs, once its turn has come


class Queue:
    """Waiters of one fair lock, each begun when the one before stands in Redis' queue."""

    def __init__(self, server, name: str = "row"):
        self.server, self.name = server, name
        self.waiters = []

    def __len__(self) -> int:
        return self.server.call("LLEN", f"redisson_lock_queue:{{{self.name}}}")

    def enter(self, keeper, **options):
        """A waiter; keeper and thread are kept to release it."""
        before, thread = len(self), f"waiter{len(self.waiters)}"
        verb = "within" if "wait" in options else "acquire"
        pending = keeper.say(verb, self.name, thread=thread, kind="fair", **options)
        until(lambda: len(self) > before, 10, "it stands in the queue")
        self.waiters.append((keeper, thread, pending))
        return pending

    def pass_through(self, limit: float = 20.0) -> list:
        """Each releases as soon as it is granted; fails where a later one was granted first."""
        granted = []
        for number, (keeper, thread, pending) in enumerate(self.waiters):
            granted.append(pending.result(limit).ok())
            later = [later for _, _, later in self.waiters[number + 1:] if later.done]
            assert not later, f"overtook waiter {number}: {[dict(one.answer) for one in later]}"
            keeper.call("release", self.name, thread=thread, kind="fair").ok()
        assert len(self) == 0
        return granted


def held(keeper, name: str = "row", **options) -> None:
    keeper.call("acquire", name, kind="fair", **options).ok()


def given_up(keeper, name: str = "row"):
    return keeper.call("release", name, kind="fair").ok()


@pytest.mark.parametrize("pattern", ["cj", "jjcc", "cjjjc"])
def test_mixed_queue_is_served_in_order(server, make_ours, java, pattern):
    """Two C processes and a JVM, in every neighbourhood; each hand-over by message."""
    ours = [make_ours(), make_ours()]
    queue = Queue(server)
    held(ours[0])
    for number, letter in enumerate(pattern * 3):
        queue.enter(java if letter == "j" else ours[number % 2])
    released = given_up(ours[0])
    granted = queue.pass_through()
    assert (granted[-1]["end_ns"] - released["start_ns"]) / 1e9 < SOON_S + 0.2 * len(granted)


def test_try_does_not_overtake_the_queue(server, ours, java):
    queue = Queue(server)
    held(java)
    queue.enter(ours)
    queue.enter(java)
    ours.call("try", "row", kind="fair", thread="t").is_code("LK_EBUSY")
    java.call("try", "row", kind="fair", thread="t").is_code("LK_EBUSY")
    given_up(java)
    queue.pass_through()


def test_waiters_that_time_out_leave(server, ours, java):
    """Ours and Java's, in the middle of the queue; those behind them move up at once."""
    queue = Queue(server)
    held(ours)
    first = queue.enter(java)
    mine = queue.enter(ours, wait=700)
    theirs = queue.enter(java, wait=700, lease=30000)
    queue.enter(ours)
    queue.enter(java)
    mine.result().is_code("LK_ETIMEDOUT")
    theirs.result().is_code("LK_ETIMEDOUT")
    until(lambda: len(queue) == 3, 5)
    queue.waiters = [row for row in queue.waiters if row[2] not in (mine, theirs)]
    assert not first.done
    released = given_up(ours)
    granted = queue.pass_through()
    assert (granted[-1]["end_ns"] - released["start_ns"]) / 1e9 < SOON_S


def test_cancelled_waiter_of_ours_leaves_at_once(server, ours, java):
    queue = Queue(server)
    held(java)
    gone = queue.enter(ours, cancel="token")
    queue.enter(java)
    ours.cancel("token")
    gone.result().is_code("LK_ECANCELLED")
    until(lambda: len(queue) == 1, 5)
    released = given_up(java)
    del queue.waiters[0]
    granted = queue.pass_through()
    assert (granted[-1]["end_ns"] - released["start_ns"]) / 1e9 < SOON_S


def test_interrupted_java_waiter_costs_its_limit_at_most(server, make_ours, jvm):
    """Redisson leaves its entry behind; its own limit (here 1.5 s past the lease) ends it."""
    jvm.open(server.url, fair_wait_ms=1500)
    ours = make_ours(watchdog_ms=900)
    queue = Queue(server)
    held(ours)
    gone = queue.enter(jvm)
    queue.enter(ours)
    queue.enter(jvm)
    jvm.call("interrupt", thread="-", target="waiter0")
    gone.result().is_code("LK_ECANCELLED")
    del queue.waiters[0]
    released = given_up(ours)
    granted = queue.pass_through()
    assert (granted[-1]["end_ns"] - released["start_ns"]) / 1e9 < 0.9 + 1.5 + SOON_S
    jvm.call("close", thread="-")


def test_killed_jvm_in_the_queue(server, make_ours, java, make_jvm):
    """At its head: costs no more than the limit that it wrote into the queue itself."""
    doomed = make_jvm(fair_wait_ms=1500)
    ours = make_ours(watchdog_ms=900)
    queue = Queue(server)
    held(ours)
    queue.enter(doomed)
    queue.enter(ours)
    queue.enter(java)
    doomed.kill()
    del queue.waiters[0]
    released = given_up(ours)
    granted = queue.pass_through()
    assert (granted[0]["end_ns"] - released["start_ns"]) / 1e9 < 0.9 + 1.5 + SOON_S
    assert (granted[-1]["end_ns"] - granted[0]["end_ns"]) / 1e9 < SOON_S


@pytest.mark.parametrize("next_in_line", ["ours", "java"])
def test_killed_c_process_in_the_queue(server, make_ours, java, next_in_line):
    ours, doomed = make_ours(watchdog_ms=900), make_ours()
    queue = Queue(server)
    held(ours)
    queue.enter(doomed)
    queue.enter(ours if next_in_line == "ours" else java)
    queue.enter(java)
    queue.enter(ours)
    doomed.kill()
    del queue.waiters[0]
    released = given_up(ours)
    granted = queue.pass_through()
    assert (granted[0]["end_ns"] - released["start_ns"]) / 1e9 < OUR_PROMISE_S + SOON_S
    assert (granted[-1]["end_ns"] - granted[0]["end_ns"]) / 1e9 < SOON_S


def test_killed_holders_with_a_queue(server, make_ours, java, make_jvm):
    """A JVM that held, then a C process that held: each costs its lease, and the order stays."""
    jvm, ours, other = make_jvm(watchdog_ms=1200), make_ours(watchdog_ms=1200), make_ours()
    queue = Queue(server)
    held(jvm)
    mine = queue.enter(ours)
    queue.enter(java)
    queue.enter(other)
    jvm.kill()
    killed_ns = boottime_ns()
    assert mine.result().ok()["end_ns"] - killed_ns < (1.2 + SOON_S) * 1e9
    ours.kill()
    killed_ns = boottime_ns()
    del queue.waiters[0]
    granted = queue.pass_through()
    assert granted[0]["end_ns"] - killed_ns < (1.2 + OUR_PROMISE_S + SOON_S) * 1e9
