"""Cases are counted rightly, and whatever ends badly is a failure."""
from __future__ import annotations

import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import tally as runners  # noqa: E402

GOOD = "[==========] Running 3 test(s).\n[       OK ] a\n[       OK ] b\n[       OK ] c\n"
SUMMARY = "[==========] 3 test(s) run.\n"


def row(result, out="", err=""):
    return {"name": "suite", "result": result, "stdout": out, "stderr": err}


@pytest.mark.parametrize("given,counts", [
    (row("OK", GOOD + SUMMARY, "[  PASSED  ] 3 test(s).\n"), (3, 0, 0)),
    (row("OK", "[  PASSED  ] 3 test(s).\n[  PASSED  ] 2 test(s).\n"), (5, 0, 0)),
    (row("FAIL", SUMMARY, "[  PASSED  ] 2 test(s).\n[  FAILED  ] 1 test(s), listed below:\n"),
     (2, 1, 0)),
    (row("OK", "[  PASSED  ] 2 test(s).\n", "[  SKIPPED ] 1 test(s), listed below:\n"), (2, 0, 1)),
    (row("FAIL", "[       OK ] a\n[       OK ] b\n"), (2, 1, 0)),
    (row("TIMEOUT"), (0, 1, 0)),
    (row("ERROR", "[  PASSED  ] 2 test(s).\n"), (2, 1, 0)),
    (row("OK", "no word of cases\n"), (1, 0, 0)),
    (row("SKIP"), (0, 0, 1)),
])
def test_cases(given, counts):
    assert runners.cases(given) == counts


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


def test_pytest_counts(tmp_path):
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 0\n"
        "def test_c(): pytest.skip('no')\n"
        "@pytest.fixture\ndef broken(): raise ValueError\n"
        "def test_d(broken): pass\n")
    tally = runners.Tally(tmp_path / "logs")
    runners.pytest(tally, "suite", [suite])
    assert (tally.passed, tally.failed, tally.skipped) == (1, 2, 1)


@pytest.mark.parametrize("text", ["syntax error(", "", "import os; os._exit(7)"])
def test_suite_that_does_not_run_is_a_failure(tmp_path, text):
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_it.py").write_text(text)
    tally = runners.Tally(tmp_path / "logs")
    runners.pytest(tally, "suite", [suite])
    assert tally.failed >= 1


@pytest.mark.parametrize("text,failed", [("", 0), ("syntax error(", 1)])
def test_a_part_of_a_suite_may_be_empty(tmp_path, text, failed):
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_it.py").write_text(text)
    tally = runners.Tally(tmp_path / "logs")
    runners.pytest(tally, "suite", [suite], may_be_empty=True)
    assert tally.failed == failed


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
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < end
