"""The other libraries as programs (bench/peers), with pinned versions, built into the build folder.

Each follows the protocol of pairs.h, or with the word `hot` that of hot.h. What cannot be had (no
Go, no Node, no way to fetch it) is named with the reason; its rows are skipped.
"""
from __future__ import annotations

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INTEROP = ROOT / "tests" / "interop"
sys.path.append(str(INTEROP))

from peers import Unavailable, run  # noqa: E402  (behind the path: tests/interop/peers.py)

SOURCES = ROOT / "bench" / "peers"
REASON_LENGTH = 300
NOISE = ("go: downloading", "npm error A complete log", "npm ERR! A complete log")
# What their rows run, as seen from the folder of the bench's own programs.
PROGRAMS = {"rueidislock": "peers/rueidislock", "redsync": "peers/redsync",
            "redislock": "peers/redislock", "node-redlock": "peers/node-redlock/peer.mjs"}


def build_go(place: pathlib.Path, names: list[str]) -> None:
    run(SOURCES / "go", "go", "build", "-mod=readonly", "-buildvcs=false", "-o", f"{place}/",
        *(f"./{name}" for name in names))


def build_node(place: pathlib.Path, names: list[str]) -> None:
    """With the packages of the interop suite, so that their versions are pinned once."""
    run(place, "node", "--version")
    for name in names:
        folder, lock = place / name, INTEROP / "redlock" / "package-lock.json"
        copy, done = folder / lock.name, folder / "node_modules" / ".package-lock.json"
        folder.mkdir(exist_ok=True)
        shutil.copy(SOURCES / name / "peer.mjs", folder)
        # npm writes the second of the two as its last.
        if done.exists() and copy.read_bytes() == lock.read_bytes():
            continue
        shutil.copy(lock, copy)
        shutil.copy(lock.with_name("package.json"), folder)
        run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
            "--loglevel=error", "--fetch-retries=1")


def in_a_line(reason: Unavailable) -> str:
    lines = [line for line in str(reason).splitlines() if not line.startswith(NOISE)]
    return " ".join(" ".join(lines).split())[:REASON_LENGTH]


def built(build: pathlib.Path, wanted: set[str]) -> dict[str, str]:
    """Builds those; answers which of them cannot be had, and why, in a line."""
    place = build.resolve() / "bench" / "peers"
    place.mkdir(parents=True, exist_ok=True)
    missing = {}
    for language, step in (("node", build_node), ("go", build_go)):
        names = [name for name in PROGRAMS if name in wanted
                 and (language == "node") == name.startswith("node-")]
        if not names:
            continue
        try:
            step(place, names)
        except Unavailable as reason:
            missing |= dict.fromkeys(names, in_a_line(reason))
    return missing
