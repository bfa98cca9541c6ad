#!/usr/bin/env python3
"""python-redis-lock 4.0.1 and redis-lock-py 1.3.0 (PyPI, seen 2026-11-27 with pip 23.2.1, Python 3.11):
both install a package called redis_lock, and pip overwrites the one with the other without a word.

Who meets it: a program that uses one of them directly, and gets the other through a dependency. Which
of the two works is decided by the order in which they were installed. The distribution that was
overwritten still counts as installed, so pip does not repair it.

Seen:
    python-redis-lock, then redis-lock-py:  Lock is gone, RedisLock is there
    redis-lock-py, then python-redis-lock:  Lock is there, RedisLock is gone
    each time pip ends with 0, and `pip check` names none of them

usage: pip_redis_lock_names.py   exits with 1 when a version behaves in another way
"""
from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import venv

PYTHON_REDIS_LOCK, REDIS_LOCK_PY = "python-redis-lock==4.0.1", "redis-lock-py==1.3.0"
NAMES = "import redis_lock; print([hasattr(redis_lock, n) for n in ('Lock', 'RedisLock')])"


def seen(first: str, second: str) -> tuple[str, str]:
    """What is left after both were installed, and what `pip check` says of the two."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = pathlib.Path(folder) / "bin" / "python"

        def run(*words: str, code: int | None = 0) -> str:
            done = subprocess.run([python, *words], capture_output=True, text=True)
            if code is not None and done.returncode != code:
                sys.exit(f"{words}: {done.stdout}{done.stderr}")
            return done.stdout

        for package in ("redis==7.4.1", first, second):
            run("-m", "pip", "install", "-q", "--no-deps", package)
        told = run("-m", "pip", "check", code=None)
        return run("-c", NAMES).strip(), "redis_lock" if "redis_lock" in told else "nothing"


def main() -> None:
    expected = {(PYTHON_REDIS_LOCK, REDIS_LOCK_PY): ("[False, True]", "nothing"),
                (REDIS_LOCK_PY, PYTHON_REDIS_LOCK): ("[True, False]", "nothing")}
    failed = False
    for order, wanted in expected.items():
        found = seen(*order)
        failed |= found != wanted
        print(f"{order[0]}, then {order[1]}: Lock, RedisLock there: {found[0]}; "
              f"pip check says {found[1]}")
    sys.exit("not what was seen on 2026-11-27" if failed else 0)


main()
