#!/usr/bin/env python3
"""Breaks the library on purpose, one defect at a time, and shows that the tests notice.

usage: run.py [--jobs N] [--list] [--any] [NAME…]      all mutants of table.py when none is named

Works on copies of the tree in a temporary folder, one for each job, and builds once for a mutant.
A mutant of a world is found by the first of the seeds that `make check` runs of it which fails, and
which passes without the mutant; that of a suite, by the suite. --any: looks for it in every world,
to learn which finds it. Ends with a sum; status 1: one was not found, or does not apply any more.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import time

from mutant import ROOT, Mutant, Program, Suite, World, apply, misfits, restore
from table import MUTANTS

sys.path.append(str(ROOT / "scripts"))
import sweep_seeds  # noqa: E402  (behind the path)

PYTHON = "/usr/bin/python3"
SIM = "tests/sim/test_sim"
DRIVER = "tests/system/system-driver"
SUITE_LIMIT_S = 300
CHUNK = 100  # seeds of one process


class Tree:
    """A copy of the sources with a build folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder
        self.build_folder = folder / "build"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", "build*"))
        subprocess.run(["meson", "setup", "build", "-Dwerror=false"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)

    def build(self, *targets: str) -> str:
        """Empty, or what the compiler said."""
        ninja = subprocess.run(["ninja", "-C", self.build_folder, "-j2", *targets],
                               capture_output=True, text=True, check=False)
        return ninja.stdout[-2000:] if ninja.returncode else ""


# ---- who finds it ----

def first_failure(program: pathlib.Path, world: str, seeds: int) -> tuple[int, str] | None:
    """The first of the world's seeds that fails, and how."""
    for first in range(1, seeds + 1, CHUNK):
        count = min(CHUNK, seeds + 1 - first)
        status, words = sweep_seeds.run(program, world, first, count)
        if status == 0:
            continue
        named = sweep_seeds.REPORTED.match(words)
        if named:
            return int(named.group(1)), words
        for seed in range(first, first + count):  # it crashed, and named none
            status, words = sweep_seeds.run(program, world, seed, 1)
            if status:
                return seed, words
    return None


def seek_in(world: str, tree: Tree, unbroken: pathlib.Path) -> tuple[str, str]:
    seeds = sweep_seeds.budgets(unbroken)[world]
    failure = first_failure(tree.build_folder / SIM, world, seeds)
    if not failure:
        return "MISSED", f"{world}, {seeds} seeds"
    seed, words = failure
    status, _ = sweep_seeds.run(unbroken, world, seed, 1)
    return "found" if status == 0 else "FAILS WITHOUT IT", f"{world} {seed}: {words}"


def seek_in_any(tree: Tree, unbroken: pathlib.Path) -> tuple[str, str]:
    found = [seek_in(world, tree, unbroken) for world in sweep_seeds.budgets(unbroken)]
    hits = [words for verdict, words in found if verdict == "found"]
    return ("found" if hits else "MISSED"), "; ".join(hits)


def run_tests(found_by: Suite | Program, tree: Tree) -> int:
    """0: they pass, 1: they fail, else: neither."""
    environment = {**os.environ, "LOCKKEEPER_BUILD": str(tree.build_folder)}
    folder = tree.path
    if isinstance(found_by, Program):
        command = [str(tree.build_folder / "tests" / found_by.path)]
    else:
        files = [tree.path / "tests" / file for file in found_by.files.split()]
        folder = files[0].parent
        command = [PYTHON, "-m", "pytest", "-x", "--tb=no", "-p", "no:cacheprovider",
                   *map(str, files), "-k", found_by.choice]
    try:
        status = subprocess.run(command, cwd=folder, env=environment, capture_output=True,
                                timeout=SUITE_LIMIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        return -1
    return status if isinstance(found_by, Suite) else min(abs(status), 1)


def words_of(found_by: Suite | Program) -> str:
    return found_by.files if isinstance(found_by, Suite) else found_by.path


def targets_of(found_by: World | Suite | Program) -> list[str]:
    if isinstance(found_by, World):
        return [SIM]
    return [DRIVER] if isinstance(found_by, Suite) else ["tests/" + found_by.path]


# ---- one mutant ----

def seek(mutant: Mutant, tree: Tree, unbroken: pathlib.Path, anywhere: bool) -> tuple[str, str]:
    """The verdict, and where it was found."""
    if problems := misfits(mutant, tree.path):
        return "DOES NOT APPLY", "; ".join(problems)
    apply(mutant, tree.path)
    try:
        if trouble := tree.build(*([SIM] if anywhere else targets_of(mutant.found_by))):
            return "DOES NOT BUILD", trouble
        if anywhere:
            return seek_in_any(tree, unbroken)
        if isinstance(mutant.found_by, World):
            return seek_in(mutant.found_by.name, tree, unbroken)
        status = run_tests(mutant.found_by, tree)
        verdict = {0: "MISSED", 1: "found"}.get(status, f"ENDED WITH {status}")
        return verdict, words_of(mutant.found_by)
    finally:
        restore(mutant, tree.path)


def fails_without(found_by: Suite | Program, tree: Tree) -> bool:
    return bool(tree.build(*targets_of(found_by))) or run_tests(found_by, tree) != 0


def report(mutant: Mutant, verdict: str, where: str, begun: float) -> bool:
    print(f"{verdict:7} {time.monotonic() - begun:4.0f} s  {mutant.name}: {mutant.breaks}\n"
          f"                {where}", flush=True)
    return verdict == "found"


# ---- all of them ----

def seek_by_worlds(mutants: list[Mutant], trees: list[Tree], unbroken: pathlib.Path,
                   anywhere: bool) -> int:
    """How many were found; each job takes a tree that is not in use."""
    unused: queue.Queue[Tree] = queue.Queue()
    for tree in trees:
        unused.put(tree)

    def work(mutant: Mutant) -> bool:
        tree, begun = unused.get(), time.monotonic()
        try:
            verdict, where = seek(mutant, tree, unbroken, anywhere)
        finally:
            unused.put(tree)
        return report(mutant, verdict, where, begun)

    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        return sum(pool.map(work, mutants))


def seek_by_suites(mutants: list[Mutant], tree: Tree, unbroken: pathlib.Path) -> int:
    """One after the other: they measure time."""
    sound: dict[Suite | Program, bool] = {}
    found = 0
    for mutant in mutants:
        begun = time.monotonic()
        by = mutant.found_by
        if by not in sound:
            sound[by] = not fails_without(by, tree)
        verdict, where = ("FAILS WITHOUT IT", words_of(by)) if not sound[by] else \
            seek(mutant, tree, unbroken, False)
        found += report(mutant, verdict, where, begun)
    return found


def run(mutants: list[Mutant], jobs: int, anywhere: bool) -> int:
    by_world = [one for one in mutants if anywhere or isinstance(one.found_by, World)]
    by_suite = [one for one in mutants if one not in by_world]
    with tempfile.TemporaryDirectory(prefix="lk-mutants-") as folder:
        trees = [Tree(pathlib.Path(folder) / f"tree-{i}")
                 for i in range(min(jobs, len(by_world)) or 1)]
        unbroken = pathlib.Path(folder) / "test_sim"
        if by_world:
            if trouble := trees[0].build(SIM):
                print(f"the tree itself does not build: {trouble}")
                return 0
            shutil.copy(trees[0].build_folder / SIM, unbroken)
        found = seek_by_worlds(by_world, trees, unbroken, anywhere) if by_world else 0
        return found + seek_by_suites(by_suite, trees[0], unbroken)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--any", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    known = {mutant.name for mutant in MUTANTS}
    for name in options.names:
        if name not in known:
            parser.error(f"no mutant {name}; --list names them")
    return options


def main() -> int:
    options = parse()
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.list:
        for mutant in chosen:
            by = mutant.found_by
            where = by.name if isinstance(by, World) else words_of(by)
            print(f"{mutant.name}: {mutant.breaks} ({where})")
        return 0
    begun = time.monotonic()
    found = run(chosen, options.jobs, options.any)
    print(f"{time.monotonic() - begun:.0f} s")
    print(f"{found} passed, {len(chosen) - found} failed")
    return 0 if found == len(chosen) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
