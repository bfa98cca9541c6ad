#!/usr/bin/env python3
"""C files look as .clang-format says. usage: check_format.py [BUILD]; `make format` mends.

Versions of clang-format break lines in different places, so it is checked where the pinned one is,
and elsewhere the check says that it has not looked.
"""
from __future__ import annotations

import subprocess

from tree import files, finish, not_checked


VERSION = "14."  # Debian 12's


def main() -> None:
    version = subprocess.run(["clang-format", "--version"], capture_output=True,
                             text=True).stdout.strip()
    if f"version {VERSION}" not in version:
        not_checked(f"the format: it takes clang-format {VERSION}x, and this is {version}")
    paths = files(".c", ".cpp", ".h", ".hpp")
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", "--style=file",
                           *map(str, paths)], capture_output=True, text=True)
    wrong = sorted({row.split(":")[0] for row in done.stderr.splitlines()
                    if "-Wclang-format-violations" in row})
    problems = [f"{row}: not as clang-format writes it (make format)" for row in wrong]
    if done.returncode and not problems:
        problems = [done.stderr]
    finish(problems, f"{len(paths)} files")


main()
