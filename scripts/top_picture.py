#!/usr/bin/env python3
"""Draws docs/top.svg: what `lockkeeper top` shows of a server of its own, on which programs hold
locks and wait for them.

usage: top_picture.py BUILD [FILE]
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from xml.sax.saxutils import escape

from tree import ROOT

sys.path[:0] = [str(ROOT / "tests" / name) for name in ("cli", "system")]

from servers import Server  # noqa: E402  (behind the path)
from terminal import Terminal  # noqa: E402

ROWS, COLUMNS = 12, 174
LIMIT_S = 60
WORKERS = [  # words of `lockkeeper run`; the programs stand for others and only sleep
    "--fair backup dump", "--fair backup dump", "--fair backup dump", "-l 90 invoices billing",
    "--permits 5 mail mailer", "--permits 5 mail mailer", "--plain cache:warm warmer",
    "-l 20 report:weekly reports"]
OFTEN = "while lockkeeper run tick ticker 0.2; do :; done"
HOST = "web-1"  # instead of this machine's name
# What stands on the screen when it shows all this: the second waiter, a permit, a rate, a renewal.
SHOWN = [r"waiting: 1 dump, .*; 2 dump, ", r"mail .* 2/5 ", r"tick .* [1-9]\.\d \S",
         r"backup +fair lock +1 +2\d\.\d +2\d\.\d +2 +1\d\.\d"]

# Characters of a terminal of the kind vt100, and what they do to the cursor.
TOKEN = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\x1b[()].|\x1b.|[\b\r\n\x0e\x0f]|[^\x00-\x1f\x7f]")


class Screen:
    """As much of a vt100 as ncurses uses: cells of a character and its style."""

    def __init__(self):
        self.x = self.y = 0
        self.style = ""
        self.rows = [[(" ", "")] * COLUMNS for _ in range(ROWS)]

    def feed(self, text: str) -> str:
        """What is left over: the begin of a sequence."""
        end = 0
        for token in TOKEN.finditer(text):
            end = token.end()
            if token[2]:
                self.control(token[1], token[2])
            elif token[0] in "\b\r\n":
                self.y = min(self.y + (token[0] == "\n"), ROWS - 1)
                self.x = {"\b": max(self.x - 1, 0), "\r": 0, "\n": self.x}[token[0]]
            elif token[0].isprintable():
                self.rows[self.y][min(self.x, COLUMNS - 1)] = (token[0], self.style)
                self.x += 1
        return text[end:]

    def control(self, given: str, what: str) -> None:
        numbers = [int(word or 0) for word in given.lstrip("?").split(";")]
        step = max(numbers[0], 1)
        if what == "H":
            self.y, self.x = step - 1, max(numbers[-1], 1) - 1 if len(numbers) > 1 else 0
        elif what in "AB":
            self.y = min(max(self.y + (step if what == "B" else -step), 0), ROWS - 1)
        elif what in "CD":
            self.x = min(max(self.x + (step if what == "C" else -step), 0), COLUMNS - 1)
        elif what == "K" and numbers[0] == 1:
            self.rows[self.y][:self.x + 1] = [(" ", "")] * (self.x + 1)
        elif what in "JK":
            self.rows[self.y][self.x:] = [(" ", "")] * (COLUMNS - self.x)
            for y in range(self.y + 1, ROWS if what == "J" else 0):
                self.rows[y] = [(" ", "")] * COLUMNS
        elif what == "m":
            for number in numbers:
                self.style = {1: "bold", 7: "reverse"}.get(number, "")

    def text(self) -> str:
        return "\n".join("".join(cell[0] for cell in row) for row in self.rows)


def drawn(screen: Screen) -> str:
    """A cell is 7.2 by 16 units; each line is one text, so that it can be copied."""
    wide, high = COLUMNS * 7.2 + 16, ROWS * 16 + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" '
           'font-family="monospace" font-size="12">',
           "<title>lockkeeper top</title>",
           f'<rect width="{wide:.0f}" height="{high}" rx="6" fill="#1b1f24"/>']
    for y, row in enumerate(screen.rows):
        text = "".join(cell[0] for cell in row).rstrip()
        style = row[0][1]
        if style == "reverse":
            out.append(f'<rect x="8" y="{y * 16 + 10}" width="{COLUMNS * 7.2:.1f}" height="16" '
                       'fill="#d7dce2"/>')
        if text:
            text = text.replace(os.uname().nodename, HOST)
            out.append(f'<text x="8" y="{y * 16 + 22}" xml:space="preserve" '
                       f'textLength="{len(text) * 7.2:.1f}" '
                       f'fill="{"#1b1f24" if style == "reverse" else "#d7dce2"}"'
                       f'{" font-weight=" + chr(34) + "bold" + chr(34) if style == "bold" else ""}>'
                       f"{escape(text)}</text>")
    return "\n".join([*out, "</svg>", ""])


def watched(environment: dict[str, str]) -> Screen:
    shell = Terminal(environment)
    screen, left, end = Screen(), "", time.monotonic() + LIMIT_S
    try:
        shell.run(f"export TERM=vt100; stty rows {ROWS} cols {COLUMNS}")
        shell.line("exec lockkeeper top -d 0.5")
        while not all(re.search(pattern, screen.text()) for pattern in SHOWN):
            if time.monotonic() > end:
                sys.exit(f"top_picture.py: not within {LIMIT_S} s:\n{screen.text()}")
            left = screen.feed(left + shell.expect("(?s).+").replace("\0", ""))
    finally:
        shell.close()
    return screen


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    file = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "top.svg"
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        for words in [*WORKERS, OFTEN.partition(" 0.2")[0]]:
            program = pathlib.Path(folder) / words.rpartition(" ")[2]
            program.unlink(missing_ok=True)
            program.symlink_to(shutil.which("sleep"))
        server = Server(pathlib.Path(folder)).start()
        environment = {"LOCKKEEPER_URL": f"redis://127.0.0.1:{server.port}",
                       "LOCKKEEPER_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8",
                       "PATH": f"{build / 'cli'}:{folder}:/usr/bin:/bin"}
        lines = [f"exec lockkeeper run {words} 300" for words in WORKERS] + [OFTEN]
        processes = [subprocess.Popen(["sh", "-c", line], env=environment, start_new_session=True,
                                      stdin=subprocess.DEVNULL) for line in lines]
        try:
            file.write_text(drawn(watched(environment)))
        finally:
            for process in processes:
                os.killpg(process.pid, signal.SIGTERM)
            for process in processes:
                process.wait(LIMIT_S)
            server.stop()


if __name__ == "__main__":
    main()
