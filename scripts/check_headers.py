#!/usr/bin/env python3
"""Every public header compiles alone, without a warning, as C99 to C23 and as C++98 to C++23.

A predicate returns 0 or 1, and its manual says so: a negative code would be true. What has to ask a
server, and can fail, writes its answer.
"""
from __future__ import annotations

import re
import shutil
import subprocess

from tree import ROOT, files, finish

WARNINGS = ["-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-Wshadow", "-Wundef"]
C = ["-std=c99", "-std=c11", "-std=c17", "-std=c2x"]
CXX = ["-std=c++98", "-std=c++11", "-std=c++17", "-std=c++20", "-std=c++2b"]
PREDICATE = re.compile(r"/\*((?:(?!\*/).)*)\*/\s*LK_API (\w+) (lk_\w*_(?:is|has|was|maybe)_\w+)"
                       r"\(([^;]*)\);", re.DOTALL)


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


def unclear(manual: str, returns: str, parameters: str) -> str | None:
    """What is wrong with a predicate of this form."""
    said = " ".join(manual.replace("*", " ").split())
    if re.search(r"\bint \*\w+_out\b", parameters):
        return None if "Writes 1 when" in said else "says not what it writes"
    if returns != "int" or "1 when" not in said or "else 0" not in said:
        return "is no int that is 1 when it is so, else 0"
    if "lk_error *" in parameters and "never a negative code" not in said:
        return "may be true upon an error: let it return 0 then, or write its answer"
    return None


def predicates() -> list[str]:
    return [f"{path.relative_to(ROOT)}: {name} {problem}"
            for path in files(".h", under=("include",))
            for manual, returns, name, parameters in PREDICATE.findall(path.read_text())
            if (problem := unclear(manual, returns, parameters))]


def main() -> None:
    headers = [str(path.relative_to(ROOT / "include")) for path in files(".h", under=("include",))]
    jobs = [(compiler, language, standard)
            for language, standards, compilers in (("c", C, ("gcc", "clang")),
                                                   ("c++", CXX, ("g++", "clang++")))
            for compiler in compilers if shutil.which(compiler) for standard in standards]
    problems = predicates()
    for header in headers:
        for job in jobs:
            said = attempt(*job, program(header))
            if said:
                problems.append(f"{header}, {job[0]} {job[2]}:\n{said}")
    finish(problems, f"{len(headers)} headers, {len(jobs)} ways each")


main()
