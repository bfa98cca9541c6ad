#!/usr/bin/env python3
"""How long an election is vacant, on each deployment, and beside etcd.

usage: elections.py [--build DIR] [--rounds N] [--kills N] [--etcdctl PROGRAM] [DEPLOYMENT…]

Deployments: single, sentinel and cluster, whose masters have replicas that acknowledge. Each with
two candidates, and with 200 more that stand by: from a resignation, a transfer, or the kill of a
leader with a lease of 1 s, until the next one leads (ours_election.c).

beside: the commands of both, `lockkeeper elect` and `etcdctl elect`, in turns on this machine, each
with one server whose disk is in /dev/shm: from the SIGTERM of the leader until the next one says
that it leads. The last one is killed, with the default lease. Needs `etcd` and `etcdctl`.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system")]
LIMIT_S = 60
LEASE_MS = 1000
WAITS_S = 0.5  # until the next one surely waits


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How long an election is vacant.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--etcdctl", default="etcdctl")
    parser.add_argument("deployments", nargs="*", metavar="DEPLOYMENT",
                        default=["single", "sentinel", "cluster", "beside"])
    return parser.parse_args()


OPTIONS = arguments()
os.environ["LOCKKEEPER_BUILD"] = str(OPTIONS.build.resolve())

from clusters import Cluster  # noqa: E402  (the folder of the build is known now)
from deployments import Watched  # noqa: E402
from servers import Server  # noqa: E402


# ---- deployments ----

@contextlib.contextmanager
def deployed(kind: str, folder: pathlib.Path):
    if kind == "single":
        server = Server(folder)
        server.start()
        url = server.unix_url
    else:
        server = Watched(folder) if kind == "sentinel" else Cluster(folder)
        url = server.url
    try:
        yield url
    finally:
        server.kill()


def vacant(url: str, how: str, rounds: int, others: int) -> dict:
    words = [OPTIONS.build / "bench" / "ours-election", url, str(rounds), how, str(others)]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True,
                                     timeout=LIMIT_S).stdout)


def measure(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder, deployed(kind, pathlib.Path(folder)) as url:
        for others in (0, 200):
            for how in ("resign", "transfer", "kill"):
                kills = how == "kill"
                query = f"{'&' if '?' in url else '?'}watchdog_ms={LEASE_MS}" if kills else ""
                rounds = OPTIONS.kills if kills else OPTIONS.rounds
                took = vacant(url + query, how, rounds, others)
                print(f"{kind:9} {how:8} {others:3} others:",
                      ", ".join(f"{name[:-3]} {us / 1000:.2f} ms" for name, us in took.items()),
                      flush=True)


# ---- beside etcd ----

class Candidate:
    """A command that stands, and says a line when it leads."""

    def __init__(self, words: list[str], environment: dict[str, str]):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **environment}, start_new_session=True)

    def leads(self) -> float:
        assert self.process.stdout and self.process.stdout.readline()
        return time.monotonic()

    def end(self, number: int) -> float:
        """With its own command, as a machine dies."""
        now = time.monotonic()
        os.killpg(self.process.pid, number)
        return now


def turns(name: str, words: list[str], environment: dict[str, str], rounds: int) -> None:
    took, leader = [], Candidate(words, environment)
    leader.leads()
    for turn in range(rounds + 1):
        follower = Candidate(words, environment)
        time.sleep(WAITS_S)
        last = turn == rounds
        since = leader.end(signal.SIGKILL if last else signal.SIGTERM)
        took.append(follower.leads() - since)
        leader.process.wait()
        leader = follower
    leader.end(signal.SIGTERM)
    leader.process.wait()
    killed = took.pop()
    print(f"{name:16} SIGTERM: p50 {statistics.median(took) * 1000:.2f} ms, "
          f"most {max(took) * 1000:.2f} ms of {rounds}; killed: {killed:.2f} s", flush=True)


@contextlib.contextmanager
def etcd(folder: pathlib.Path):
    port = 20000 + os.getpid() % 10000
    url, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 10000}"
    process = subprocess.Popen(
        ["etcd", "--data-dir", folder / "etcd", "--listen-client-urls", url,
         "--advertise-client-urls", url, "--listen-peer-urls", peers,
         "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    asks = [OPTIONS.etcdctl, "--endpoints", url, "endpoint", "health"]
    environment = {**os.environ, "ETCDCTL_API": "3"}
    try:
        end = time.monotonic() + 20
        while subprocess.run(asks, env=environment, capture_output=True, check=False).returncode:
            assert time.monotonic() < end, "etcd does not answer"
        yield url
    finally:
        process.kill()
        process.wait()


def beside() -> None:
    rounds = min(OPTIONS.rounds, 50)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = pathlib.Path(name)
        with deployed("single", folder) as url:
            lockkeeper = str(OPTIONS.build / "cli" / "lockkeeper")
            command = ["sh", "-c", "echo leads; exec sleep 1000"]
            turns("lockkeeper elect", [lockkeeper, "elect", "--once", "web", "--", *command],
                  {"LOCKKEEPER_URL": url}, rounds)
        with etcd(folder) as url:
            turns("etcdctl elect", [OPTIONS.etcdctl, "--endpoints", url, "elect", "web", "host"],
                  {"ETCDCTL_API": "3"}, rounds)


for chosen in OPTIONS.deployments:
    if chosen == "beside":
        beside()
    else:
        measure(chosen)
