#!/usr/bin/env python3
"""Runs each script of findings/, and prints a line for each: whether it still behaves so.

usage: findings.py [NAME...]     (all of them; a part of a name is enough)

A script installs public packages, so this needs the network, and is no part of the tests. Ends with
1 when one of them behaves in another way, or cannot run.
"""
from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from tree import ROOT

LIMIT_S = 600  # the longest takes 75 s where nothing has to be fetched


def run(script: pathlib.Path) -> tuple[int, str]:
    """Its status and its last line. A script that takes too long is ended with all its children."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(["bash", str(script)], stdout=said, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, process_group=0)
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # its trap ends what it has started
            status = 1
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                subprocess.run(["kill", "-KILL", f"-{process.pid}"], check=False)
            said.write(f"\nit took more than {LIMIT_S} s\n")
        said.seek(0)
        lines = [line.strip() for line in said.read().splitlines() if line.strip()]
    return status, lines[-1] if lines else ""


def main() -> int:
    scripts = [script for script in sorted((ROOT / "findings").glob("*.sh"))
               if not sys.argv[1:] or any(word in script.name for word in sys.argv[1:])]
    if not scripts:
        sys.exit(f"findings.py: no finding is called {' '.join(sys.argv[1:])}")
    changed = 0
    for script in scripts:
        begun = time.monotonic()
        status, last = run(script)
        changed += status != 0
        print(f"{'as stated' if status == 0 else 'FAILED   '}  {script.stem}"
              f"  ({time.monotonic() - begun:.0f} s){': ' + last if status else ''}", flush=True)
    print(f"{len(scripts) - changed} as stated, {changed} not")
    return changed > 0


if __name__ == "__main__":
    sys.exit(main())
