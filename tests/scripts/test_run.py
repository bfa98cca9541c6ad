"""What fails is repeated alone: luck is named, a defect stays a failure."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check  # noqa: E402
import parts  # noqa: E402
import run  # noqa: E402
import sessions  # noqa: E402
import tally as runners  # noqa: E402

ONCE = """import pathlib
def test_other(): pass
def test_it():
    runs = pathlib.Path(__file__).with_name("runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) not in {failing}, "unlucky"
"""


def ran(folder: pathlib.Path, failing: list[int]) -> runners.Tally:
    (folder / "test_luck.py").write_text(ONCE.format(failing=failing))
    tally = runners.Tally(folder / "logs")
    run.run(tally, [parts.Tests("suite/luck", [folder / "test_luck.py"], {})],
            run.Times(folder / "times.json"))
    return tally


def runs(folder: pathlib.Path) -> int:
    return len((folder / "runs").read_text())


def test_a_test_that_fails_once_is_unsteady(tmp_path, capsys):
    tally = ran(tmp_path, [1])
    assert (tally.line(), runs(tmp_path)) == ("2 passed, 0 failed", 4)
    assert check.conclude(tally, 0) == 0
    said = capsys.readouterr().out
    assert "unsteady: test_luck::test_it (AssertionError: unlucky" in said
    assert said.splitlines()[-1] == "2 passed, 0 failed"
    logs = {path.name for path in (tmp_path / "logs").glob("*.log")}
    assert {"suite-luck.log", "test_luck--test_it.again-1.log"} <= logs


def test_the_sum_says_why_tests_were_skipped(tmp_path, capsys):
    (tmp_path / "test_skips.py").write_text(
        "import pytest\n"
        "def test_a(): pytest.skip('no root')\n"
        "def test_b(): pytest.skip('no root')\n"
        "def test_c(): pytest.skip('no network')\n"
        "def test_d(): pass\n")
    tally = runners.Tally(tmp_path / "logs")
    run.run(tally, [parts.Tests("suite/skips", [tmp_path / "test_skips.py"], {})],
            run.Times(tmp_path / "times.json"))
    total = runners.Tally(tmp_path / "logs")
    total.add_all(tally, "inner")
    check.conclude(total, 0)
    said = capsys.readouterr().out
    assert "\nSkipped:\n    2  no root\n    1  no network\n" in said
    assert said.splitlines()[-1] == "1 passed, 0 failed, 3 skipped"
    read = runners.Tally(tmp_path / "logs")
    (tmp_path / "said").write_text(said)
    check.counted(read, 0, tmp_path / "said")
    assert read.line() == total.line() and read.reasons == total.reasons


@pytest.mark.parametrize("failing,count", [(list(range(1, 9)), 2), ([1, 4], 4)])
def test_a_test_that_fails_again_is_a_failure(tmp_path, failing, count, capsys):
    tally = ran(tmp_path, failing)
    assert (tally.line(), tally.unsteady) == ("1 passed, 1 failed", [])
    assert runs(tmp_path) == count
    assert check.conclude(tally, 0) == 1
    assert "Failed:\n  test_luck::test_it\n" in capsys.readouterr().out


def test_a_program_is_repeated_whole(tmp_path):
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\n[ -e again ] || { touch again; exit 3; }\n")
    script.chmod(0o755)
    tally = runners.Tally(tmp_path / "logs")
    program = parts.Program("suite/it", ["sh", "-c", f"cd {tmp_path} && ./program"], {}, 10)
    run.run(tally, [program], run.Times(tmp_path / "times.json"))
    assert tally.line() == "1 passed, 0 failed"
    assert tally.unsteady == ["suite/it (it ended with 3: no word)"]


def test_nothing_outlives_a_part(tmp_path):
    """Not what moved into a process group of its own, either."""
    assert runners.run(["bash", "-c", "set -m; sleep 600 & echo $$"], tmp_path / "log") == 0
    assert sessions.members(int((tmp_path / "log").read_text())) == []


def test_much_that_fails_is_not_repeated(tmp_path):
    (tmp_path / "test_many.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n): assert 0\n")
    tally = runners.Tally(tmp_path / "logs")
    run.run(tally, [parts.Tests("suite/many", [tmp_path / "test_many.py"], {})],
            run.Times(tmp_path / "times.json"))
    assert tally.failed == 20
    assert not list((tmp_path / "logs").glob("*again*"))


def test_the_longest_part_begins_first(tmp_path):
    times = run.Times(tmp_path / "times.json")
    times.seconds = {"a": 1.0, "b": 9.0}
    named = [parts.Program(name, ["true"], {}, 10) for name in ("a", "new", "b", "long 1/2")]
    assert [part.name for part in run.in_order(named, times, ["long"])] == [
        "long 1/2", "b", "new", "a"]
    times.keep()
    assert run.Times(tmp_path / "times.json").seconds == times.seconds


def test_the_table_names_files_that_there_are():
    table = check.chosen()
    assert {"system/lock_wire", "cli/run", "history/checker"} <= table.keys()


def test_a_file_is_run_unless_a_line_says_otherwise(tmp_path, monkeypatch):
    paths = [tmp_path / f"suite/test_{stem}.py" for stem in ("new", "some", "left")]
    table = tmp_path / "chosen.txt"
    table.write_text("# file  test  why\nsuite/some  test_a*  fast\nsuite/some  test_b  too\n"
                     "suite/left  -  slow\n")
    monkeypatch.setattr(check, "files", lambda: paths)
    monkeypatch.setattr(check, "CHOSEN", table)
    assert check.chosen() == {"suite/new": ["new::*"],
                              "suite/some": ["some::test_a*", "some::test_b"]}
    table.write_text("suite/gone  *  it is not there\n")
    with pytest.raises(SystemExit, match="suite/gone"):
        check.chosen()
