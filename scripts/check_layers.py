#!/usr/bin/env python3
"""Includes point down: a layer may include itself and what stands before it.

The command, the examples and the demo see the public headers alone.
"""
from __future__ import annotations

import pathlib
import re

from tree import ROOT, files, finish, name

LAYERS = ["base", "conf", "resp", "net", "conn", "topo", "sync", "drive", "api"]
# No reason but order puts these two beside each other: neither needs the other.
BARRED = {("net", "resp"), ("resp", "conf")}
OUTSIDE = ("cli", "examples", "demo")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.MULTILINE)


def lines_of(path: pathlib.Path):
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def inside(path: pathlib.Path) -> list[str]:
    problems = []
    layer = path.relative_to(ROOT / "src").parts[0]
    if layer not in LAYERS:
        return [f"{name(path)}: src/{layer} is no layer"]
    for line, bracket, target in lines_of(path):
        other = target.split("/")[0]
        if bracket == "<" or target == "scripts.h":
            continue
        if other not in LAYERS or not (ROOT / "src" / target).is_file():
            problems.append(f"{name(path)}:{line}: \"{target}\" is not written from src/ on")
        elif LAYERS.index(other) > LAYERS.index(layer) or (layer, other) in BARRED:
            problems.append(f"{name(path)}:{line}: {layer} may not include {other} (\"{target}\")")
    return problems


def outside(path: pathlib.Path) -> list[str]:
    problems = []
    for line, _, target in lines_of(path):
        beside = (path.parent / target).is_file() or (path.parent.parent / target).is_file()
        private = not beside and (ROOT / "src" / target).exists()
        if private or target.startswith(("hiredis", "uv", "openssl")):
            problems.append(f"{name(path)}:{line}: it may see public headers alone ({target})")
    return problems


def main() -> None:
    problems = []
    sources = files(".c", ".h", ".def", under=("src",))
    for path in sources:
        problems += inside(path)
    users = files(".c", ".h", under=OUTSIDE)
    for path in users:
        problems += outside(path)
    finish(problems, f"{len(sources)} files of the library and {len(users)} of its users")


main()
