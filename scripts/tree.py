"""The files of the tree, and how a check ends."""
from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77  # the status of a check that cannot be made here
FOLDERS = ("include", "cpp", "src", "cli", "tests", "examples", "demo", "bench", "scripts")


def files(*suffixes: str, under: tuple[str, ...] = FOLDERS) -> list[pathlib.Path]:
    found = [path for folder in under for path in (ROOT / folder).rglob("*")
             if path.suffix in suffixes and path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def name(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def finish(problems: list[str], good: str) -> None:
    """Ends the program: the problems, or one line of what was found good."""
    print("\n".join(problems) if problems else good)
    sys.exit(1 if problems else 0)


def not_checked(why: str) -> None:
    """Ends the program: the check is skipped."""
    print(f"not checked: {why}")
    sys.exit(SKIPPED)
