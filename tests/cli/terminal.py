"""An interactive shell on a terminal of its own, as a person would use it."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

PROMPT = b"READY> "


class Terminal:
    """bash with job control; `line` types, `expect` waits for what appears."""

    def __init__(self, environment: dict[str, str]):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self.prepare()
            # readline would set the terminal's modes itself, and echo.
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"],
                       {**environment, "PS1": PROMPT.decode(), "TERM": "dumb", "HISTFILE": ""})
        self.seen = b""
        self.prompt()

    @staticmethod
    def prepare() -> None:
        """Before the shell starts: a change of the size would make it print its prompt again."""
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        attributes = termios.tcgetattr(0)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, attributes)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def line(self, text: str) -> None:
        self.type(text.encode() + b"\n")

    def expect(self, pattern: str, limit: float = 20) -> str:
        """Waits for the pattern and takes everything up to its end."""
        end = time.monotonic() + limit
        while not (found := re.search(pattern.encode(), self.seen)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"not within {limit} s: {pattern!r}; seen: {self.seen!r}")
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError as gone:
                raise AssertionError(f"closed before {pattern!r}; seen: {self.seen!r}") from gone
        text = self.seen[:found.end()].decode(errors="replace")
        self.seen = self.seen[found.end():]
        return text

    def prompt(self, limit: float = 20) -> str:
        return self.expect(re.escape(PROMPT.decode()), limit)

    def run(self, text: str, limit: float = 20) -> str:
        """A line, and what it printed."""
        self.line(text)
        return self.prompt(limit)[:-len(PROMPT)]

    def status(self) -> int:
        return int(re.search(r"status=(\d+)", self.run("echo status=$?")).group(1))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
