#!/usr/bin/env python3
"""Measures of the shape of the tree, a line each, for a look before and after a change.

usage: house.py [CALLGRIND_OUT]

CALLGRIND_OUT says which files a free acquire passes: of a program that pings, and then takes and
frees a lock a thousand times, under
valgrind --tool=callgrind --toggle-collect=lk_lock_acquire --callgrind-out-file=CALLGRIND_OUT.
"""
from __future__ import annotations

import pathlib
import re
import sys

from sources import ANY_NAME, circles, definitions, users
from tree import ROOT, files, name

WITHOUT_SUBJECT = re.compile(r"^/\*(?:\n \*)? (?:What|Whether|Those|Of|The same)\b", re.MULTILINE)
UNTOLD = re.compile(r"src/base/|trace$")  # files of an acquire that its reader can skip


def lines(paths: list[pathlib.Path]) -> int:
    return sum(path.read_text().count("\n") for path in paths)


def lonely(paths: list[pathlib.Path]) -> tuple[int, int]:
    """Internal functions with at most one user outside their file, and all of them."""
    defined = {symbol: path for symbol, path in definitions(paths).items()
               if symbol.startswith("lk__")}
    return sum(len(there) <= 1 for there in users(paths, defined).values()), len(defined)


def exported() -> int:
    text = (ROOT / "src/lockkeeper.map").read_text()
    return len(set(re.findall(r"^\s*(lk_\w+);", text, re.MULTILINE)))


def without_subject(paths: list[pathlib.Path]) -> int:
    return sum(len(WITHOUT_SUBJECT.findall(path.read_text())) for path in paths)


def passed(profile: pathlib.Path) -> set[str]:
    """The files of src/ whose code the profile counts, a header with its own .c file. The profile
    names each file once, and then by number."""
    rows = re.findall(r"^(c?)f[lie]=\((\d+)\)(?: (\S+))?", profile.read_text(), re.MULTILINE)
    names = {number: path for _, number, path in rows if path}
    found = (re.search(r"src/\w+/.*", names[number]) for called, number, _ in rows if not called)
    return {match[0].rpartition(".")[0] for match in found if match}


def main() -> None:
    library = files(".c", ".h", under=("src",))
    tables = files(".def", under=("src",))
    found = circles(library + tables) + circles(files(".c", ".h", under=("cli",)), ANY_NAME)
    largest = max(found, key=len, default=[])
    few, internal = lonely(library + tables)
    rows: dict[str, object] = {
        "lines of C and headers in src": lines(library),
        "internal functions with at most one user outside their file": f"{few} of {internal}",
        "exported functions": exported(),
        "largest circle of files": f"{len(largest)}: {' '.join(map(name, largest))}",
        "lines of README.md": lines([ROOT / "README.md"]),
        "comments that begin with What, Whether, Those, Of or The same":
            without_subject(files(".c", ".h", under=("src", "include", "cli"))),
    }
    if len(sys.argv) > 1:
        told = {path for path in passed(pathlib.Path(sys.argv[1])) if not UNTOLD.search(path)}
        rows["files that a free acquire passes, without base and trace"] = len(told)
    for title, value in rows.items():
        print(f"{title}: {value}")


main()
