"""Cases are counted rightly, and whatever ends badly is a failure."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import parts  # noqa: E402

RUN = "[ RUN      ] {0}\n[       OK ] {0}\n"
FAILED = ("[ RUN      ] {0}\n[  ERROR   ] --- 1 != 2\n[   LINE   ] --- a.c:7: error\n"
          "[  FAILED  ] {0}\n")
SUMMARY = "[==========] {0} test(s) run.\n[  PASSED  ] 1 test(s).\n"
LISTED = "[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] {0}\n\n 1 FAILED TEST(S)\n"


def counts(cases) -> tuple[int, int, int]:
    return tuple(sum(case.outcome == word for case in cases)
                 for word in ("passed", "failed", "skipped"))


@pytest.mark.parametrize("status,said,expected", [
    (0, RUN.format("a") + RUN.format("b") + SUMMARY, (2, 0, 0)),
    (0, (RUN.format("a") + SUMMARY) * 2, (2, 0, 0)),  # two groups
    (1, RUN.format("a") + FAILED.format("b") + SUMMARY + LISTED.format("b"), (1, 1, 0)),
    (0, RUN.format("a") + "[ RUN      ] b\n[  SKIPPED ] b\n" + SUMMARY +
     "[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] b\n", (1, 0, 1)),
    (1, RUN.format("a") + "[ RUN      ] b\n[  ERROR   ] b\n" + SUMMARY, (1, 1, 0)),
    (-6, RUN.format("a") + "[ RUN      ] b\n", (1, 1, 0)),
    (124, "", (0, 1, 0)),
    (2, RUN.format("a") + SUMMARY, (1, 1, 0)),
    (0, "no word of cases\n", (1, 0, 0)),
    (77, "", (0, 0, 1)),
])
def test_cases_of_a_program(status, said, expected):
    assert counts(parts.cases_of_program("suite", status, said)) == expected


def test_a_failed_case_says_why():
    (case,) = parts.cases_of_program("suite", 1, FAILED.format("b"))
    assert case == parts.Case("suite: b", "failed", "1 != 2 at a.c:7: error")
    said = "[ RUN      ] b\nsize: 1, not 2\n[   LINE   ] --- a.c:7: error\n[  ERROR   ] b\n"
    (case,) = parts.cases_of_program("suite", 1, said)
    assert case == parts.Case("suite: b", "failed", "size: 1, not 2")


def test_a_skipped_case_says_why():
    (case,) = parts.cases_of_program("suite", 0, "[ RUN      ] b\nno IPv6\n[  SKIPPED ] b\n")
    assert case == parts.Case("suite: b", "skipped", "no IPv6")
    (case,) = parts.cases_of_program("tree/it", 77, "not checked: no such tool\n")
    assert case == parts.Case("tree/it", "skipped", "not checked: no such tool")


def run(folder, text: str, **more) -> list[parts.Case]:
    (folder / "test_it.py").write_text(text)
    return parts.Tests("suite/it", [folder / "test_it.py"], {}, **more).run(folder / "it.log")


def test_cases_of_pytest(tmp_path):
    cases = run(tmp_path, "import pytest\n"
                "def test_a(): pass\n"
                "def test_b(): assert 0, 'why'\n"
                "def test_c(): pytest.skip('no')\n"
                "@pytest.fixture\ndef broken(): raise ValueError\n"
                "def test_d(broken): pass\n"
                "@pytest.fixture\ndef left():\n    yield\n    assert 0\n"
                "def test_e(left): assert 0\n")
    assert counts(cases) == (1, 3, 1)
    why = {case.name: case.why for case in cases}
    assert why["test_it::test_b"].startswith("AssertionError: why")
    assert why["test_it::test_c"] == "no"


@pytest.mark.parametrize("text", ["syntax error(", "", "import os; os._exit(7)"])
def test_a_file_that_does_not_run_is_a_failure(tmp_path, text):
    assert counts(run(tmp_path, text)) == (0, 1, 0)


@pytest.mark.parametrize("text,failed", [("", 0), ("syntax error(", 1)])
def test_a_part_of_a_file_may_be_empty(tmp_path, text, failed):
    assert counts(run(tmp_path, text, parts=2)) == (0, failed, 0)


SEVERAL = """import pytest
@pytest.mark.parametrize("case", ["a-[1]", "b", "c"])
def test_one(case): pass
def test_other(): pass
"""


@pytest.mark.parametrize("globs,passed", [
    (["it::test_one[a-[1]]"], 1), (["it::test_one*"], 3), (["it::*"], 4),
    (["it::test_one[b]", "it::test_o*[b]", "it::test_other"], 2)])
def test_chosen_tests(tmp_path, globs, passed):
    assert counts(run(tmp_path, SEVERAL, chosen=globs)) == (passed, 0, 0)


def test_a_choice_that_chooses_nothing_is_a_failure(tmp_path):
    (case,) = run(tmp_path, SEVERAL, chosen=["it::test_one*", "it::test_gone"])
    assert case.outcome == "failed" and "no test is called it::test_gone" in case.why


def test_parts_of_a_file_are_all_of_it(tmp_path):
    names = [case.name for number in (1, 2, 3)
             for case in run(tmp_path, SEVERAL, number=number, parts=3)]
    assert len(names) == len(set(names)) == 4
