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
COROUTINES = ["many", "destroyed while they wait", "granted to nobody", "the queue goes first",
              "what fails", "permits and latches"]


def present(words):
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]}")
    return words


@pytest.fixture(params=["g++ -std=c++20", "clang++ -std=c++17 -fsanitize=address,undefined"])
def compiler(request):
    return present(request.param.split())


def built(compiler, copy, folder, source):
    made = folder / "cpp-program"
    run(compiler[0], "-g", *WARNINGS, *compiler[1:], source, *copy.flags("--cflags", "--libs"),
        "-pthread", "-o", made, env=copy.environment)
    return made


def test_what_the_header_says(compiler, copy, folder, server):
    program = built(compiler, copy, folder, ROOT / "tests/install/cpp/program.cpp")
    done = run(program, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    said = done.stdout.splitlines()
    assert said == [*PARTS, *(["stops"] if "-std=c++20" in compiler else [])]


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_coroutines(name, copy, folder, server):
    """The address sanitizer sees one that is resumed after its end."""
    compiler = present([name, "-std=c++20", "-fsanitize=address,undefined"])
    program = built(compiler, copy, folder, ROOT / "tests/install/cpp/await.cpp")
    done = run(program, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    said = done.stdout.splitlines()
    assert said in (COROUTINES, [*COROUTINES, "stops"])


def test_the_example_of_coroutines(copy, folder, server):
    program = built(["c++", "-std=c++20", "-Wno-zero-as-null-pointer-constant"], copy, folder,
                    ROOT / "examples/await.cpp")
    done = run(program, env={**copy.environment, "LOCKKEEPER_URL": server.url})
    assert sorted(done.stdout.splitlines()) == [f"{i}: alone at work" for i in (1, 2, 3)]


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
