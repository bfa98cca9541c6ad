#!/usr/bin/env python3
"""C files look as .clang-format says. usage: check_format.py [BUILD]; `make format` mends."""
from __future__ import annotations

import subprocess

from tree import files, finish


def main() -> None:
    paths = files(".c", ".h")
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", "--style=file",
                           *map(str, paths)], capture_output=True, text=True)
    wrong = sorted({row.split(":")[0] for row in done.stderr.splitlines()
                    if "-Wclang-format-violations" in row})
    problems = [f"{row}: not as clang-format writes it (make format)" for row in wrong]
    if done.returncode and not problems:
        problems = [done.stderr]
    finish(problems, f"{len(paths)} files")


main()
