#!/usr/bin/env python3
"""Includes and calls point down: a layer may use itself and what stands before it.

A public header says nothing of the layer that a function of it is in, so who defines what is read
from the sources: any layer may include <lockkeeper/error.h>, and call what is defined below it. The
command, the examples and the demo see the public headers alone. Inside a layer, and inside the
command, no circle of files that use one another is larger than LARGEST_CIRCLE.
"""
from __future__ import annotations

import pathlib
import re

from sources import ANY_NAME, NAME, circles, code_of, definitions
from tree import ROOT, files, finish, name

# The files of src/lock are layers of their own, each group named by its first. A call up goes
# through what is handed down: the ops of a client, the policy of an entry, the callbacks of a
# request or a queue. No other is allowed.
LOCK = [("client", "loop"), ("entry",),
        ("completion_queue", "notice"), ("compensation",), ("told",),
        ("hold",),
        ("operation", "fan_out", "turns", "head", "acquire", "adopt", "release", "extend"),
        ("counter",), ("multi", "multi_call", "red", "red_try", "red_hold"),
        ("async",)]
GROUP = {stem: f"lock/{group[0]}" for group in LOCK for stem in group}
LAYERS = ["base", "conf", "resp", "net", "conn", "topo", "sync",
          *(f"lock/{group[0]}" for group in LOCK), "api"]
# No reason but order puts these two beside each other: neither needs the other.
BARRED = {("net", "resp"), ("resp", "conf")}
OUTSIDE = ("cli", "examples", "demo")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.MULTILINE)
USED = re.compile(NAME)
LARGEST_CIRCLE = 3
MADE = {"scripts.h", "script_calls.h", "script_calls.inc"}  # by the build; of no layer
# The largest circle of each group that has a larger one. A number here is only ever lowered.
CIRCLES: dict[str, int] = {}


def lines_of(path: pathlib.Path):
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def layer_of(path: pathlib.Path) -> str:
    """The folder in src/ of a file in it, whose path may begin there; of src/lock, the group."""
    parts = path.relative_to(ROOT / "src").parts if path.is_absolute() else path.parts
    return GROUP.get(path.stem, "lock") if parts[0] == "lock" else parts[0]


def may_use(layer: str, other: str) -> bool:
    return LAYERS.index(other) <= LAYERS.index(layer) and (layer, other) not in BARRED


def calls(path: pathlib.Path, layers: dict[str, str]) -> list[str]:
    problems = []
    layer = layer_of(path)
    code = code_of(path)
    for match in USED.finditer(code):
        other = layers.get(match[1], layer)
        if layer in LAYERS and not may_use(layer, other):
            line = code.count("\n", 0, match.start()) + 1
            problems.append(f"{name(path)}:{line}: {layer} may not use {match[1]}, "
                            f"which {other} defines")
    return problems


def includes(path: pathlib.Path) -> list[str]:
    problems = []
    layer = layer_of(path)
    if layer not in LAYERS:
        return [f"{name(path)}: src/{layer} is no layer"]
    for line, bracket, target in lines_of(path):
        other = layer_of(pathlib.Path(target))
        ours = (ROOT / "src" / target).is_file()
        if target in MADE or (bracket == "<" and not ours):
            continue
        if other not in LAYERS or not ours:
            problems.append(f"{name(path)}:{line}: \"{target}\" is not written from src/ on")
        elif not may_use(layer, other):
            problems.append(f"{name(path)}:{line}: {layer} may not include {other} (\"{target}\")")
    return problems


def outside(path: pathlib.Path) -> list[str]:
    problems = []
    for line, _, target in lines_of(path):
        beside = (path.parent / target).is_file() or (path.parent.parent / target).is_file()
        private = not beside and (ROOT / "src" / target).exists()
        if private or target.startswith(("hiredis", "openssl")):
            problems.append(f"{name(path)}:{line}: it may see public headers alone ({target})")
    return problems


def too_large(found: list[list[pathlib.Path]], group_of) -> list[str]:
    """Circles beyond what their group may have, and numbers that could be lowered."""
    problems, largest = [], dict.fromkeys(CIRCLES, 0)
    for circle in found:
        group = group_of(circle[0])
        largest[group] = max(largest.get(group, 0), len(circle))
        if len(circle) > CIRCLES.get(group, LARGEST_CIRCLE):
            problems.append(f"{group} has a circle of {len(circle)} files: "
                            + " ".join(map(name, circle)))
    return problems + [f"CIRCLES: {group} has none of more than {largest[group]} any more"
                       for group, allowed in CIRCLES.items() if largest[group] < allowed]


def main() -> None:
    problems = []
    sources = files(".c", ".h", ".def", under=("src",))
    layers = {symbol: layer_of(path) for symbol, path in definitions(sources).items()
              if layer_of(path) in LAYERS}
    for path in sources:
        problems += includes(path) + calls(path, layers)
    problems += too_large(circles(sources) + circles(files(".c", ".h", under=("cli",)), ANY_NAME),
                          lambda path: layer_of(path) if ROOT / "src" in path.parents else "cli")
    users = files(".c", ".cpp", ".h", under=OUTSIDE)
    for path in users:
        problems += outside(path)
    finish(problems, f"{len(sources)} files of the library with {len(layers)} names, "
                     f"and {len(users)} files of its users")


main()
