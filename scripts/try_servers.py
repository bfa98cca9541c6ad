#!/usr/bin/env python3
"""Runs the suites of the wire and of the deployments on other servers, and every kind of lock on
what stands in for one: proxies, and servers for tests (docs/servers.md).

usage: try_servers.py [--build DIR] [--fetch] [VERSION | standins …]

All are fetched once, into DIR/servers and DIR/standins; --fetch does nothing else.
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
import standins
from tally import ROOT, Tally, say

STANDINS = "standins"
SUITES = ["wire", "rw_wire", "plain_wire", "fair_wire", "fenced_wire", "multi_wire",
          "counters_wire", "refused_publish", "replicas", "sentinel",
          "cluster", "cluster_slots", "cluster_failover", "threadless_moving", "acks", "fsync_acks",
          "red_deployments", "conformance", "unused", "model"]


def tried(tally: Tally, name: str, build: pathlib.Path, suites: list[str],
          table: dict[str, list[str]] | None = None) -> None:
    """Those suites on that server, or what the table names of them; one that cannot be fetched
    counts as skipped."""
    try:
        folder = servers.fetched(name, build / "servers")
        say(f"{name}: {servers.version(folder)}")
    except (subprocess.SubprocessError, OSError, ValueError, StopIteration) as error:
        say(f"{name} cannot be fetched: {error}")
        tally.add(name, 0, 0, 1, f"{name} cannot be fetched")
        return
    own = Tally(tally.logs / name)
    check.run_tests(own, build, [f"system/{suite}" for suite in suites], {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "LOCKKEEPER_SERVERS": str(folder / "redis-server"),
        "PYTEST_ADDOPTS": "" if servers.SERVERS[name].tls else "-k 'not tls'"}, table)
    tally.add_all(own, name)


def fetched_standins(build: pathlib.Path) -> None:
    for name in standins.STANDINS:
        try:
            standins.fetched(name, build / "standins")
            say(f"{name}: fetched")
        except (subprocess.SubprocessError, OSError, ValueError, StopIteration) as error:
            say(f"{name} cannot be fetched: {error}")


def tried_standins(tally: Tally, build: pathlib.Path) -> None:
    """The tests of one that cannot be fetched count as skipped."""
    fetched_standins(build)
    check.run_parts(tally, build, check.tests_of(sorted(check.STANDINS.glob("test_*.py")), {
        "LOCKKEEPER_BUILD": str(build), "LOCKKEEPER_STANDINS": str(build / "standins")}))


def main() -> int:
    parser = argparse.ArgumentParser(description="the suites of the wire on other servers")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--fetch", action="store_true", help="fetch them, and run nothing")
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    arguments = parser.parse_args()
    every = [*servers.SERVERS, STANDINS]
    for name in arguments.versions:
        if name not in every:
            parser.error(f"no server {name}: there are {', '.join(every)}")
    build, begun = arguments.build.resolve(), time.monotonic()
    tally = Tally(build / "logs" / "servers")
    for name in arguments.versions or every:
        if name == STANDINS and arguments.fetch:
            fetched_standins(build)
        elif name == STANDINS:
            tried_standins(tally, build)
        elif arguments.fetch:
            say(f"{name}: {servers.version(servers.fetched(name, build / 'servers'))}")
        else:
            tried(tally, name, build, SUITES)
    if arguments.fetch:
        return 0
    return check.conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
