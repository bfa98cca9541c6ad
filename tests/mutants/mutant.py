"""What a mutant is, who finds it, and its edits in a tree."""
from __future__ import annotations

import pathlib
import shutil
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class World:
    """Found by one of the seeds that `make check` runs of this world."""
    name: str


@dataclass(frozen=True)
class Suite:
    """Found by these files of tests/, with pytest's -k; `why` no world can show it."""
    files: str
    choice: str
    why: str


@dataclass(frozen=True)
class Program:
    """Found by this C program of tests/; `why` no world can show it."""
    path: str
    why: str


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: str                        # what it breaks, in one line
    edits: list[tuple[str, str, str]]  # file, text that is there once, its replacement
    found_by: World | Suite | Program


def misfits(mutant: Mutant, tree: pathlib.Path = ROOT) -> list[str]:
    """Which of its edits do not fit the tree any more."""
    found = []
    for file, text, replacement in mutant.edits:
        path = tree / file
        count = path.read_text().count(text) if path.is_file() else 0
        if count != 1 or text == replacement:
            found.append(f"{file} has its text {count} times")
    return found


def apply(mutant: Mutant, tree: pathlib.Path) -> None:
    for file, text, replacement in mutant.edits:
        source = (tree / file).read_text()
        (tree / file).write_text(source.replace(text, replacement))


def restore(mutant: Mutant, tree: pathlib.Path) -> None:
    """As new files, so that the next build makes them again."""
    for file, _, _ in mutant.edits:
        shutil.copy(ROOT / file, tree / file)
