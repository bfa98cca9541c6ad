#!/usr/bin/env python3
"""What a grant costs that must be on disk: fsync_acks on the redis-server that is in PATH.

usage: disks.py [--build DIR] [--grants N]

One client takes one lock after the other, each after a pause of its own, so that grants do not
follow the server's seconds. Another writes each 5 ms, as on a server that is in use.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system")]
LEASE_MS = 600_000
PAUSE_S = 0.3
WRITE_S = 0.005


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a grant costs that must be on disk.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--grants", type=int, default=50)
    return parser.parse_args()


OPTIONS = arguments()
os.environ["LOCKKEEPER_BUILD"] = str(OPTIONS.build.resolve())

from deployments import Replicas  # noqa: E402  (the folder of the build is known now)
from keeper import Keeper  # noqa: E402


def write(server, stopped: threading.Event) -> None:
    with server.connect() as connection:
        while not stopped.wait(WRITE_S):
            connection.call("SET", "other", 1)


def grants(url: str, mode: str) -> list[float]:
    """How long each took, in ms."""
    keeper, took = Keeper(url, fsync_acks=mode), []
    pause = threading.Event()
    try:
        keeper.call("ping").ok()
        for number in range(OPTIONS.grants):
            pause.wait(random.random() * PAUSE_S)
            answer = keeper.call("acquire", f"{mode}{number}", lease=LEASE_MS).ok()
            took.append((answer.end_ns - answer.start_ns) / 1e6)
    finally:
        keeper.kill()
    return took


def measure(fsync: str) -> None:
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        trio = Replicas(pathlib.Path(folder), appendonly="yes", appendfsync=fsync)
        stopped = threading.Event()
        writer = threading.Thread(target=write, args=(trio.servers[0], stopped))
        writer.start()
        try:
            for mode in ("off", "local", "replicas"):
                took = grants(trio.url, mode)
                print(f"| `{fsync}` | `{mode}` | {statistics.median(took):,.1f} ms "
                      f"| {max(took):,.1f} ms |", flush=True)
        finally:
            stopped.set()
            writer.join()
            trio.kill()


def main() -> None:
    print("| `appendfsync` | `fsync_acks` | median | most |\n|---|---|---|---|")
    for fsync in ("always", "everysec"):
        measure(fsync)


if __name__ == "__main__":
    main()
