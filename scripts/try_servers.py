#!/usr/bin/env python3
"""Runs the suites of the wire and of the deployments on other servers (docs/servers.md).

usage: try_servers.py [--build DIR] [--fetch] [VERSION …]

The servers are fetched once, into DIR/servers; --fetch does nothing else.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import time

import check
import servers
from tally import ROOT, Tally, say

SUITES = ["wire", "rw_wire", "plain_wire", "plain_native", "fair_wire", "fenced_wire", "multi_wire",
          "counters_wire", "counters", "stray_copies", "refused_publish", "replicas", "sentinel",
          "cluster", "cluster_slots", "cluster_failover", "threadless_moving", "acks", "fsync_acks",
          "red_deployments", "conformance", "unused"]


def tried(tally: Tally, name: str, build: pathlib.Path, suites: list[str],
          table: dict[str, list[str]] | None = None) -> None:
    """Those suites on that server, or what the table names of them; one that cannot be fetched
    counts as skipped."""
    try:
        folder = servers.fetched(name, build / "servers")
        say(f"{name}: {servers.version(folder)}")
    except (subprocess.SubprocessError, OSError, ValueError, StopIteration) as error:
        say(f"{name} cannot be fetched: {error}")
        tally.add(name, 0, 0, 1)
        return
    own = Tally(tally.logs / name)
    check.run_tests(own, build, [f"system/{suite}" for suite in suites], {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "LOCKKEEPER_SERVERS": str(folder / "redis-server"),
        "PYTEST_ADDOPTS": "" if servers.SERVERS[name].tls else "-k 'not tls'"}, table)
    tally.add_all(own, name)


def main() -> int:
    parser = argparse.ArgumentParser(description="the suites of the wire on other servers")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--fetch", action="store_true", help="fetch them, and run nothing")
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    arguments = parser.parse_args()
    for name in arguments.versions:
        if name not in servers.SERVERS:
            parser.error(f"no server {name}: there are {', '.join(servers.SERVERS)}")
    build, begun = arguments.build.resolve(), time.monotonic()
    tally = Tally(build / "logs" / "servers")
    for name in arguments.versions or list(servers.SERVERS):
        if arguments.fetch:
            say(f"{name}: {servers.version(servers.fetched(name, build / 'servers'))}")
        else:
            tried(tally, name, build, SUITES)
    if arguments.fetch:
        return 0
    return check.conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
