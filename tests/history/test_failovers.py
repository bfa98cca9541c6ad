"""Failovers under load: nobody gets what another has, and nothing that was granted is lost.

LOCKKEEPER_FAILOVERS says how many; half of them are planned, which are the worst case: the old
master grants until its clients hear of the new one. In the others the master is killed, or stopped.
One process waits for a lock through all of them. In the end no connection, descriptor or thread is
left of any master, and no memory.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import time

import pytest

import checker
import moving
from deployments import MASTER, PATIENT, Watched
from keeper import DRIVER, EVENT_LOST, Keeper, is_sanitized
from test_kinds import end, load
from waiting import until

FAILOVERS = int(os.environ.get("LOCKKEEPER_FAILOVERS", "10"))
LEASE_MS = 3_600_000  # longer than 50 failovers take
PAUSE_US = 2000 if FAILOVERS <= 20 else 10_000  # so that what the load records has room
CONNECTIONS = 4  # of a client at its master: for scripts, messages, background work, and WAIT
GROWTH_KIB = 1024  # of a process: the allocator's, and far below what a connection a failover takes


@pytest.fixture
def trio(folder):
    deployment = Watched(folder, more=PATIENT)
    deployment.unix_url = deployment.url  # what load() opens
    yield deployment
    deployment.kill()


class Collector:
    """Takes one lock after the other and keeps them."""

    def __init__(self, keeper: Keeper):
        self.keeper, self.held, self.refused, self.refusal = keeper, [], 0, ""
        keeper.listen()

    def take(self) -> None:
        name = f"kept{len(self.held) + self.refused}"
        answer = self.keeper.call("within", name, lease=LEASE_MS, wait=500)
        if answer.code == "OK":
            self.held.append(name)
        else:
            self.refused += 1
            self.refusal = answer.message

    def goes_on(self) -> None:
        before = len(self.held)
        try:
            until(lambda: len(self.held) > before + 5, 30, "locks are granted again")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.refusal}") from None

    def lost(self, master) -> list[str]:
        """What is not at the master, or of which its holder was told that it is lost."""
        told = {event.name for event in self.keeper.events_of(EVENT_LOST)}
        with master.connect() as connection:
            return [name for name in self.held
                    if name in told or connection.call("EXISTS", name) == 0]


def memory_kib(keeper: Keeper) -> int:
    status = pathlib.Path(f"/proc/{keeper.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


class Queue:
    """A lock that one process holds and another waits for, through all failovers; and what these
    use, who do nothing else. It is measured when they have seen one."""

    def __init__(self, make_keeper, url: str):
        self.holder, self.waiter = make_keeper(url), make_keeper(url)
        self.holder.listen()
        self.holder.call("acquire", "queue").ok()
        self.waiter.call("try", "queue").is_code("LK_EBUSY")
        self.wait = self.waiter.say("within", "queue", thread="waits", wait=LEASE_MS * 10)
        self.before: list[tuple[int, int, int]] = []

    def use(self) -> list[tuple[int, int, int]]:
        return [(moving.descriptors(keeper), moving.threads(keeper), memory_kib(keeper))
                for keeper in (self.holder, self.waiter)]

    def has_seen_one(self) -> None:
        if not self.before:
            until(lambda: moving.asleep(self.holder) and moving.asleep(self.waiter), 20, "calm")
            self.before = self.use()

    def is_kept(self) -> None:
        assert not self.wait.done and not self.holder.events_of(EVENT_LOST), self.wait.answer

    def leaks_nothing(self) -> None:
        """Descriptors, threads, memory."""
        def same() -> bool:
            return all(now[0] <= then[0] and now[1] <= then[1]
                       for now, then in zip(self.use(), self.before))

        until(same, 20, f"no more than {self.before}")
        grown = [now[2] - then[2] for now, then in zip(self.use(), self.before)]
        print(f"descriptors, threads, KiB of holder and waiter: {self.before}, then {self.use()}")
        assert is_sanitized(DRIVER) or max(grown) <= GROWTH_KIB, grown

    def end(self) -> None:
        self.holder.call("release", "queue").ok()
        self.wait.result(20).ok()


def none_are_left(trio: Watched, clients: int) -> None:
    """Replicas have no connection of a client, the master has each client's own."""
    master = named(trio)
    for server in trio.servers:
        most = clients * CONNECTIONS if server is master else 0
        until(lambda s=server, m=most: moving.our_clients(s) <= m, 20, f"{server.port}: {most}")


def named(trio: Watched):
    """The master that the sentinels name: one that was replaced may say that it is one for 8 s."""
    port = trio.sentinels[0].names()
    return next(server for server in trio.servers if server.port == port)


def planned(trio: Watched) -> None:
    trio.failover()


def killed(trio: Watched) -> None:
    old = named(trio)
    old.kill()
    new = trio.switched(old)
    old.config["replicaof"] = f"127.0.0.1 {new.port}"
    old.start()


def stopped(trio: Watched) -> None:
    old = named(trio)
    old.pause()
    trio.switched(old)
    old.resume()


def sees_replicas(sentinel) -> bool:
    """It asks them every 10 s. Who has last said that it is a master, it makes a replica: it would
    demote the next master, if that is the one, and for half a minute there would be none."""
    rows = [dict(zip(row[::2], row[1::2])) for row in sentinel.call("SENTINEL", "REPLICAS", MASTER)]
    return all(row[b"role-reported"] == b"slave" for row in rows)


def settled(trio: Watched) -> bool:
    """Each sentinel knows two healthy replicas of one master, and they follow it."""
    with contextlib.suppress(OSError):
        one = len({sentinel.names() for sentinel in trio.sentinels}) == 1
        return (one and all(trio.knows_all(s) and sees_replicas(s) for s in trio.sentinels) and
                trio.linked() == 2)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("lock", "fenced", "spin"), ("fair",) * 3], ids="-".join)
def test_failovers(trio, make_keeper, history, background, kinds):
    collector = Collector(make_keeper(trio.url))
    keepers, paths = load(trio, make_keeper, history, kinds, threads=2, lease=3000, wait=500,
                          hold_us=2000, pause_us=PAUSE_US)
    queue = Queue(make_keeper, trio.url)
    stop = background(collector.take, 0.01)
    ways = itertools.cycle((planned, killed, planned, stopped))
    for number in range(FAILOVERS // 2):
        next(ways)(trio)
        collector.goes_on()
        until(lambda: settled(trio), 40, f"{MASTER} has its replicas")
        lost = collector.lost(named(trio))
        assert not lost, f"after {number + 1} failovers, of {len(collector.held)}: {lost}"
        queue.is_kept()
        queue.has_seen_one()
        time.sleep(0.2)
    records = end(keepers, paths)
    stop.set()
    queue.leaks_nothing()
    none_are_left(trio, len(keepers) + 3)
    queue.end()
    assert len(checker.check(records, over_allowed=20)) > 50
    print(f"{FAILOVERS // 2} failovers, {len(collector.held)} locks kept, "
          f"{collector.refused} refused, {len(records)} records")
