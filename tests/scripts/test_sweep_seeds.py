"""A sweep goes on behind a failure, finds the seed that crashes, and counts both."""
from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of the world red, seed 1105 fails and 1207 is killed: it says nothing.
PROGRAM = """#!/bin/sh
if [ "$1" = --worlds ]; then printf 'locks 9\\nred 9\\nmulti 9\\n'; exit; fi
world=$1
for seed in $(seq $2 $(($2 + $3 - 1))); do
    case $world-$seed in
    red-1105) echo "ERROR: seed 1105, at 7.000 ms: two owners" >&2; exit 255;;
    red-1207) kill -9 $$;;
    esac
done
"""


def sweep(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = folder / "tests/sim/test_sim"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return subprocess.run(
        [sys.executable, ROOT / "scripts/sweep_seeds.py", "--build", folder, *words],
        capture_output=True, text=True, check=False)


def test_it_goes_on_behind_failures(tmp_path):
    done = sweep(tmp_path, "--from", "1000", "250", "locks", "red")
    failed = sorted(line for line in done.stdout.splitlines() if line.startswith("red"))
    assert failed[0] == "red 1105: seed 1105, at 7.000 ms: two owners"
    assert failed[1].startswith("red 1207: status -9")
    assert len(failed) == 2 and done.stdout.endswith("500 seeds, 2 failed\n")
    assert done.returncode == 1


def test_all_is_well(tmp_path):
    done = sweep(tmp_path, "--from", "1", "30")
    assert done.stdout.endswith("90 seeds, 0 failed\n") and done.returncode == 0


def test_no_such_world(tmp_path):
    done = sweep(tmp_path, "5", "green")
    assert done.returncode == 2 and "no world green" in done.stderr
