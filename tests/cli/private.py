"""The private server as seen from outside: its processes, its status, its socket."""
from __future__ import annotations

import os
import pathlib
import signal

import resp


def servers_in(folder) -> list[int]:
    """The server processes that live in a state folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd").startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def status(bare) -> dict[str, str]:
    result = bare("server", "status")
    assert result.returncode == 0, result
    return dict(line.split(": ", 1) for line in result.stdout.splitlines() if ": " in line)


def process(bare) -> int:
    return int(status(bare)["process"])


def kill(bare) -> None:
    os.kill(process(bare), signal.SIGKILL)


def call(folder, *words):
    """One command to the private server, past lockkeeper."""
    with resp.Connection(str(folder / "state" / "redis.sock")) as connection:
        return connection.call(*words)
