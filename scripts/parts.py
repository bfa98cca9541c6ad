"""What a test run consists of: parts, each one process, a C program or tests of pytest.

    part                 its cases                        how a failed case is repeated
    Program              of cmocka; else the program       the program
    Tests                the tests of its files           that test alone

A part runs its process, which writes into a log of its own, and says how each case ended. What the
cases have in common is decided in run.py.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from typing import NamedTuple

import tally as runners
from tally import PYTHON, ROOT
from tree import SKIPPED

SCRIPTS = ROOT / "scripts"
INTROSPECT_LIMIT_S = 60
FILES_LIMIT_S = 1200  # of one process of pytest
LIMITS = 4           # how many times slower than idle a machine may be
NO_TESTS = 5         # pytest's status
WHY_MAX = 160
# cmocka's words; ERROR is said of a case whose clean-up failed, too.
OUTCOMES = {"OK": "passed", "FAILED": "failed", "ERROR": "failed", "SKIPPED": "skipped"}
PERTURB = "165"  # what new memory is filled with, so that nothing counts on zeros


class Case(NamedTuple):
    name: str
    outcome: str  # passed, failed, skipped
    why: str = ""  # it did not pass: the first line


def slowness(environment: dict[str, str]) -> float:
    """How many times slower than a plain build the programs are."""
    return float(environment.get("LK_TEST_SLOW", "1"))


def first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no word")
    return line if len(line) <= WHY_MAX else f"{line[:WHY_MAX - 1]}…"


def last_line(text: str) -> str:
    return first_line("\n".join(reversed(text.splitlines())))


class Program:
    """A C program. Where cmocka does not say what its cases did, it is one case."""

    def __init__(self, name: str, argv: list[str], environment: dict[str, str], limit_s: float):
        self.name, self.argv, self.environment, self.limit_s = name, argv, environment, limit_s

    def run(self, log: pathlib.Path) -> list[Case]:
        status = runners.run(self.argv, log, self.environment, self.limit_s)
        return cases_of_program(self.name, status, log.read_text(errors="replace"))

    def again(self, failed: list[Case]) -> list[tuple[list[Case], Part]]:
        """What repeats them: all of it, since its cases share a server."""
        return [(failed, self)]


def cases_of_program(name: str, status: int, said: str) -> list[Case]:
    if status == SKIPPED:
        return [Case(name, "skipped", last_line(said))]
    cases = [Case(f"{name}: {test}", outcome, why_of(test, said) if outcome != "passed" else "")
             for outcome, test in ended(said)]
    if status and not any(case.outcome == "failed" for case in cases):
        cases.append(Case(name, "failed", "it took too long" if status == runners.OUT_OF_TIME
                          else f"it ended with {status}: {last_line(said)}"))
    return cases or [Case(name, "passed")]


def ended(said: str) -> list[tuple[str, str]]:
    """How each case ended. The sums of a group, and its list of failed cases, repeat them: the
    function skips both."""
    found, listing = [], False
    for line in said.splitlines():
        listing = (listing or "listed below:" in line) and "Running" not in line
        case = re.match(r"\[ +(OK|FAILED|ERROR|SKIPPED) +\] (\w\S*)$", line)
        if case and not listing:
            found.append((OUTCOMES[case[1]], case[2]))
    return found


def why_of(test: str, said: str) -> str:
    """What cmocka says between the start of a case and its end."""
    between = re.search(rf"^\[ RUN +\] {re.escape(test)}\n"
                        r"(.*?)^\[ +(?:FAILED|ERROR|SKIPPED) +\] \w", said,
                        re.MULTILINE | re.DOTALL)
    if not between:
        return "no word"
    words = re.findall(r"^\[ +(?:ERROR|LINE) +\] --- (.*)", between[1], re.MULTILINE)
    # A check of the harness has said it in a line of its own, which comes first.
    plain = between[1] if not between[1].startswith("[") else ""
    return first_line(plain or " at ".join(words) or between[1])


def programs(build: pathlib.Path, environment: dict[str, str]) -> list[Program]:
    """Those of a build folder in which everything is built."""
    rows = json.loads(subprocess.run(
        ["meson", "introspect", "--tests", str(build)], check=True, capture_output=True, text=True,
        timeout=INTROSPECT_LIMIT_S).stdout)
    return [Program(row["name"].replace("-", "/", 1), row["cmd"],
                    {**environment, **row["env"], "MALLOC_PERTURB_": PERTURB},
                    row["timeout"] * LIMITS * slowness(environment))
            for row in rows]


class Tests:
    """The tests of pytest files: all, those chosen, or one part of them."""

    def __init__(self, name: str, paths: list[pathlib.Path], environment: dict[str, str],
                 chosen: list[str] = (), number: int = 1, parts: int = 1):
        self.name, self.paths, self.environment = name, paths, environment
        self.selection = [f"--part={number}/{parts}", *(f"--chosen={glob}" for glob in chosen)]
        self.limit_s = FILES_LIMIT_S * slowness(environment)
        self.may_be_empty = parts > 1
        if parts > 1:
            self.name += f" {number}/{parts}"

    def run(self, log: pathlib.Path) -> list[Case]:
        return self.run_pytest(log, [*map(str, self.paths), *self.selection])

    def run_pytest(self, log: pathlib.Path, words: list[str]) -> list[Case]:
        report = log.with_suffix(".xml")
        report.unlink(missing_ok=True)
        path = f"{SCRIPTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        with tempfile.TemporaryDirectory(prefix="lk-") as base:
            status = runners.run([PYTHON, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider",
                                  "-p", "pytest_part", f"--basetemp={base}/t",
                                  f"--junitxml={report}", *words], log,
                                 {**self.environment, "PYTHONPATH": path}, self.limit_s)
        cases = cases_of_report(report) if report.exists() else []
        if status and not any(case.outcome == "failed" for case in cases) and not (
                self.may_be_empty and status == NO_TESTS):
            said = log.read_text(errors="replace")
            errors = [line for line in said.splitlines() if line.startswith(("ERROR", "E  "))]
            why = ("it took too long" if status == runners.OUT_OF_TIME
                   else first_line("\n".join(errors) or said))
            cases.append(Case(self.name, "failed", f"pytest ended with {status}: {why}"))
        return cases

    def again(self, failed: list[Case]) -> list[tuple[list[Case], Part]]:
        return [([case], OneTest(self, case.name) if "::" in case.name else self)
                for case in failed]


class OneTest:
    """One test of a file, alone."""

    def __init__(self, tests: Tests, name: str):
        self.tests, self.name = tests, name

    def run(self, log: pathlib.Path) -> list[Case]:
        file, _, test = self.name.partition("::")
        path = next(path for path in map(pathlib.Path, self.tests.paths) if path.stem == file)
        return self.tests.run_pytest(log, [f"{path}::{test}"])


def cases_of_report(report: pathlib.Path) -> list[Case]:
    """A test that fails and whose clean-up fails too is reported twice: it is one case."""
    cases: dict[str, Case] = {}
    for row in xml.parse(report).getroot().iter("testcase"):
        name = f"{row.get('classname').rpartition('.')[2]}::{row.get('name')}"
        bad = row.find("failure") if row.find("failure") is not None else row.find("error")
        if bad is not None:
            cases[name] = Case(name, "failed", first_line(bad.get("message") or bad.text or ""))
        elif (skipped := row.find("skipped")) is not None:
            cases.setdefault(name, Case(name, "skipped", first_line(skipped.get("message") or "")))
        else:
            cases.setdefault(name, Case(name, "passed"))
    return list(cases.values())


Part = Program | Tests | OneTest
