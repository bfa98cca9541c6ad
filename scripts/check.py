#!/usr/bin/env python3
"""Every test of one build folder: checks of the tree, C programs, pytest suites; then the sum.

usage: check.py [--build DIR] [checks] [c] [python] [interop]   (the first three if none is named)
"""
from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import sys
import time

import tally as runners
from tally import PYTHON, ROOT, Tally, say

SCRIPTS = ROOT / "scripts"
INTEROP = ROOT / "tests" / "interop"
INTEROP_LIMIT_S = 480
# Most tests wait more than they work: several C programs run at once, however many cores there are;
# a suite of pytest is split, and several parts run at once. Ten programs and ten parts keep two
# cores busy for most of the time.
PROGRAMS_AT_ONCE = 10
# The suites with the longest parts begin first, in parts of a minute or two: none of them is left
# alone at the end.
SHARDS = {"system": 16, "faults": 8, "history": 2, "cli": 4}
PARTS_AT_ONCE = 10


def suites() -> list[pathlib.Path]:
    """The folders of tests/ that pytest runs; interop, which fetches other libraries, aside."""
    return sorted({path.parent for path in (ROOT / "tests").glob("*/test_*.py")} - {INTEROP})


def checks(tally: Tally, build: pathlib.Path) -> None:
    """Each check_*.py is one: it takes the build folder and ends with 0 when all is well."""
    for script in sorted(SCRIPTS.glob("check_*.py")):
        runners.command(tally, script.stem, [PYTHON, str(script), str(build)])


def everything(tally: Tally, build: pathlib.Path, parts: list[str]) -> None:
    environment = {"LOCKKEEPER_BUILD": str(build)}
    if "checks" in parts:
        say("Checks of the tree")
        checks(tally, build)
    if "c" in parts or "python" in parts:
        with runners.temporary_folder(tally):
            programs_and_suites(tally, build, parts, environment)
    if "interop" in parts:
        say("Suite tests/interop")
        runners.pytest(tally, "interop", [INTEROP], environment, INTEROP_LIMIT_S)


def programs_and_suites(tally: Tally, build: pathlib.Path, parts: list[str],
                        environment: dict[str, str]) -> None:
    if "c" in parts:
        say("C suites")
        c_suites(tally, build, environment)
    if "python" in parts:
        run_suites(tally, {folder: [folder] for folder in suites()}, environment)


def c_suites(tally: Tally, build: pathlib.Path, environment: dict[str, str]) -> None:
    slow = environment.get("LK_TEST_SLOW", "1")
    runners.meson(tally, build, ["--timeout-multiplier", slow, "--num-processes",
                                 str(PROGRAMS_AT_ONCE)], environment)


def shard(tally: Tally, folder: pathlib.Path, paths: list[pathlib.Path], number: int,
          environment: dict[str, str]) -> None:
    shards = SHARDS.get(folder.name, 1)
    say(f"Suite {folder.relative_to(ROOT)}, part {number} of {shards}")
    runners.pytest(tally, f"{folder.name}-{number}", paths,
                   {**environment, "LOCKKEEPER_SHARD": f"{number}/{shards}"},
                   may_be_empty=shards > 1)


def run_suites(tally: Tally, chosen: dict[pathlib.Path, list[pathlib.Path]],
               environment: dict[str, str]) -> None:
    """The files chosen of each pytest suite (the suite's folder: all), each suite in its parts.
    The first that fails to run at all is raised."""
    order = list(SHARDS)
    longest_first = sorted(chosen, key=lambda folder: order.index(folder.name)
                           if folder.name in order else len(order))
    with concurrent.futures.ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
        begun = [pool.submit(shard, tally, folder, chosen[folder], number, environment)
                 for folder in longest_first
                 for number in range(1, SHARDS.get(folder.name, 1) + 1)]
        for one in begun:
            one.result()


def conclude(tally: Tally, begun: float) -> int:
    if tally.failing:
        say("\nFailed:")
        for name in tally.failing:
            say(f"  {name}")
        say(f"What they printed: {tally.logs}")
    say(f"\nTook {time.monotonic() - begun:.0f} s.")
    if tally.passed + tally.failed == 0:
        tally.add("no test was run", 0, 1)
    say(tally.line())
    return 1 if tally.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("parts", nargs="*", metavar="checks|c|python|interop")
    arguments = parser.parse_args()
    usual = ["checks", "c", "python"]
    for part in arguments.parts:
        if part not in [*usual, "interop"]:
            parser.error(f"no part is called {part}")
    build = arguments.build.resolve()
    if not (build / "build.ninja").exists():
        parser.error(f"{build} is not built: run make")
    begun = time.monotonic()
    tally = Tally(build / "logs")
    everything(tally, build, arguments.parts or usual)
    return conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
