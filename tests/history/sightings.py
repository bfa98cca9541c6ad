"""Looks at a fair lock again and again, holder and queue at one moment, while others use it."""
from __future__ import annotations

import threading

from checker import Sighting

LOOK = "return {redis.call('HKEYS', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1)}"


class Sightings:
    def __init__(self, server, name: str):
        self.seen: list[Sighting] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work, args=(server, name), daemon=True)
        self.thread.start()

    def work(self, server, name: str) -> None:
        with server.connect(timeout=60) as connection:
            while not self.stop.is_set():
                holders, queue = connection.call("EVAL", LOOK, 2, name,
                                                 "redisson_lock_queue:{" + name + "}")
                self.note(Sighting(holders[0] if holders else None, tuple(queue)))
                self.stop.wait(0.0005)

    def note(self, sighting: Sighting) -> None:
        if not self.seen or self.seen[-1] != sighting:
            self.seen.append(sighting)

    def end(self) -> list[Sighting]:
        self.stop.set()
        self.thread.join(70)
        return self.seen
