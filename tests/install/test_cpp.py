"""<lockkeeper.hpp>, from an installed copy: no warning, and what it says holds."""
from __future__ import annotations

import os
import shutil

import pytest

from conftest import ROOT, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wold-style-cast",
            "-Wzero-as-null-pointer-constant", "-Werror"]
PARTS = ["standard wrappers", "condition variable", "shared", "holds", "losses", "counters",
         "errors", "lives of objects", "threads"]


@pytest.fixture(params=["g++ -std=c++20", "clang++ -std=c++17 -fsanitize=address,undefined"])
def compiler(request):
    words = request.param.split()
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]}")
    return words


def built(compiler, copy, folder, source):
    made = folder / "cpp-program"
    run(*compiler, "-g", *WARNINGS, source, *copy.flags("--cflags", "--libs"), "-pthread", "-o",
        made, env=copy.environment)
    return made


def test_what_the_header_says(compiler, copy, folder, server):
    program = built(compiler, copy, folder, ROOT / "tests/install/cpp/program.cpp")
    done = run(program, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    said = done.stdout.splitlines()
    assert said == [*PARTS, *(["stops"] if "-std=c++20" in compiler else [])]


def test_the_example(copy, folder, server):
    program = built(["c++", "-std=c++17"], copy, folder, ROOT / "examples/mutex.cpp")
    done = run(program, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    assert done.stdout == "alone at work\nstill alone\n"
    server.ask("HSET", "backup", "other:1", "1")
    done = run(program, check=False, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    assert done.returncode == 1
    assert done.stderr.startswith('acquire "backup" ') and "another owner" in done.stderr


def test_each_standard_takes_the_header(copy):
    for name in ("g++", "clang++"):
        for standard in ("c++17", "c++20", "c++23" if name == "g++" else "c++2b"):
            if shutil.which(name):
                run(name, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-x", "c++",
                    *copy.flags("--cflags"), copy.top / "include/lockkeeper.hpp",
                    env={**os.environ, **copy.environment})
