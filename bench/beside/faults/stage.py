"""The scripts of this folder share this: for each system a server, a holder, a waiter, and what
came of it. A script asks one question; it prints a line of JSON for each system, with its verdict,
or why it is not asked (`unfit`) or cannot be (`skipped`):

    one owner       the other came in when the first no longer worked, or knew that it had lost
    two owners      the other came in while the first was still at work, both for `both_s`
    nobody          the other had not come in when the script gave up waiting
"""
from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "bench")]

import histories  # noqa: E402  (behind the path)
from histories import Hold  # noqa: E402
from servers import Missing, Server  # noqa: E402
from systems import SYSTEMS, Programs, System, served  # noqa: E402

GRANT_LIMIT_S = 20
SECOND_HOLDS_S = 8.0
PATIENCE_S = 40.0  # longer than each lease and session here, which are 30 s at most
NAME = "fault"
GOES_ON = ("at risk", "CONNECTED", "RECONNECTED")  # notices that tell of no loss


class Proxy:
    """Passes bytes between clients and a server, until it is told to cut, or to fall silent."""

    def __init__(self, port: int):
        self.target, self.silent, self.refuses = port, False, False
        self.before_send: Callable[[bytes], None] = lambda data: None
        self.sockets: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                if self.refuses:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.sockets += [client, server]
            threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, False), daemon=True).start()

    def pass_on(self, source: socket.socket, target: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if to_server:
                    self.before_send(data)
                if not self.silent:
                    target.sendall(data)
            if not self.silent:
                target.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Ends every connection, as a reset does."""
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.sockets.clear()


class Worker:
    """A process that takes the lock."""

    def __init__(self, words: list[str], url: str, system: System, path: pathlib.Path, *rest: str):
        self.path = path
        path.touch()
        self.process = subprocess.Popen(
            [*words, url, system.kind, str(path), "live", "same", f"name={NAME}", *rest],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def holds(self) -> list[Hold]:
        return histories.read(self.path)[0]

    def told(self) -> list[tuple[str, int]]:
        """What the library told of its own accord, and when."""
        words = histories.read(self.path)[1]
        return [(word.text, word.at) for word in words if word.owner.endswith("/-")]

    def granted(self, limit_s: float) -> Hold | None:
        return until(lambda: next(iter(self.holds()), None), limit_s)

    def released(self, limit_s: float) -> Hold | None:
        return until(lambda: next((hold for hold in self.holds() if hold.done), None), limit_s)


def until(look: Callable, limit_s: float):
    """What it finds, or None when the time is over."""
    end = time.monotonic() + limit_s
    while True:
        found = look()
        if found or time.monotonic() > end:
            return found
        time.sleep(0.01)


class Case:
    """One system on its stage."""

    def __init__(self, system: System, words: list[str], server: Server, folder: pathlib.Path):
        self.system, self.words, self.server, self.folder = system, words, server, folder
        self.workers: list[Worker] = []
        self.proxy: Proxy | None = None

    def through_proxy(self) -> str:
        """The server's URL, led through a proxy."""
        self.proxy = Proxy(self.server.port)
        return self.server.url.replace(f":{self.server.port}", f":{self.proxy.port}")

    def worker(self, hold_s: float, url: str = "", *rest: str) -> Worker:
        made = Worker(self.words, url or self.server.url, self.system,
                      self.folder / f"worker-{len(self.workers)}", "turns=1",
                      f"hold_us={int(hold_s * 1e6)}", *rest)
        self.workers.append(made)
        return made

    def holder(self, hold_s: float, url: str = "") -> Worker:
        """One that has the lock."""
        made = self.worker(hold_s, url)
        if not made.granted(GRANT_LIMIT_S):
            raise Missing("the first did not get the lock")
        return made

    def holder_and_waiter(self, hold_s: float, url: str = "") -> tuple[Worker, Worker]:
        """One that has the lock, and one that waits for it by now. The second works for a while as
        well: two that have it at once are seen by how long both do."""
        made = self.holder(hold_s, url), self.worker(SECOND_HOLDS_S)
        time.sleep(1)
        return made

    def end(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
            worker.process.wait()


def learnt_ns(first: Worker) -> int | None:
    """When the first stopped to work: its library told it of the loss, or its release began."""
    told = [at for text, at in first.told() if text not in GOES_ON]
    released = [hold.release for hold in first.holds() if hold.release]
    return min(told + released, default=None)


def verdict(second: Hold | None, fault_ns: int, ended_ns: int | None, at_work_ns: int = 0) -> dict:
    """The first worked from `at_work_ns` on (again) until `ended_ns`, or still does (None). The
    processes share a clock, but a signal takes its time: 50 ms count for nothing."""
    if not second:
        return {"verdict": "nobody", "after_s": None}
    end_ns = min(ended_ns or time.monotonic_ns(), second.release or time.monotonic_ns())
    both_s = max(0, end_ns - max(second.granted, at_work_ns)) / 1e9
    return {"verdict": "two owners" if both_s > 0.05 else "one owner", "both_s": round(both_s, 2),
            "after_s": round((second.granted - fault_ns) / 1e9, 2)}


def learns(first: Worker, since_ns: int, limit_s: float) -> dict:
    """What its library tells the first of its own accord, and what its release answers."""
    released = first.released(limit_s)
    return {"first_is_told": [f"{text} after {(at - since_ns) / 1e9:.2f} s"
                              for text, at in first.told() if at >= since_ns],
            "first_learns": released.outcome if released else "nothing"}


@contextlib.contextmanager
def staged(system: System, programs: Programs, folder: pathlib.Path) -> Iterator[Case]:
    words = programs.words(system.program)
    with served(system, programs, folder / system.key) as server:
        own = folder / f"{system.key}-workers"
        own.mkdir()
        case = Case(system, words, server, own)
        try:
            yield case
        finally:
            case.end()


class Question(NamedTuple):
    """Its name is that of its script."""
    name: str
    text: str
    ask: Callable[[Case], dict]
    unfit: Callable[[System], str | None]  # why that system is not asked


def question(script: str, text: str, ask: Callable[[Case], dict],
             unfit: Callable[[System], str | None] = lambda system: None) -> Question:
    return Question(pathlib.Path(script).stem, " ".join(text.split()), ask, unfit)


def without_server(system: System) -> str | None:
    return "no server" if system.server == "folder_of_files" else None


def as_installed(system: System) -> str | None:
    return "its server does what it does as installed" if system.server == "redis_durable" else None


def of_a_held_connection(system: System) -> str | None:
    """The home-made ones have a lease and no more: faulty.py shows what comes of them."""
    return without_server(system) or \
        ("its program ends with its connection" if system.program == "homemade" else None)


def answer(asked: Question, system: System, programs: Programs) -> dict:
    line = {"question": asked.name, "system": system.key}
    if why := asked.unfit(system):
        return line | {"unfit": why}
    with tempfile.TemporaryDirectory(prefix="lk-beside-") as folder:
        pathlib.Path(folder).chmod(0o755)
        try:
            with staged(system, programs, pathlib.Path(folder)) as case:
                return line | asked.ask(case)
        except Missing as why:
            return line | {"skipped": " ".join(str(why).split())}


def main(asked: Question) -> None:
    """Asks each system that the question fits."""
    parser = argparse.ArgumentParser(description=asked.text)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="", help="systems, by their keys")
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.only.split(",")))
    programs = Programs(arguments.build)
    for system in SYSTEMS:
        if not wanted or system.key in wanted:
            print(json.dumps(answer(asked, system, programs), ensure_ascii=False), flush=True)
