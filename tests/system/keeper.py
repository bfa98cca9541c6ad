"""C clients in the hands of Python: the driver program and its answers (tests/system/driver)."""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
from urllib.parse import quote_from_bytes

from servers import stopped
from waiting import boottime_ns, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKKEEPER_BUILD", ROOT / "build"))
DRIVER = BUILD / "tests" / "system" / "system-driver"
SANITIZED = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer",
             "runtime error:")

CLOSE_IF_IDLE, CLOSE_RELEASE, CLOSE_ABANDON = 0, 1, 2
EVENT_AT_RISK, EVENT_LOST, EVENT_ABANDONED = 1, 2, 3


def is_sanitized(program: pathlib.Path) -> bool:
    """Whether it was built with a sanitizer, which makes it a few times slower."""
    data = program.read_bytes() if program.exists() else b""
    return b"__asan_init" in data or b"__tsan_init" in data


class Answer(dict):
    """What a command answered; its members as attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{name} in {dict(self)}") from None

    @property
    def took(self) -> float:
        return (self["end_ns"] - self["start_ns"]) / 1e9

    def ok(self) -> Answer:
        assert self["code"] == "OK", dict(self)
        return self

    def is_code(self, *codes: str) -> Answer:
        assert self["code"] in codes, (codes, dict(self))
        return self


class Pending:
    """An answer that is to come."""

    def __init__(self, line: str):
        self.line, self.answer, self.come = line, None, threading.Event()
        self.began_ns = boottime_ns()

    def result(self, limit: float = 20.0) -> Answer:
        assert self.come.wait(limit), f"no answer within {limit} s: {self.line}"
        if self.answer is None:
            raise AssertionError(f"the driver ended before it answered: {self.line}")
        return self.answer

    @property
    def done(self) -> bool:
        return self.come.is_set()


def encoded(value) -> str:
    data = value if isinstance(value, bytes) else str(value).encode()
    return quote_from_bytes(data, safe="/:{}_-.@?&=,+")


class Keeper:
    """One process with C clients, or another program that takes the driver's commands.

    `say` begins a command, `call` waits for its answer.
    """

    def __init__(self, url: str | None = None, program: tuple = (DRIVER,), **options):
        self.process = subprocess.Popen([str(word) for word in program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.last = 0
        self.pending: dict[int, Pending] = {}
        self.events: list[Answer] = []
        self.logs: list[str] = []
        self.errors = ""
        self.mutex = threading.Lock()
        self.readers = [threading.Thread(target=work, daemon=True)
                        for work in (self.read, self.read_errors)]
        for reader in self.readers:
            reader.start()
        if url:
            self.open(url, **options)

    def read(self) -> None:
        for line in self.process.stdout:
            answer = Answer(json.loads(line))
            if "id" in answer:
                with self.mutex:
                    pending = self.pending.pop(answer["id"])
                pending.answer = answer
                pending.come.set()
            elif "event" in answer:
                self.events.append(Answer(answer, heard_ns=boottime_ns()))
            else:
                self.logs.append(answer["line"])
        with self.mutex:
            for pending in self.pending.values():
                pending.come.set()

    def read_errors(self) -> None:
        for line in self.process.stderr:
            self.errors += line.decode("utf-8", "replace")

    def say(self, verb: str, name=None, thread: str = "main", **arguments) -> Pending:
        if name is not None:
            arguments["name"] = name
        words = "".join(f" {key}={encoded(value)}" for key, value in arguments.items())
        with self.mutex:
            self.last += 1
            line = f"{self.last} {thread} {verb}{words}"
            pending = self.pending[self.last] = Pending(line)
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        return pending

    def call(self, verb: str, name=None, thread: str = "main", limit: float = 20.0,
             **arguments) -> Answer:
        return self.say(verb, name, thread, **arguments).result(limit)

    def open(self, url: str, c: str = "c", **options) -> Answer:
        return self.call("open", url=url, c=c, **options).ok()

    def listen(self, c: str = "c") -> None:
        """Collects the client's events in `self.events` from now on."""
        self.say("events", thread=f"events-{c}", c=c)

    def events_of(self, kind: int, name: str | None = None) -> list[Answer]:
        return [event for event in list(self.events)
                if event["event"] == kind and name in (None, event["name"])]

    def stats(self, c: str = "c") -> Answer:
        return self.call("stats", thread="-", c=c)

    def cancel(self, token: str) -> None:
        self.call("cancel", thread="-", token=token)

    def is_asleep(self, unless=lambda name: False) -> bool:
        """Whether each of its threads sleeps, `unless` its name says that it does not matter:
        nothing is under way but waits."""
        try:
            stats = [(task / "stat").read_text()
                     for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir()]
        except OSError:
            return False  # one has just ended
        return all(re.search(r"\) S", stat) or unless(re.search(r"\((.*)\)", stat)[1])
                   for stat in stats)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: stopped(self.pid), 5, "the driver is stopped")

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends the process and fails if it crashed or a sanitizer spoke."""
        if self.process.poll() is None:
            self.resume()
            try:
                self.process.stdin.write(b"0 - quit\n")
                self.process.stdin.close()
                self.process.wait(20)
            except (OSError, subprocess.TimeoutExpired):
                self.kill()
        for reader in self.readers:
            reader.join(10)
        assert self.process.returncode in (0, -signal.SIGKILL), \
            f"the driver ended with {self.process.returncode}: {self.errors[-4000:]}"
        assert not any(text in self.errors for text in SANITIZED), self.errors[-8000:]
