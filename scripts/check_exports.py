#!/usr/bin/env python3
"""What the headers declare, what the map exports and what the library has are the same names.

Each header is installed. docs/abi.md says of each public struct how it can grow. Every call that
can fail is in the test of what happens when memory and descriptors run out. The installed library
must also be hardened: relocations read-only, bound at start, no executable stack.

usage: check_exports.py BUILD
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys

from tree import ROOT, files, finish

STARVED = "tests/api/*nomem*.c"
DECLARED = re.compile(r"\bLK_API\b[^;(]*?\b(lk_\w+)\s*\(")


def declared() -> set[str]:
    return {match for path in files(".h", under=("include",))
            for match in DECLARED.findall(path.read_text())}


def mapped() -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "src/lockkeeper.map").read_text(), flags=re.DOTALL)
    return set(re.findall(r"^\s*(lk_\w+);", text, re.MULTILINE))


def unstarved() -> list[str]:
    """Calls that can fail, and that no test makes while memory and descriptors run out."""
    text = "".join(path.read_text() for path in files(".h", under=("include",)))
    fallible = re.findall(r"\bLK_API\b[^;(]*?\b(lk_\w+)\s*\([^;]*?\blk_error\s*\*", text)
    test = "".join(path.read_text() for path in ROOT.glob(STARVED))
    return [f"{name}: not in {STARVED}" for name in fallible
            if not re.search(rf"\b{name}\(", test)]


def unsaid() -> list[str]:
    """Structs of which nobody knows whether they can grow; those of options all grow alike."""
    text = "".join(path.read_text() for path in files(".h", under=("include",)))
    page = (ROOT / "docs/abi.md").read_text()
    problems = []
    for name, first in re.findall(r"^typedef struct (lk_\w+) \{\n\s*(.*?);", text, re.MULTILINE):
        if name.endswith("_options"):
            if first != "size_t struct_size":
                problems.append(f"{name}: does not begin with struct_size (docs/abi.md)")
        elif f"`{name}`" not in page:
            problems.append(f"{name}: docs/abi.md does not say how it grows")
    return problems


def uninstalled() -> list[str]:
    """Headers that a program which includes <lockkeeper.h> would miss."""
    listed = (ROOT / "include/meson.build").read_text()
    return [f"{path.name}: not in include/meson.build"
            for path in files(".h", under=("include",)) if f"{path.name}'" not in listed]


def exported(library: pathlib.Path) -> set[str]:
    rows = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True,
                          text=True, check=True).stdout.splitlines()
    names = {row.split()[-1] for row in rows if row.split()[-2] != "A"}
    return {symbol.split("@")[0] for symbol in names}


def differences(left: set[str], right: set[str], left_name: str, right_name: str) -> list[str]:
    return ([f"{symbol}: in {left_name}, not in {right_name}" for symbol in sorted(left - right)]
            + [f"{symbol}: in {right_name}, not in {left_name}" for symbol in sorted(right - left)])


def hardened(file: pathlib.Path) -> list[str]:
    rows = subprocess.run(["readelf", "-W", "-l", "-d", str(file)], capture_output=True, text=True,
                          check=True).stdout
    wanted = {"GNU_RELRO": r"GNU_RELRO", "BIND_NOW": r"BIND_NOW|FLAGS.*NOW",
              "a stack that is not executable": r"GNU_STACK.* RW "}
    return [f"{file.name}: without {what}" for what, pattern in wanted.items()
            if not re.search(pattern, rows)]


def main() -> None:
    build = pathlib.Path(sys.argv[1])
    library = build / "src/liblockkeeper.so"
    problems = differences(declared(), mapped(), "the headers", "src/lockkeeper.map")
    problems += differences(mapped(), exported(library), "src/lockkeeper.map", library.name)
    problems += unstarved() + unsaid() + uninstalled()
    problems += hardened(library)
    command = build / "cli/lockkeeper"
    if command.exists():
        problems += hardened(command)
    finish(problems, f"{len(mapped())} functions; relocations read-only, stack not executable")


main()
