#!/usr/bin/env python3
"""Functions of at most 70 lines, files of at most 800, lines of at most 100 columns.

A file whose subject is one struct may have 1,200 lines: a cut through it would be worse. Tables
(.def) have a row a line, as long as it is.
"""
from __future__ import annotations

import ast
import pathlib
import statistics
import subprocess

from tree import ROOT, files, finish, name

FUNCTION_LINES, FILE_LINES, SUBJECT_LINES, COLUMNS = 70, 800, 1200, 100
# A file with one subject, and the struct that is its subject.
SUBJECTS: dict[str, str] = {
    "src/api/counter.c": "counter_call",
    "src/api/election.c": "lk_election",
    "src/api/inspect.c": "lk__look",
    "src/api/lock.c": "lk_lock",
    "src/api/watch_look.c": "lk__watched",
    "src/conn/conn.c": "lk__conn",
    "src/conn/connector.c": "lk__connector",
    "src/lock/async.c": "lk__async",
    "src/lock/entry.c": "lk__entry",
    "src/lock/hold.c": "lk__hold",
    "src/lock/multi_call.c": "lk__multi_ask",
}


def c_functions(paths: list[pathlib.Path]):
    """(file, name, lines) of each function, by universal-ctags."""
    tags = subprocess.run(["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f",
                           "--fields=ne", "-L", "-"], input="\n".join(map(str, paths)),
                          capture_output=True, text=True, check=True).stdout
    for row in tags.splitlines():
        title, path, *rest = row.split("\t")
        fields = dict(field.split(":", 1) for field in rest if ":" in field)
        yield pathlib.Path(path), title, int(fields["end"]) - int(fields["line"]) + 1


def python_functions(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield path, node.name, node.end_lineno - node.lineno + 1


def long_lines(path: pathlib.Path) -> list[str]:
    rows = path.read_text().splitlines()
    problems = [f"{name(path)}:{number}: {len(row.expandtabs(8))} columns"
                for number, row in enumerate(rows, 1) if len(row.expandtabs(8)) > COLUMNS]
    if len(rows) > (SUBJECT_LINES if name(path) in SUBJECTS else FILE_LINES):
        problems.append(f"{name(path)}: {len(rows)} lines")
    return problems


def needless_subjects() -> list[str]:
    problems = []
    for file, struct in SUBJECTS.items():
        path = ROOT / file
        texts = [each.read_text() for each in (path, *path.parent.glob("*.h"))] \
            if path.is_file() else [""]
        if len(texts[0].splitlines()) <= FILE_LINES:
            problems.append(f"SUBJECTS: {file} needs no more than {FILE_LINES} lines")
        elif not any(f"struct {struct} {{" in text for text in texts):
            problems.append(f"SUBJECTS: {file} and no header beside it define struct {struct}")
    return problems


def main() -> None:
    c_files, python_files = files(".c", ".cpp", ".h"), files(".py")
    functions = list(c_functions(c_files))
    sizes = sorted(lines for _, _, lines in functions)
    for path in python_files:
        functions += python_functions(path)
    problems = [f"{name(path)}: {title} has {lines} lines"
                for path, title, lines in functions if lines > FUNCTION_LINES]
    for path in c_files + python_files + files(".lua", ".sh"):
        problems += long_lines(path)
    problems += needless_subjects()
    finish(problems, f"{len(sizes)} C functions: median {statistics.median(sizes):.0f}, "
           f"p90 {sizes[len(sizes) * 9 // 10]}, longest {sizes[-1]} lines; "
           f"{len(c_files)} C files, longest "
           f"{max(len(path.read_text().splitlines()) for path in c_files)} lines")


main()
