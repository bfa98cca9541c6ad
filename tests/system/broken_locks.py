"""Locks with well-known defects, and a sound one, for the checker to tell apart.

They are used by threads that each have a connection of their own through a proxy that parks single
messages for longer than the lease: what a paused process or a slow network does.
"""
from __future__ import annotations

import contextlib
import random
import threading
import uuid

import checker
import resp
from proxy import Message, Park, Proxy
from waiting import boottime_ns

LEASE_MS = 120
MS = 1_000_000
DRIFT_NS = LEASE_MS * MS // 100 + 2 * MS
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"


class SoundLock:
    """The deadline counts from before the request, and is checked when the grant arrives."""

    def __init__(self, connection: resp.Connection, name: str):
        self.connection, self.name = connection, name
        self.token, self.deadline_ns = "", 0

    def ask(self) -> bool:
        self.token = uuid.uuid4().hex
        sent_ns = boottime_ns()
        granted = self.connection.call("SET", self.name, self.token, "NX", "PX", LEASE_MS)
        self.deadline_ns = sent_ns + LEASE_MS * MS - DRIFT_NS
        return granted == "OK"

    def is_granted(self, now_ns: int) -> bool:
        return now_ns < self.deadline_ns

    def believed_end(self, released_ns: int) -> int:
        return min(released_ns, self.deadline_ns)

    def release(self) -> None:
        self.connection.call("EVAL", RELEASE, 1, self.name, self.token)


class GrantUnchecked(SoundLock):
    """A grant that arrives late is used without a look at the clock."""

    def is_granted(self, now_ns: int) -> bool:
        return True

    def believed_end(self, released_ns: int) -> int:
        return released_ns


class DeadlineFromReply(SoundLock):
    """The lease is counted from the arrival of the reply."""

    def ask(self) -> bool:
        granted = super().ask()
        self.deadline_ns = boottime_ns() + LEASE_MS * MS - DRIFT_NS
        return granted


class PlainDelete(SoundLock):
    """The release deletes the key, whoever has it."""

    def release(self) -> None:
        self.connection.call("DEL", self.name)


class GetThenDelete(SoundLock):
    """The release compares and deletes in two steps."""

    def release(self) -> None:
        if self.connection.call("GET", self.name) == self.token.encode():
            self.connection.call("DEL", self.name)


class SharedToken(SoundLock):
    """Two identities for all owners: a late release frees a stranger's grant."""

    def ask(self) -> bool:
        granted = super().ask()
        if granted:
            self.token = random.choice("ab")
            self.connection.call("SET", self.name, self.token, "XX", "KEEPTTL")
        return granted


BROKEN = [GrantUnchecked, DeadlineFromReply, PlainDelete, GetThenDelete, SharedToken]


def parking(seed: int, share: float = 0.04, longest: float = 3 * LEASE_MS / 1000):
    """A rule that parks some messages, for up to a few leases."""
    generator = random.Random(seed)

    def rule(_: Message):
        return Park(generator.uniform(0, longest)) if generator.random() < share else None
    return rule


class Contest:
    """Threads that use one lock through a proxy; collects their claims."""

    def __init__(self, proxy: Proxy, kind: type[SoundLock], threads: int = 6):
        self.proxy, self.kind = proxy, kind
        self.claims: list[checker.Claim] = []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True)
                        for number in range(threads)]
        for thread in self.threads:
            thread.start()

    def work(self, number: int) -> None:
        generator = random.Random(number)
        with resp.Connection(self.proxy.path, 30) as connection:
            lock = self.kind(connection, "contest")
            while not self.stop.is_set():
                with contextlib.suppress(resp.Closed):
                    self.turn(lock, number, generator)

    def turn(self, lock: SoundLock, number: int, generator: random.Random) -> None:
        if not lock.ask():
            self.stop.wait(0.005)
            return
        start_ns = boottime_ns()
        if lock.is_granted(start_ns):
            self.stop.wait(generator.choice((0.002, 0.01, 0.06)))
            end_ns = lock.believed_end(boottime_ns())
            if end_ns > start_ns:
                self.claims.append(checker.Claim("contest", number, start_ns, end_ns))
        lock.release()

    def overlaps(self) -> list:
        return checker.overlaps(list(self.claims))

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
