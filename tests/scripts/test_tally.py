"""Commands are cases; what they leave behind is ended, or a failure."""
from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import tally as runners  # noqa: E402

def test_command(tmp_path, capsys):
    tally = runners.Tally(tmp_path)
    assert runners.command(tally, "good", ["true"])
    assert not runners.command(tally, "bad", ["sh", "-c", "echo why; exit 3"])
    assert not runners.command(tally, "slow", ["sleep", "60"], limit_s=0.2)
    assert (tally.passed, tally.failed, tally.failing) == (1, 2, ["bad", "slow"])
    assert "why" in capsys.readouterr().out


def test_the_step_that_failed_is_shown(tmp_path):
    log = tmp_path / "build.log"
    log.write_text("[1/4] one\n[2/4] two\nFAILED: two.o\nwhy\n[3/4] three\n")
    assert [line.strip() for line in runners.tail(log, 60).splitlines()] == [
        f"… 2 lines more in {log}", "FAILED: two.o", "why", "[3/4] three"]
    assert runners.tail(log, 1).splitlines()[1:] == ["    [3/4] three"]


@pytest.mark.parametrize("leaves", [False, True])
def test_what_is_left_in_the_temporary_folder_is_a_failure(tmp_path, leaves):
    tally = runners.Tally(tmp_path / "logs")
    before = os.environ.get("TMPDIR")
    with runners.temporary_folder(tally):
        runners.command(tally, "makes", ["mktemp"] if leaves else ["true"])
    assert os.environ.get("TMPDIR") == before
    assert (tally.passed, tally.failed) == ((1, 1) if leaves else (2, 0))


def test_processes_that_a_command_left_are_ended(tmp_path):
    tally = runners.Tally(tmp_path)
    begun = pathlib.Path(tmp_path / "pid")
    runners.command(tally, "leaves", ["sh", "-c", f"sleep 60 & echo $! >{begun}"])
    state = pathlib.Path(f"/proc/{begun.read_text().strip()}/stat")
    end = time.monotonic() + 10
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has gone
        while state.read_text().split()[2] != "Z":
            assert time.monotonic() < end
