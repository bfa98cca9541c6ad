#!/usr/bin/env python3
"""Several processes compete for one lock around a file that would be corrupted without it; one of
them is killed while it holds. What is said here is read off the file and the journal that the
workers write, never off the library.

usage: demo.py --build DIR
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import story

WORKERS = 5
LEASE_MS = 2000
BARE_S, FIGHT_S, AFTER_S = 1.5, 3.0, 1.5
LIMIT_S = 10  # for each single thing that we wait for


class Failed(Exception):
    pass


def until(what: str, condition, limit_s: float = LIMIT_S):
    end = time.monotonic() + limit_s
    while not (answer := condition()):
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.002)
    return answer


def is_listening(path: pathlib.Path) -> bool:
    """The file is there a moment before a client may connect."""
    with socket.socket(socket.AF_UNIX) as client:
        return path.exists() and client.connect_ex(str(path)) == 0


@contextlib.contextmanager
def private_server(folder: pathlib.Path):
    path = folder / "socket"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", str(folder),
         "--save", "", "--logfile", str(folder / "log")])
    try:
        until("redis-server", lambda: is_listening(path) or server.poll() is not None)
        if server.poll() is not None:
            raise Failed((folder / "log").read_text())
        yield f"unix://{path}"
    finally:
        server.kill()
        server.wait()


class Fight:
    """The workers of one round, on files of their own."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path, kind: str, url: str):
        self.folder = folder
        folder.mkdir()
        (folder / "balance").write_text("000000\n")
        (folder / "journal").touch()
        environment = {**os.environ, "LOCKKEEPER_URL": url,
                       "LOCKKEEPER_WATCHDOG_MS": str(LEASE_MS)}
        self.workers = {number: subprocess.Popen([program, folder, str(number), kind],
                                                 env=environment)
                        for number in range(1, WORKERS + 1)}

    def journal(self) -> story.Journal:
        return story.Journal((self.folder / "journal").read_text())

    def balance(self) -> int:
        return int((self.folder / "balance").read_text())

    def kill(self, victim: int) -> int:
        """Tells it to stay inside, kills it there, and says when."""
        self.workers[victim].send_signal(signal.SIGUSR1)
        until("the victim's turn", lambda: self.journal().inside_longer_than(victim, 0.4))
        killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.workers[victim].kill()
        self.workers.pop(victim).wait()
        return killed_ns

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.send_signal(signal.SIGTERM)
        for number, worker in self.workers.items():
            if worker.wait(LIMIT_S):
                raise Failed(f"worker {number} failed")

    def end(self) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def fight(*arguments):
    made = Fight(*arguments)
    try:
        yield made
    finally:
        made.end()


def bare(program: pathlib.Path, folder: pathlib.Path) -> bool:
    story.title(f"1. Without the lock: {WORKERS} processes, each reads a number, thinks, writes "
                "number + 1")
    with fight(program, folder / "bare", "bare", "unix:///nowhere") as round_:
        time.sleep(BARE_S)
        round_.stop()
        return story.tell_bare(round_.journal(), round_.balance())


def locked(program: pathlib.Path, folder: pathlib.Path, url: str) -> bool:
    story.title(f"2. The same with the lock; the watchdog keeps a lease of {LEASE_MS / 1000:.0f} s")
    with fight(program, folder / "locked", "locked", url) as round_:
        until("every worker's first turn",
              lambda: len({turn.worker for turn in round_.journal().turns}) == WORKERS)
        time.sleep(FIGHT_S)
        fought = round_.journal()
        story.tell_fight(fought)
        story.title("3. Worker 3 enters, hangs, and is killed (kill -9) while it holds the lock")
        killed_ns = round_.kill(3)
        until("somebody's turn after the kill",
              lambda: round_.journal().first_enter_after(killed_ns))
        time.sleep(AFTER_S)
        round_.stop()
        return story.tell_kill(round_.journal(), fought.last_ns, 3, killed_ns, round_.balance(),
                               LEASE_MS)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    program = parser.parse_args().build.resolve() / "demo/demo-worker"
    begun = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockkeeper-demo-"))
    try:
        corrupted = bare(program, folder)
        with private_server(folder) as url:
            intact = locked(program, folder, url)
    except Failed as failure:
        print(f"\nThe demo failed: {failure}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    story.title("In short")
    story.line(f"without the lock: {'corrupted, as expected' if corrupted else 'NOT corrupted?'}")
    story.line(f"with the lock:    {'intact, nothing overlapped' if intact else 'BROKEN'}")
    story.line(f"took {time.monotonic() - begun:.0f} s; the server is stopped, its folder removed")
    return 0 if corrupted and intact else 1


if __name__ == "__main__":
    sys.exit(main())
