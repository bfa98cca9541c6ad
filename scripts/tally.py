"""Runs test programs of any kind, keeps their output, and counts cases.

Every runner takes a Tally and adds to it: a test case is one, a check is one, a program that says
nothing of cases is one. What a program printed stands in a file of the log folder.
"""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import sessions

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Whoever started us may ignore signals (nohup, a job in the background), and all that we start
# would too: the tests of signals count on none that is.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
OUT_OF_TIME = 124  # the status of a command that was stopped


class Tally:
    def __init__(self, logs: pathlib.Path):
        self.logs = logs
        self.passed = self.failed = self.skipped = 0
        self.failing: list[str] = []
        self.reasons: collections.Counter[str] = collections.Counter()  # of what was skipped
        self.unsteady: list[str] = []  # failed once, and passed whenever it was repeated
        self.mutex = threading.Lock()
        logs.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, passed: int, failed: int, skipped: int = 0, why: str = "") -> None:
        """`why` is the reason of all that was skipped."""
        with self.mutex:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            if skipped:
                self.reasons[why] += skipped
            if failed:
                self.failing.append(name)

    def add_all(self, other: Tally, prefix: str) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons
        self.failing += [f"{prefix}: {name}" for name in other.failing]
        self.unsteady += [f"{prefix}: {name}" for name in other.unsteady]

    def line(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def say(text: str) -> None:
    print(text, flush=True)


def run(argv: list[str], log: pathlib.Path, environment: dict[str, str] | None = None,
        limit_s: float = 3600, show: bool = False) -> int:
    """Runs a command in the root folder; its status, or 124 when it ran out of time.

    All of its session is killed then. `show` copies the output to the terminal as it comes.
    """
    with open(log, "wb") as out:
        process = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **(environment or {})},
                                   stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                   stdout=subprocess.PIPE if show else out,
                                   start_new_session=True)
        try:
            if show:
                follow(process, out, time.monotonic() + limit_s)
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped after {limit_s:.0f} s\n".encode())
            return OUT_OF_TIME
        finally:
            sessions.end(process.pid)  # nothing that a test left behind may outlive it
            process.wait()


def follow(process: subprocess.Popen, out, end: float) -> None:
    os.set_blocking(process.stdout.fileno(), False)
    while process.poll() is None or process.stdout.peek(1):
        piece = process.stdout.read()
        if piece:
            out.write(piece)
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()
        elif time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, 0)
        else:
            time.sleep(0.05)


def command(tally: Tally, name: str, argv: list[str], limit_s: float = 600,
            environment: dict[str, str] | None = None, quiet: bool = False) -> bool:
    """One command as one case. Its output is shown when it failed; `quiet`: nothing otherwise."""
    log = tally.logs / f"{name}.log"
    begun = time.monotonic()
    status = run(argv, log, environment, limit_s)
    seconds = time.monotonic() - begun
    if status or not quiet:
        say(f"  {'ok' if status == 0 else 'FAILED':6}  {name}  ({seconds:.1f} s)")
    if status:
        say(tail(log, 60))
    tally.add(name, int(status == 0), int(status != 0))
    return status == 0


def tail(log: pathlib.Path, lines: int) -> str:
    """The end of a log: what follows the last step that a build calls FAILED, or `lines` of it."""
    text = log.read_text(errors="replace").splitlines()
    first = max(len(text) - lines, 0)
    first = max([first, *(i for i, line in enumerate(text) if line.startswith("FAILED:"))])
    head = [f"    … {first} lines more in {log}"] if first > 0 else []
    return "\n".join(head + ["    " + line for line in text[first:]])


@contextlib.contextmanager
def temporary_folder(tally: Tally) -> Iterator[None]:
    """What runs within has a temporary folder of its own, and must leave nothing there."""
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        os.chmod(folder, 0o1777)  # for everybody, as the usual one
        usual = os.environ.get("TMPDIR"), tempfile.tempdir
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield
        finally:
            if usual[0] is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = usual[0]
            tempfile.tempdir = usual[1]
        left = sorted(os.listdir(folder))
    name = f"left in the temporary folder: {', '.join(left) or 'nothing'}"
    say(name)
    # A program that failed may have ended before it could tidy up: it is told of for that.
    blamed = bool(left) and not (tally.failing or tally.unsteady)
    tally.add(name, int(not blamed), int(blamed))


def have(program: str) -> bool:
    return shutil.which(program) is not None
