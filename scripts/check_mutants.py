#!/usr/bin/env python3
"""Each edit of tests/mutants/table.py fits the tree; `make check-mutants` builds and runs them."""
from __future__ import annotations

import re
import sys

from tree import ROOT, finish

sys.path.append(str(ROOT / "tests" / "mutants"))

from mutant import Suite, World, misfits  # noqa: E402  (behind the path)
from table import MUTANTS  # noqa: E402

ROW = re.compile(r'\{"(\w+)", sim_\w+, \d+\}')


def missing(found_by, worlds: list[str]) -> list[str]:
    """What is to find a mutant, and is not there."""
    if isinstance(found_by, World):
        return [] if found_by.name in worlds else [f"no world {found_by.name}"]
    files = found_by.files.split() if isinstance(found_by, Suite) else [found_by.path + ".c"]
    return [f"no file tests/{file}" for file in files if not (ROOT / "tests" / file).is_file()]


def main() -> None:
    worlds = ROW.findall((ROOT / "tests/sim/test_sim.c").read_text())
    names = [mutant.name for mutant in MUTANTS]
    problems = [f"two mutants are called {name}" for name in set(names) if names.count(name) > 1]
    for mutant in MUTANTS:
        problems += [f"tests/mutants/table.py: {mutant.name}: {problem}"
                     for problem in misfits(mutant) + missing(mutant.found_by, worlds)]
    finish(problems, f"{len(MUTANTS)} mutants fit")


main()
