"""A lock held with all defaults for longer than its lease, watched in the background.

It goes on from the start of the session, so that the other tests use the time (test_watchdog.py).
"""
from __future__ import annotations

import pathlib
import shutil
import tempfile
import threading
import time

from keeper import Keeper
from servers import Server
from waiting import until


class LongHold:
    """A holder with all defaults; what became of its lock."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
        self.server = Server(self.folder).start_anywhere()
        self.keeper = Keeper(self.server.unix_url)
        self.keeper.call("acquire", "long").ok()
        self.begun = time.monotonic()
        self.fields = {tuple(self.server.holders("long").items())}
        self.ttls: list[int] = []
        self.killed = self.freed = 0.0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        while time.monotonic() - self.begun < 42:
            self.fields.add(tuple(self.server.holders("long").items()))
            self.ttls.append(self.server.call("PTTL", "long"))
            time.sleep(0.25)
        self.keeper.kill()
        self.killed = time.monotonic()
        until(lambda: self.server.call("EXISTS", "long") == 0, 60)
        self.freed = time.monotonic()

    def end(self) -> None:
        self.keeper.kill()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
