#!/usr/bin/env python3
"""Programs that were built with the recorded interface run with this one (docs/abi.md).

usage: check_abi.py BUILD [--write]     (--write records the interface that the headers have)

The headers make the interface: a library of empty functions is compiled from them, and abidiff
compares it with the record. Structs that may grow at their ends are named in src/abi.ignore. The
record is for one architecture; elsewhere, and without abidiff, nothing is compared.
"""
from __future__ import annotations

import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import make_manual
from tree import ROOT, files, finish, not_checked

RECORD = ROOT / "src" / "lockkeeper.abi"
IGNORE = ROOT / "src" / "abi.ignore"
MACHINE = "x86_64"
LIMIT_S = 120
CHANGED, INCOMPATIBLE = 4, 8  # bits of abidiff's exit status; lower ones: it failed


def stubs() -> str:
    """A definition of each function that is exported, and a variable of each enumeration, since
    functions take and return their values as numbers."""
    made = ["#include <lockkeeper.h>"]
    for header in files(".h", under=("include",)):
        text = header.read_text()
        made += [f"enum {name} value_of_{name};" for name in
                 re.findall(r"^enum (lk_\w+) \{", text, re.MULTILINE)]
        made += [f"{function.returns} {function.name}({', '.join(function.parameters)}) "
                 "{ __builtin_trap(); }"
                 for function in make_manual.functions(text) if not function.inline]
    return "\n".join(made) + "\n"


def run(*words: str | pathlib.Path, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S, **more)


def library(folder: pathlib.Path) -> pathlib.Path:
    """Its debugging information names no path outside of the tree."""
    made = folder / "liblockkeeper.so"
    done = run("cc", "-std=gnu11", "-g", "-O0", "-shared", "-fPIC", "-x", "c", "-",
               f"-I{ROOT / 'include'}", f"-ffile-prefix-map={ROOT}=", "-o", made, input=stubs(),
               cwd=folder)
    if done.returncode:
        sys.exit(f"the headers cannot be compiled:\n{done.stderr}")
    return made


def write(made: pathlib.Path) -> None:
    run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style",
        "hash", "--out-file", RECORD, made, check=True)


def compared(made: pathlib.Path) -> list[str]:
    done = run("abidiff", "--suppressions", IGNORE, "--no-added-syms", "--no-show-locs", RECORD,
               made)
    if done.returncode & ~(CHANGED | INCOMPATIBLE):
        return [f"abidiff: {done.stdout}{done.stderr}"]
    if done.returncode:
        return [*done.stdout.rstrip().splitlines(),
                "programs that are built with the recorded interface would break: see docs/abi.md"]
    return []


def main() -> None:
    if platform.machine() != MACHINE or not shutil.which("abidiff"):
        not_checked(f"the interface: it takes abidiff, and {MACHINE}")
    with tempfile.TemporaryDirectory(prefix="lk-abi-") as folder:
        made = library(pathlib.Path(folder))
        if "--write" in sys.argv[2:]:
            write(made)
        finish(compared(made), f"the interface of {RECORD.relative_to(ROOT)}")


main()
