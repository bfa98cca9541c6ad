#!/usr/bin/env python3
"""What CI runs: every stage from a clean build folder, with the time of each, then one sum.

usage: ci.py [STAGE...]     (all when none is named; --list names them)

A stage that cannot be built counts as one failure, and the others go on.
"""
from __future__ import annotations

import concurrent.futures
import pathlib
import shutil
import sys
import time
import traceback

import check
import tally as runners
import try_servers
from tally import PYTHON, ROOT, Tally, say
from tree import files, name

BUILDS = ROOT / "build-ci"
ASAN = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LK_TEST_SLOW": "4",
}
TSAN = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", "LK_TEST_SLOW": "6"}

OTHERS = ["redis-8.6", "valkey-8.1"]


def build(tally: Tally, name: str, compiler: str, options: list[str],
          targets: tuple[str, ...] = ()) -> pathlib.Path | None:
    folder = BUILDS / name
    shutil.rmtree(folder, ignore_errors=True)
    made = runners.command(tally, f"{name}-setup", ["meson", "setup", "--werror", str(folder),
                                                        *options],
                           environment={"CC": compiler})
    if made and runners.command(tally, f"{name}-build", ["ninja", "-C", str(folder), *targets],
                                900):
        return folder
    return None


def release(tally: Tally) -> None:
    """gcc, optimised, everything."""
    folder = build(tally, "release", "gcc", ["--buildtype=release"])
    if folder:
        check.everything(tally, folder, ["checks", "c", "python"])


def several(tally: Tally, folder: pathlib.Path, environment: dict[str, str],
            chosen: dict[str, list[str]]) -> None:
    """Those files of the pytest suites, with the programs of `folder`."""
    check.run_suites(tally, {
        ROOT / "tests" / suite: [ROOT / f"tests/{suite}/test_{name}.py" for name in names]
        for suite, names in chosen.items()}, {**environment, "LOCKKEEPER_BUILD": str(folder)})


def address(tally: Tally) -> None:
    """clang, address and undefined-behaviour sanitizers: the C suites, some of the others."""
    folder = build(tally, "address", "clang",
                   ["-Db_sanitize=address,undefined", "-Db_lundef=false"])
    if folder:
        check.c_suites(tally, folder, ASAN)
        several(tally, folder, ASAN, {
            "cli": ["run", "lock", "inspect", "inspect_kinds", "usage", "who"],
            "system": ["wire", "lost_replies", "hostile"]})


def thread(tally: Tally) -> None:
    """gcc, thread sanitizer: the C suites, and the scenarios with many threads."""
    folder = build(tally, "thread", "gcc", ["-Db_sanitize=thread", "-Db_lundef=false"])
    if folder:
        check.c_suites(tally, folder, TSAN)
        several(tally, folder, TSAN, {"system": ["scenarios"]})


def lint(tally: Tally) -> None:
    """clang-tidy on the library and the command, two files at a time."""
    folder = build(tally, "lint", "clang", [], ("src/scripts.h",))
    if not folder:
        return
    sources = files(".c", under=("src", "cli", "examples", "demo"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda path: runners.command(
            tally, f"tidy-{name(path).replace('/', '-')}",
            ["clang-tidy", "--quiet", "-p", str(folder), str(path)], quiet=True), sources))


def fuzz(tally: Tally) -> None:
    """clang, libFuzzer: ten seconds for each parser, from the corpus in the tree."""
    folder = build(tally, "fuzz", "clang",
                   ["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"])
    programs = sorted((folder / "tests/fuzz").glob("fuzz_*")) if folder else []
    for program in programs:
        if not program.is_file():
            continue
        found = BUILDS / "fuzz-found" / program.name
        found.mkdir(parents=True, exist_ok=True)
        corpus = ROOT / "tests/fuzz/corpus" / program.name.removeprefix("fuzz_")
        runners.command(tally, program.name,
                        [str(program), "-max_total_time=10", "-timeout=5", "-rss_limit_mb=2048",
                         "-print_final_stats=1", f"-artifact_prefix={found}/", str(found),
                         *([str(corpus)] if corpus.is_dir() else [])], 120)
    if folder and not programs:
        tally.add("fuzz: no programs", 0, 1)


def demo(tally: Tally) -> None:
    """The README's first command."""
    runners.command(tally, "make-demo", ["make", "demo"], 300)


def bench(tally: Tally) -> None:
    """The benchmark runs; its figures are looked at elsewhere."""
    runners.command(tally, "bench-quick", [PYTHON, "bench/run.py", "--quick", "--build",
                                           str(BUILDS / "release")], 300)
    runners.command(tally, "bench-curves", [PYTHON, "bench/curves.py", "--quick", "--build",
                                            str(BUILDS / "release")], 120)


def interop(tally: Tally) -> None:
    """The other libraries on the same keys, with the programs of the release build."""
    check.everything(tally, BUILDS / "release", ["interop"])


def others(tally: Tally) -> None:
    """Every kind on every deployment, on servers of later releases that can be fetched."""
    for name in OTHERS:
        try_servers.tried(tally, name, BUILDS / "release", ["conformance"])


def faults(tally: Tally) -> None:
    """Only when named: every request with every fault, under both kinds of sanitizer."""
    for name, compiler, sanitize, environment in (
            ("faults-address", "clang", "address,undefined", ASAN),
            ("faults-thread", "gcc", "thread", TSAN)):
        folder = build(tally, name, compiler, [f"-Db_sanitize={sanitize}", "-Db_lundef=false"],
                       ("tests/system/system-driver",))
        if folder:
            tests = ROOT / "tests" / "faults"
            check.run_suites(tally, {tests: [tests]}, {
                **environment, "LOCKKEEPER_BUILD": str(folder), "LOCKKEEPER_FAULTS": "all"})


STAGES = [release, address, thread, lint, fuzz, demo, bench, interop, others]
NAMED = [faults]


def main() -> int:
    stages = {stage.__name__: stage for stage in [*STAGES, *NAMED]}
    if sys.argv[1:] == ["--list"]:
        for name, stage in stages.items():
            say(f"{name:10} {stage.__doc__}")
        return 0
    for name in sys.argv[1:]:
        if name not in stages:
            sys.exit(f"ci.py: no stage is called {name}; --list names them")
    begun = time.monotonic()
    total = Tally(BUILDS / "logs")
    times = []
    for name in sys.argv[1:] or [stage.__name__ for stage in STAGES]:
        say(f"\n==== {name}: {stages[name].__doc__}")
        stage_begun = time.monotonic()
        tally = Tally(BUILDS / "logs" / name)
        try:
            stages[name](tally)
        except Exception:  # the others are to be run all the same
            traceback.print_exc()
            tally.add("the stage itself", 0, 1)
        total.add_all(tally, name)
        times.append((name, time.monotonic() - stage_begun, tally.line()))
    say("\n==== stages")
    for name, seconds, line in times:
        say(f"{name:10} {seconds:6.0f} s  ({line})")
    return check.conclude(total, begun)


if __name__ == "__main__":
    sys.exit(main())
