"""The simulator's model of a server beside the real one, at random: for servers of other versions.
`make check` runs the program itself (unit-model)."""
from __future__ import annotations

import re
import subprocess

import pytest

from keeper import BUILD


def major_version() -> int:
    told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    return int(re.search(r"v=(\d+)", told.stdout)[1])


def test_same_answers_and_keys():
    if major_version() < 7:
        pytest.skip("sharded messages, which the model knows, began with Redis 7")
    run = subprocess.run([BUILD / "tests" / "sim" / "test_model", "2", "20000"],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr + run.stdout
