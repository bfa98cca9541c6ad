#!/usr/bin/env python3
"""The tests of one build folder: checks of the tree, C programs, pytest suites; then the sum.

usage: check.py [--build DIR] [--level check|release|all|night] [checks] [c] [python] [interop]
                [monitoring] [packages] [site]
       (the first three if none is named)
       check.py [--level …] --estimate    (how long that takes here; runs nothing)

    check   of the suites that need time, the tests that tests/chosen.txt chooses
    release of these what another release of the system may change
    all     every test
    night   every deployment in every way, and 100 failovers
"""
from __future__ import annotations

import argparse
import fnmatch
import math
import os
import pathlib
import re
import sys
import time
from typing import NamedTuple

import parts
import run
import tally as runners
from tally import PYTHON, ROOT, Tally, say

SCRIPTS, TESTS = ROOT / "scripts", ROOT / "tests"
INTEROP, STANDINS, MONITORING = TESTS / "interop", TESTS / "standins", TESTS / "monitoring"
SITE = TESTS / "site"
CHOSEN = TESTS / "chosen.txt"
CHECK_LIMIT_S = 300
CORES = 2  # of the machine that the minutes were measured on


class Level(NamedTuple):
    minutes: float  # idle, on two cores
    environment: dict[str, str]


LEVELS = {
    "check": Level(7, {}),
    "release": Level(5, {}),
    "all": Level(25, {}),
    "night": Level(120, {"LOCKKEEPER_CONFORMANCE": "all", "LOCKKEEPER_FAILOVERS": "100",
                         "LOCKKEEPER_MODEL_COMMANDS": "100000"}),
}
# Files whose tests are run in so many parts, so that none is left alone at the end.
PARTS = {"system/conformance": 6, "history/failovers": 2,
         "system/failover_kinds": 4, "system/cluster_slots": 2, "system/threadless_moving": 3,
         "system/two_owners": 2, "system/sentinel": 2, "system/red": 2,
         "interop/redisson_lock": 2}
# The same where only what the table lists is run.
CHOSEN_PARTS = {"system/conformance": 2}
# What compilers, libraries, servers and shells of another release may change: all C programs but
# the worlds, and of pytest what shows the command, the installed copy, the wire and deployments.
OF_A_RELEASE = ["api/*", "harness", "unit/*", "cli/*", "install/*", "system/*_wire",
                "system/cluster", "system/conformance", "system/sentinel", "system/server_faults",
                "system/tls", "system/tracking"]
WORLDS = "unit/sim"
# Suites whose files share what takes long to make: an installed copy.
TOGETHER = ["install", "monitoring", "site"]
# What takes tools for packages; `make check-all` has those files too, and skips what is missing.
PACKAGES = ["install/cmake", "install/dist", "install/recipes"]
# They begin first where it is not known yet how long each takes.
LONGEST = [WORLDS, *PARTS, *TOGETHER, "api/nomem_moving-cluster", "api/nomem", "api/multi_lock",
           "system/lock", "api/red_lock", "cli/doctor", "cli/several"]


def files() -> list[pathlib.Path]:
    """The files of tests/ that pytest runs; without those that need programs to be fetched: other
    libraries (interop), proxies and servers for tests (standins), Prometheus and a browser
    (monitoring, site)."""
    return [path for path in sorted(TESTS.glob("*/test_*.py"))
            if path.parent not in (INTEROP, STANDINS, MONITORING, SITE)]


def name(path: pathlib.Path) -> str:
    return f"{path.parent.name}/{path.stem.removeprefix('test_')}"


def chosen() -> dict[str, list[str]]:
    """What `make check` runs of each file, as pytest_part.py names tests: all, unless the lines of
    the table name some, or none ("-")."""
    lines: dict[str, list[str]] = {}
    for line in CHOSEN.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            file, glob, _ = line.split(maxsplit=2)
            lines.setdefault(file, []).append(glob)
    there = [name(path) for path in files()]
    if unknown := lines.keys() - set(there):
        sys.exit(f"{CHOSEN.name}: there is no {', '.join(sorted(unknown))}")
    return {file: [f"{file.partition('/')[2]}::{glob}" for glob in lines.get(file, ["*"])]
            for file in there if lines.get(file) != ["-"]}


def tests_of(paths: list[pathlib.Path], environment: dict[str, str],
             table: dict[str, list[str]] | None = None) -> list[parts.Part]:
    """Those files, or what the table names of them. Files that share what takes long to make are
    run together."""
    made: list[parts.Part] = []
    together: dict[str, list[pathlib.Path]] = {}
    for path in paths:
        if table is not None and name(path) not in table:
            continue
        if path.parent.name in TOGETHER:
            together.setdefault(path.parent.name, []).append(path)
            continue
        count = (PARTS if table is None else CHOSEN_PARTS).get(name(path), 1)
        made += [parts.Tests(name(path), [path], environment, table[name(path)] if table else [],
                             number, count) for number in range(1, count + 1)]
    for suite, several in together.items():
        globs = [glob for path in several for glob in table[name(path)]] if table else []
        made.append(parts.Tests(suite, several, environment, globs))
    return made


def checks(build: pathlib.Path) -> list[parts.Part]:
    """Each check_*.py is one: it takes the build folder and ends with 0 when all is well."""
    return [parts.Program(f"tree/{script.stem.removeprefix('check_')}",
                          [PYTHON, str(script), str(build)], {}, CHECK_LIMIT_S)
            for script in sorted(SCRIPTS.glob("check_*.py"))]


def is_of(level: str, part: str) -> bool:
    """Whether a part with that name is run at that level."""
    return level != "release" or (part != WORLDS and
                                  any(fnmatch.fnmatch(part, glob) for glob in OF_A_RELEASE))


def everything(tally: Tally, build: pathlib.Path, which: list[str], level: str = "all") -> None:
    environment = {**LEVELS[level].environment, "LOCKKEEPER_BUILD": str(build)}
    begun: list[parts.Part] = []
    if "checks" in which:
        begun += checks(build)
    if "c" in which:
        begun += [program for program in parts.programs(build, {}) if is_of(level, program.name)]
    if "python" in which:
        begun += tests_of([path for path in files() if is_of(level, name(path))], environment,
                          chosen() if level in ("check", "release") else None)
    if "interop" in which:
        begun += tests_of(sorted(INTEROP.glob("test_*.py")), environment)
    if "monitoring" in which:
        begun += tests_of(sorted(MONITORING.glob("test_*.py")), environment)
    if "site" in which:
        begun += tests_of(sorted(SITE.glob("test_*.py")), environment)
    if "packages" in which:
        begun += tests_of([path for path in files() if name(path) in PACKAGES], environment)
    run_parts(tally, build, begun)


def run_tests(tally: Tally, build: pathlib.Path, names: list[str], environment: dict[str, str],
              table: dict[str, list[str]] | None = None) -> None:
    """The files of tests/ with those names, as in system/turns, or what the table names of them."""
    environment = {**environment, "LOCKKEEPER_BUILD": str(build)}
    run_parts(tally, build, tests_of([path for path in files() if name(path) in names],
                                     environment, table))


def run_parts(tally: Tally, build: pathlib.Path, begun: list[parts.Part],
              at_once: int = run.AT_ONCE) -> None:
    if begun:
        say(f"{len(begun)} programs, {at_once} at a time")
        with runners.temporary_folder(tally):
            run.run(tally, begun, run.Times(build / "times.json"), LONGEST, at_once)


def estimate(level: str) -> str:
    """From the load and the cores of this machine: tests mostly wait, so that a load of four makes
    them about twice as slow."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    minutes = LEVELS[level].minutes * max(1.0, CORES / cores) * (1 + load / (2 * cores))
    return f"This takes about {math.ceil(minutes)} minutes here ({cores} cores, load {load:.1f})."


def conclude(tally: Tally, begun: float) -> int:
    if tally.failing:
        say("\nFailed:")
        for failing in tally.failing:
            say(f"  {failing}")
        say(f"What they printed: {tally.logs}")
    if tally.reasons:
        say("\nSkipped:")
        for reason, count in sorted(tally.reasons.items(), key=lambda row: (-row[1], row[0])):
            say(f"  {count:3}  {reason}")
    say(f"\nTook {time.monotonic() - begun:.0f} s.")
    for unsteady in tally.unsteady:
        say(f"unsteady: {unsteady}")
    if tally.passed + tally.failed == 0:
        tally.add("no test was run", 0, 1)
    say(tally.line())
    return 1 if tally.failed else 0


def counted(tally: Tally, status: int, log: pathlib.Path) -> None:
    """Adds what conclude() said at the end of a run, whose output and status these are."""
    said = log.read_text(errors="replace")
    sums = re.findall(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?$", said, re.MULTILINE)
    passed, failed = map(int, sums[-1] if sums else (0, 0))
    tally.unsteady += re.findall(r"^unsteady: (.*)$", said, re.MULTILINE)
    names = re.search(r"^Failed:\n((?:  .*\n)*)", said, re.MULTILINE)
    tally.add("", passed, 0)
    reasons = re.search(r"^Skipped:\n((?: +\d+  .*\n)*)", said, re.MULTILINE)
    for line in reasons[1].splitlines() if reasons else []:
        count, reason = line.split(maxsplit=1)
        tally.add("", 0, 0, int(count), reason)
    for failing in names[1].splitlines() if names else []:
        tally.add(failing.strip(), 0, 1)
        failed -= 1
    if failed > 0 or (status and not names):
        tally.add(f"it ended with {status}", 0, max(failed, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--level", choices=LEVELS, default="check")
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("parts", nargs="*",
                        metavar="checks|c|python|interop|monitoring|packages|site")
    arguments = parser.parse_args()
    usual = ["checks", "c", "python"]
    for part in arguments.parts:
        if part not in [*usual, "interop", "monitoring", "packages", "site"]:
            parser.error(f"no part is called {part}")
    if arguments.estimate:
        say(estimate(arguments.level))
        return 0
    build = arguments.build.resolve()
    if not (build / "build.ninja").exists():
        parser.error(f"{build} is not built: run make")
    begun = time.monotonic()
    tally = Tally(build / "logs")
    everything(tally, build, arguments.parts or usual, arguments.level)
    return conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
