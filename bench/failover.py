#!/usr/bin/env python3
"""What a failover costs: the time without grants, and what the other shards of a cluster notice.

usage: failover.py [--build DIR] [--deaths N]

Deaths: the master is killed while a client takes one lock after the other. The floor is the
servers' own failover: from the kill until one of the others takes a write and, with sentinels, most
of them name it. Ours is from the kill to the first grant that was asked for after it. Meanwhile one
client waits for a lock that another gives back as the master dies: when the waiter has it, counted
from the floor, and what it sent until then. The other also holds a lock with a lease of 6 s, and,
with replica_acks=0, one that no replica had: what it was told of them, and when.

Neighbours: two threads of one client take locks of a healthy shard, while others of its threads
wait for locks of a shard whose master is well, stopped (and nobody else notices), or killed.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "tests" / "history")]
LEASE_MS = 600_000
HELD_MS = 6000
JOINED_S = 1.5  # a replica that joins counts after a second
SECONDS = 5
WAITERS = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a failover costs.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--deaths", type=int, default=10)
    return parser.parse_args()


OPTIONS = arguments()
os.environ["LOCKKEEPER_BUILD"] = str(OPTIONS.build.resolve())

import checker  # noqa: E402  (the folder of the build is known now)
import moving  # noqa: E402
from clusters import Cluster  # noqa: E402
from deployments import Watched  # noqa: E402
from keeper import EVENT_AT_RISK, EVENT_LOST, Keeper  # noqa: E402
from resp import Closed, ErrorReply  # noqa: E402
from waiting import boottime_ns, until  # noqa: E402


class Floor:
    """Asks the servers that are left for a write, and sentinels for a name, each ms."""

    def __init__(self, servers: list, key: str, sentinels: list, old):
        self.key, self.old, self.taken_ns, self.named_ns = key, old, 0, []
        self.most = len(sentinels) // 2 + 1 if sentinels else 0
        self.threads = [
            *(threading.Thread(target=self.ask, args=(server,)) for server in servers),
            *(threading.Thread(target=self.hear, args=(sentinel,)) for sentinel in sentinels)]
        for thread in self.threads:
            thread.start()

    def ask(self, server) -> None:
        end = time.monotonic() + 60
        while not self.taken_ns and time.monotonic() < end:
            with contextlib.suppress(ErrorReply, OSError, Closed):  # who is promoted cuts it off
                server.call("SET", self.key, 1)
                self.taken_ns = boottime_ns()
            time.sleep(0.001)

    def hear(self, sentinel) -> None:
        until(lambda: sentinel.names() != self.old.port, 60, "it names another")
        self.named_ns.append(boottime_ns())

    def result(self) -> int:
        for thread in self.threads:
            thread.join()
        assert self.taken_ns, "no server has taken a write within a minute"
        return max([self.taken_ns, *sorted(self.named_ns)[self.most - 1:self.most]])


class Taker:
    """Takes one lock after the other, until it is stopped."""

    def __init__(self, keeper: Keeper, name):
        self.keeper, self.name, self.granted, self.stopped = keeper, name, [], False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self) -> None:
        while not self.stopped:
            answer = self.keeper.call("within", self.name(), lease=LEASE_MS, wait=30_000, limit=40)
            if answer.code == "OK":
                self.granted.append(answer)
            time.sleep(0.001)

    def first_after(self, at_ns: int) -> int:
        until(lambda: self.granted and self.granted[-1].start_ns > at_ns, 60, "a grant")
        return next(grant.end_ns for grant in self.granted if grant.start_ns > at_ns)

    def stop(self) -> None:
        self.stopped = True
        self.thread.join()


class Death(NamedTuple):
    """In ms from the kill; the waiter in ms from the floor."""
    floor: float
    ours: float
    waiter: float
    commands: int
    connects: int
    told: list[tuple[int, float]]


class Pair:
    """A holder and one who waits for its lock, through the deaths."""

    def __init__(self, url: str, name, acks: dict):
        self.holder = Keeper(url, watchdog_ms=HELD_MS, **acks)
        self.waiter = Keeper(url, **acks)
        self.name, self.unsafe = name, bool(acks)
        self.holder.listen()

    def prepare(self, old) -> None:
        """It holds a lock for each thing that may happen, the last one on the old master alone."""
        self.turn = self.name()
        self.holder.call("within", self.turn, wait=30_000, limit=40).ok()
        self.holder.call("within", self.name(), thread="held", wait=30_000, limit=40).ok()
        self.waiter.call("try", self.turn).is_code("LK_EBUSY")
        self.wait = self.waiter.say("within", self.turn, wait=60_000)
        until(lambda: moving.asleep(self.waiter), 20, "it waits")
        if self.unsafe:
            moving.without_replication(old)
            self.holder.call("acquire", self.name(), thread="gone").ok()
        self.before, self.heard = self.waiter.stats(), len(self.holder.events)

    def give_back(self) -> None:
        self.holder.say("release", self.turn)

    def result(self, at_ns: int, floor_ns: int) -> tuple:
        granted, now = self.wait.result(70).ok(), self.waiter.stats()
        if self.unsafe:
            until(lambda: any(event["event"] == EVENT_LOST for event in
                              self.holder.events[self.heard:]), 30, "it is told of the loss")
        told = [(event["event"], (event.heard_ns - at_ns) / 1e6)
                for event in self.holder.events[self.heard:]]
        self.waiter.call("release", self.turn).ok()
        return ((granted.end_ns - floor_ns) / 1e6, now.commands - self.before.commands,
                now.connects - self.before.connects, told)

    def end(self) -> None:
        self.holder.process.kill()
        self.waiter.process.kill()


def death(taker: Taker, pair: Pair, old, others: list, key: str, sentinels: list) -> Death:
    count = len(taker.granted)
    pair.prepare(old)
    until(lambda: len(taker.granted) > count + 5, 30, "locks are granted")
    at_ns = boottime_ns()
    old.kill()
    pair.give_back()
    floor = Floor(others, key, sentinels, old).result()
    return Death((floor - at_ns) / 1e6, (taker.first_after(at_ns) - at_ns) / 1e6,
                 *pair.result(at_ns, floor))


def sentinel_deaths(folder: pathlib.Path, acks: dict) -> list[Death]:
    trio, rows = Watched(folder), []
    keeper, numbers = Keeper(trio.url, **acks), iter(range(10**9))
    taker = Taker(keeper, lambda: f"lock{next(numbers)}")
    pair = Pair(trio.url, lambda: f"pair{next(numbers)}", acks)
    try:
        for _ in range(OPTIONS.deaths):
            old = trio.master()
            others = [server for server in trio.servers if server is not old]
            rows.append(death(taker, pair, old, others, "floor", trio.sentinels))
            new = trio.switched(old)
            old.config["replicaof"] = f"127.0.0.1 {new.port}"
            old.start()
            until(lambda: all(trio.knows_all(s) for s in trio.sentinels) and trio.linked() == 2,
                  60, "the master has its replicas")
            time.sleep(JOINED_S)
    finally:
        taker.stop()
        pair.end()
        keeper.process.kill()
        trio.kill()
    return rows


def cluster_deaths(folder: pathlib.Path, acks: dict) -> list[Death]:
    cluster, rows = Cluster(folder), []
    keeper, key = Keeper(cluster.url, **acks), cluster.name_on(0, "floor")
    taker = Taker(keeper, lambda: cluster.name_on(0))
    pair = Pair(cluster.url, lambda: cluster.name_on(0, "pair"), acks)
    try:
        for _ in range(OPTIONS.deaths):
            old = cluster.master(0)
            rows.append(death(taker, pair, old, cluster.replicas(0), key, []))
            cluster.switched(old)
            old.restart()
            cluster.wait()
            time.sleep(JOINED_S)
    finally:
        taker.stop()
        pair.end()
        keeper.process.kill()
        cluster.kill()
    return rows


def of_all(words: str, values: list, unit: str = "") -> str:
    return f"{words} {statistics.median(values):.0f} (most {max(values):.0f}){unit}"


def say_deaths(title: str, rows: list[Death]) -> None:
    over = [row.ours - row.floor for row in rows]
    floors, ours = [row.floor for row in rows], [row.ours for row in rows]
    print(f"{title:34} {len(rows):3} deaths: floor {statistics.median(floors):6.0f} ms, "
          f"ours {statistics.median(ours):6.0f} ms; on top: median {statistics.median(over):5.0f}, "
          f"max {max(over):5.0f} ms", flush=True)
    print("    " + of_all("waiter: on top of the floor", [row.waiter for row in rows], " ms") +
          of_all(", commands", [row.commands for row in rows]) +
          of_all(", connections", [row.connects for row in rows]))
    for kind, word in ((EVENT_AT_RISK, "at risk"), (EVENT_LOST, "lost")):
        times = [ms for row in rows for what, ms in row.told if what == kind]
        print(f"    holder: told {len(times)} times that a lock is {word}" +
              (of_all(", behind the death", times, " ms") if times else ""), flush=True)


# ---- neighbours ----

def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def load(keeper: Keeper, folder: pathlib.Path, name: str, run: int) -> tuple[float, ...]:
    """Pairs/s, and p50 and p99 of an acquire in µs, of two threads with names of their own."""
    path = folder / f"history{run}"
    work = keeper.say("stress", thread=f"s{run}", kind="lock", name=name, names=0, threads=2,
                      pairs=1_000_000, wait=5000, lease=30_000, history=path, run=run,
                      capacity=1_000_000)
    time.sleep(SECONDS)
    keeper.call("stop", thread="-")
    work.result(40)
    took = []
    for phases in checker.attempts(checker.read(path)):
        if checker.GRANTED in phases:
            took.append((phases[checker.GRANTED].time_ns - phases[checker.INVOKE].time_ns) / 1e3)
    return len(took) / SECONDS, quantile(took, 0.5), quantile(took, 0.99)


def neighbours(folder: pathlib.Path) -> None:
    cluster = Cluster(folder, node_timeout_ms=60_000, cluster_require_full_coverage="no")
    keeper = Keeper(cluster.url)
    tag, bad = cluster.name_on(1, "tag"), cluster.master(0)
    stuck = [cluster.name_on(0) for _ in range(WAITERS)]
    try:
        for name in stuck:
            keeper.call("acquire", name).ok()
            keeper.call("release", name).ok()
        for run, (title, act) in enumerate((("well", lambda: None), ("stopped", bad.pause),
                                            ("well again", bad.resume), ("killed", bad.kill))):
            act()
            for name in stuck:
                keeper.say("within", name, thread=name, wait=SECONDS * 1000, lease=1000)
            rate, p50, p99 = load(keeper, folder, f"{{{tag}}}", run)
            print(f"the other shard's master is {title:11} {rate:8.0f} pairs/s, "
                  f"p50 {p50:6.1f} µs, p99 {p99:6.1f} µs", flush=True)
            until(lambda: keeper.stats().waiting == 0, 30, "the waits are over")
    finally:
        keeper.process.kill()
        cluster.kill()


def main() -> None:
    for title, deaths, acks in (
            ("redis-sentinel://", sentinel_deaths, {}),
            ("redis-sentinel://, replica_acks=0", sentinel_deaths, {"replica_acks": 0}),
            ("redis-cluster://", cluster_deaths, {}),
            ("redis-cluster://, replica_acks=0", cluster_deaths, {"replica_acks": 0})):
        with tempfile.TemporaryDirectory(prefix="lk-") as folder:
            say_deaths(title, deaths(pathlib.Path(folder), acks))
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        neighbours(pathlib.Path(folder))


if __name__ == "__main__":
    main()
