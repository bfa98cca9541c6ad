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
import debian
import parts
import run
import tally as runners
import try_servers
from tally import PYTHON, ROOT, Tally, say
from tree import files, name

BUILDS = ROOT / "build-ci"
ASAN = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "LK_TEST_SLOW": "2",
}
TSAN = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", "LK_TEST_SLOW": "3"}

CHECK_LIMIT_S = 1500
OTHERS = ["redis-8.6", "valkey-8.1"]
OTHERS_SUITES = ["wire", "rw_wire", "plain_wire", "fair_wire", "counters_wire",
                 "conformance"]


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


def make_check(tally: Tally) -> None:
    """The README's second command, with warnings as errors."""
    folder = BUILDS / "check"
    shutil.rmtree(folder, ignore_errors=True)
    if not runners.command(tally, "check-setup", ["meson", "setup", "--werror", str(folder)]):
        return
    log = tally.logs / "make-check.log"
    status = runners.run(["make", "check", f"BUILD={folder}"], log, None, CHECK_LIMIT_S, show=True)
    check.counted(tally, status, log)


def sanitized(tally: Tally, name: str, compiler: str, sanitize: str, environment: dict[str, str],
              tests: list[str], without: tuple[str, ...] = ()) -> None:
    """The C suites under a sanitizer, except those that are called so, and those files of the
    pytest suites."""
    folder = build(tally, name, compiler, [
        f"-Db_sanitize={sanitize}", "-Db_lundef=false", "-Doptimization=1", "-Dbench=false",
        "-Ddemo=false"])
    if folder:
        own = {**environment, "LOCKKEEPER_BUILD": str(folder)}
        check.run_parts(tally, folder, [
            *[program for program in parts.programs(folder, environment)
              if not any(part in program.name for part in without)],
            *check.tests_of([path for path in check.files() if check.name(path) in tests], own)],
            run.AT_ONCE_PATIENT)


def address(tally: Tally) -> None:
    """clang, address and undefined-behaviour sanitizers: the C suites, some of the others."""
    sanitized(tally, "address", "clang", "address,undefined", ASAN, [
        "cli/run", "cli/lock", "cli/inspect", "cli/inspect_kinds", "cli/usage", "system/lock_wire"],
        # The thread sanitizer runs these.
        without=("lock-cluster",))


def thread(tally: Tally) -> None:
    """gcc, thread sanitizer: the C suites, and the scenarios with many threads."""
    # Those where memory runs out are a quarter of its time; the other sanitizer is made for them.
    # A client without threads has none that could race.
    sanitized(tally, "thread", "gcc", "thread", TSAN, ["system/lock"],
              without=("/nomem", "-threadless"))


def lint(tally: Tally) -> None:
    """clang-tidy on the library and the command, two files at a time."""
    # Its analyzer gives up a function after a tenth of the usual number of states: a fifth of the
    # time, and on this tree the same findings.
    depth = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=20000"]
    tidied(tally, [f"--extra-arg={word}" for word in depth])


def analyze(tally: Tally) -> None:
    """Only when named: the same with the analyzer's full depth."""
    tidied(tally, [])


def tidied(tally: Tally, options: list[str]) -> None:
    folder = build(tally, "lint", "clang", [], ("src/scripts.h",))
    if not folder:
        return
    sources = files(".c", under=("src", "cli", "examples", "demo"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda path: runners.command(
            tally, f"tidy-{name(path).replace('/', '-')}",
            ["nice", "-n", "19", "clang-tidy", "--quiet", "-p", str(folder), *options,
             str(path)], quiet=True), sources))


def fuzz(tally: Tally) -> None:
    """clang, libFuzzer: six seconds for each parser, two at a time, from the corpus in the tree."""
    folder = build(tally, "fuzz", "clang",
                   ["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"],
                   ("fuzz-programs",))
    programs = [program for program in sorted((folder / "tests/fuzz").glob("fuzz_*"))
                if program.is_file()] if folder else []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda program: fuzzed(tally, program), programs))
    if folder and not programs:
        tally.add("fuzz: no programs", 0, 1)


def fuzzed(tally: Tally, program: pathlib.Path) -> None:
    found = BUILDS / "fuzz-found" / program.name
    found.mkdir(parents=True, exist_ok=True)
    corpus = ROOT / "tests/fuzz/corpus" / program.name.removeprefix("fuzz_")
    runners.command(tally, program.name,
                    [str(program), "-max_total_time=6", "-timeout=5", "-rss_limit_mb=2048",
                     "-print_final_stats=1", f"-artifact_prefix={found}/", str(found),
                     *([str(corpus)] if corpus.is_dir() else [])], 120)


def python(tally: Tally) -> None:
    """The Python package: its wheel, and its tests with that wheel."""
    runners.command(tally, "make-check-python",
                    ["make", "check-python", f"BUILD={BUILDS / 'check'}"], 600)


def packages(tally: Tally) -> None:
    """CMake, the tarball, and the recipes of package managers."""
    check.everything(tally, BUILDS / "check", ["packages"])


def site(tally: Tally) -> None:
    """The manuals as HTML, in Chromium."""
    check.everything(tally, BUILDS / "check", ["site"])


def demo(tally: Tally) -> None:
    """The README's first command."""
    runners.command(tally, "make-demo", ["make", "demo", f"BUILD={BUILDS / 'check'}"], 300)


def bench(tally: Tally) -> None:
    """Only when named: the benchmark runs; its figures are looked at elsewhere."""
    runners.command(tally, "bench-quick", [PYTHON, "bench/run.py", "--quick", "--build",
                                           str(BUILDS / "check")], 300)
    runners.command(tally, "bench-curves", [PYTHON, "bench/curves.py", "--quick", "--build",
                                            str(BUILDS / "check")], 120)


def interop(tally: Tally) -> None:
    """The other libraries on the same keys, with the programs of `make check`."""
    check.everything(tally, BUILDS / "check", ["interop"])


def monitoring(tally: Tally) -> None:
    """Metrics read by Prometheus, and their page by Chromium."""
    check.everything(tally, BUILDS / "check", ["monitoring"])


def others(tally: Tally) -> None:
    """The wire and the deployments of `make check`, on servers of later releases."""
    for name in OTHERS:
        try_servers.tried(tally, name, BUILDS / "check", OTHERS_SUITES, check.chosen())


def trixie(tally: Tally) -> None:
    """The README's commands in a bare root of Debian 13, with what a release may change."""
    # The worlds, the histories and the failovers do not depend on the release: the
    # stage `check` runs them, and `make check-debian` all in such a root.
    debian.tried(tally, "trixie", debian.Way(check=True, user=True, container=False,
                                             level="release"))


# The most important comes first.
STAGES = {"check": make_check, "address": address, "thread": thread, "trixie": trixie, "lint": lint,
          "interop": interop, "monitoring": monitoring, "others": others, "python": python,
          "packages": packages, "site": site, "demo": demo, "fuzz": fuzz}
NAMED = {"analyze": analyze, "bench": bench}
# `make check` runs alone first: the README tells its time. Then two rows run side by side: the
# stages one behind the other, and clang-tidy, which takes what they leave over, at the lowest
# priority. Stages that run tests are in one row: they set the process's temporary folder.
ROWS = (("address", "thread", "trixie", "interop", "others", "python", "demo", "monitoring",
         "packages", "site", "fuzz"), ("lint",))


def run_stage(name: str) -> tuple[float, Tally]:
    """The seconds that it took, and what it counted."""
    stage = {**STAGES, **NAMED}[name]
    say(f"\n==== {name}: {stage.__doc__}")
    begun = time.monotonic()
    tally = Tally(BUILDS / "logs" / name)
    try:
        stage(tally)
    except Exception:  # the others are to be run all the same
        traceback.print_exc()
        tally.add("the stage itself", 0, 1)
    return time.monotonic() - begun, tally


def run_row(names: list[str]) -> dict[str, tuple[float, Tally]]:
    return {name: run_stage(name) for name in names}


def run_all(names: list[str]) -> dict[str, tuple[float, Tally]]:
    """By stage. One that is in no row runs before them, alone."""
    rows = [[name for name in row if name in names] for row in ROWS]
    done = run_row([name for name in names if not any(name in row for row in rows)])
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        for row in pool.map(run_row, rows):
            done |= row
    return done


def main() -> int:
    stages = {**STAGES, **NAMED}
    if sys.argv[1:] == ["--list"]:
        for name, stage in stages.items():
            say(f"{name:10} {stage.__doc__}")
        return 0
    for name in sys.argv[1:]:
        if name not in stages:
            sys.exit(f"ci.py: no stage is called {name}; --list names them")
    begun = time.monotonic()
    total = Tally(BUILDS / "logs")
    say("")
    done = run_all(sys.argv[1:] or list(STAGES))
    say("\n==== stages")
    for name, (seconds, tally) in done.items():
        total.add_all(tally, name)
        say(f"{name:10} {seconds:6.0f} s  ({tally.line()})")
    return check.conclude(total, begun)


if __name__ == "__main__":
    sys.exit(main())
