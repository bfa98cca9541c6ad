#!/usr/bin/env python3
"""Every public header compiles alone, without a warning, as C99 to C23 and as C++98 to C++23."""
from __future__ import annotations

import shutil
import subprocess

from tree import ROOT, files, finish

WARNINGS = ["-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-Wshadow", "-Wundef"]
C = ["-std=c99", "-std=c11", "-std=c17", "-std=c2x"]
CXX = ["-std=c++98", "-std=c++11", "-std=c++17", "-std=c++20", "-std=c++2b"]


def attempt(compiler: str, language: str, standard: str, program: str) -> str | None:
    warnings = [*WARNINGS, "-Wstrict-prototypes"] if language == "c" else WARNINGS
    done = subprocess.run([compiler, standard, *warnings, "-I", str(ROOT / "include"),
                           "-fsyntax-only", "-x", language, "-"], input=program, text=True,
                          capture_output=True)
    return done.stderr if done.returncode else None


def program(header: str) -> str:
    """The header alone and twice, its initialisers used."""
    uses = "int main(void) { return 0; }\n"
    if header in ("lockkeeper.h", "lockkeeper/lock.h"):
        uses = ("static const lk_acquire_options a = LK_ACQUIRE_OPTIONS_INIT;\n"
                "static const lk_release_options r = LK_RELEASE_OPTIONS_INIT;\n"
                "int main(void) { return (int)(a.struct_size + r.struct_size) * LK_OK; }\n")
    return f"#include <{header}>\n#include <{header}>\n{uses}"


def main() -> None:
    headers = [str(path.relative_to(ROOT / "include")) for path in files(".h", under=("include",))]
    jobs = [(compiler, language, standard)
            for language, standards, compilers in (("c", C, ("gcc", "clang")),
                                                   ("c++", CXX, ("g++", "clang++")))
            for compiler in compilers if shutil.which(compiler) for standard in standards]
    problems = []
    for header in headers:
        for job in jobs:
            said = attempt(*job, program(header))
            if said:
                problems.append(f"{header}, {job[0]} {job[2]}:\n{said}")
    finish(problems, f"{len(headers)} headers, {len(jobs)} ways each")


main()
