"""A plain lock beside programs that poll: ours gets its turn."""
from __future__ import annotations

import contextlib
import threading
import time

import pytest

KIND = {"kind": "plain"}
OTHERS, PAUSE_S = 3, 0.01
TURNS = 6
PASSES_MAX = 100  # in all: with three alike, a fourth would miss three for each of its own


class Competitors:
    """Programs that ask every 10 ms, hold the lock for a while, and ask again."""

    def __init__(self, server, hold_s: float):
        self.server, self.hold_s = server, hold_s
        self.passes = 0  # written by the one that has the lock
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.compete, args=(f"token-{i}",))
                        for i in range(OTHERS)]

    def compete(self, token: str) -> None:
        with contextlib.closing(self.server.connect()) as connection:
            while not self.over.is_set():
                if connection.call("SET", "n", token, "NX", "PX", 60000):
                    self.passes += 1
                    time.sleep(self.hold_s)
                    connection.call("DEL", "n")
                time.sleep(PAUSE_S)

    def __enter__(self) -> Competitors:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(30)


@pytest.mark.parametrize("hold_s", [0.005, 0.05])
def test_three_that_ask_every_10_ms(server, make_keeper, hold_s):
    keeper = make_keeper(server.unix_url)
    with Competitors(server, hold_s) as others:
        for _ in range(TURNS):
            keeper.call("within", "n", wait=60000, limit=90, **KIND).ok()
            keeper.call("release", "n", **KIND).ok()
        assert others.passes <= PASSES_MAX
