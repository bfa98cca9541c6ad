"""Ends all processes of a session, also those that moved into process groups of their own."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time

LIMIT_S = 10


def members(session: int) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                # Behind the name, which may hold spaces and brackets: state, ppid, pgrp, session.
                state, _, _, own = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(own) == session and state != "Z":
                    found.append(int(entry.name))
    return found


def end(session: int) -> None:
    """A member may start another one while they are ended: until none is left."""
    limit = time.monotonic() + LIMIT_S
    while (left := members(session)) and time.monotonic() < limit:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
