#!/usr/bin/env python3
"""The generated pages are fresh, every public function has a comment that says since when and, if
it can fail, with what; links lead somewhere, and quoted files are quoted rightly.
usage: check_docs.py BUILD
"""
from __future__ import annotations

import pathlib
import re
import sys

import make_docs
from tree import ROOT, files, finish, name

DECLARATION = re.compile(r"(/\*(?:(?!\*/).)*\*/)?\s*^(?:LK_API|static inline)\b[^;(]*?"
                         r"\b(lk_\w+)\s*\(([^;{]*)\)\s*[;{]", re.MULTILINE | re.DOTALL)
FAILURES = re.compile(r"\bErrors\b|\bThe same\b")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)[^)]*\)")


def stale(build: pathlib.Path) -> list[str]:
    problems = []
    for page, text in make_docs.pages(build).items():
        path = ROOT / page
        if not path.is_file() or path.read_text() != text:
            problems.append(f"{page}: not what the library's tables say (make docs)")
    return problems


def undocumented(path: pathlib.Path) -> list[str]:
    problems = []
    for comment, function, parameters in DECLARATION.findall(path.read_text()):
        if not re.search(r"Since\s+(\*\s+)?\d", comment):
            problems.append(f"{name(path)}: {function} has no comment that says since when")
        if "lk_error *" in parameters and not FAILURES.search(comment):
            problems.append(f"{name(path)}: {function} does not say how it fails")
    return problems


def dead_links(path: pathlib.Path) -> list[str]:
    return [f"{name(path)}: leads nowhere: {target}" for target in LINK.findall(path.read_text())
            if not (path.parent / target).exists()]


def quotes(path: pathlib.Path) -> list[str]:
    """A block under <!-- FILE --> is that file, to the letter."""
    return [f"{name(path)}: the block is not {source}" for source, block in
            re.findall(r"<!-- (\S+) -->\n```\w*\n(.*?)```", path.read_text(), re.DOTALL)
            if (ROOT / source).read_text() != block]


def main() -> None:
    pages = sorted(ROOT.glob("*.md")) + files(".md", under=("docs", "bench", "tests"))
    headers = files(".h", under=("include",))
    problems = stale(pathlib.Path(sys.argv[1]))
    for header in headers:
        problems += undocumented(header)
    for page in pages:
        problems += dead_links(page) + quotes(page)
    finish(problems, f"{len(headers)} headers, {len(pages)} pages")


main()
