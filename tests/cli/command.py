"""Running the command, and finding the processes that it started."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import uuid

from waiting import until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LOCKKEEPER_BUILD") or ROOT / "build").resolve()
BINARY = BUILD / "cli" / "lockkeeper"
SANITIZED = "ASAN_OPTIONS" in os.environ  # then a process has memory that is not its own
LIMIT = 60  # seconds that any one command may take before the test gives up


class Command:
    """The command with an environment; what it starts has no terminal. Shells find `lockkeeper`."""

    def __init__(self, environment: dict[str, str]):
        path = f"{BINARY.parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, **environment}
        self.started: list[subprocess.Popen] = []

    def __call__(self, *args: str | bytes, input: str = "", **environment: str):
        """Runs it to its end: returncode, stdout, stderr."""
        return subprocess.run([BINARY, *args], input=input, capture_output=True, text=True,
                              errors="surrogateescape", timeout=LIMIT, start_new_session=True,
                              env={**self.environment, **environment})

    def start(self, *args: str | bytes, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen([BINARY, *args], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True,
                                   env={**self.environment, **environment})
        self.started.append(process)
        return process

    def stop(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(LIMIT)
            process.stdout.close()
            process.stderr.close()


class Tree:
    """The processes of one command line, wherever they went: by a mark in their environment."""

    def __init__(self):
        self.mark = f"LK_TEST_TREE={uuid.uuid4().hex}"

    def line(self, script: str) -> list[str]:
        """A command line that runs a shell script under the mark."""
        return ["env", self.mark, "sh", "-c", script]

    def pids(self) -> list[int]:
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                # A zombie has no environment any more.
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def await_size(self, size: int) -> list[int]:
        until(lambda: len(self.pids()) >= size, 20, f"{size} processes run")
        return self.pids()

    def await_end(self, limit: float) -> None:
        until(lambda: not self.pids(), limit, "all processes of the command have ended")

    def kill(self) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    return [int(word) for word in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def guard_of(process: subprocess.Popen) -> int:
    """The guard: the child that lockkeeper has where there is no terminal."""
    return until(lambda: children(process.pid), 10, "the guard runs")[0]


def state_of(pid: int) -> str:
    """The letter of proc(5): R, S, T, Z …"""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
