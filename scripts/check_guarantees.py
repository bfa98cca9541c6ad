#!/usr/bin/env python3
"""docs/guarantees.md agrees with the public headers, and with docs/deployments.md: what a line
quotes stands in the comment or below the heading that it names, the test that it names exists, and
each public function, each paragraph of a header that opens with capitals and each heading has a
line. The table of failures has a verdict for each deployment, and a test
in each line. Nothing on the page is said twice. The tests that docs/metrics.md and tests/README.md
name exist, too.
usage: check_guarantees.py BUILD
"""
from __future__ import annotations

import re

from tree import ROOT, files, finish

PAGE = ROOT / "docs" / "guarantees.md"
PROMISING = ROOT / "docs" / "deployments.md"
OTHER_PAGES = ("docs/metrics.md", "tests/README.md")
COMMENT = re.compile(r"/\*(?! SPDX-)(.*?)\*/", re.DOTALL)
HEADING = re.compile(r"^##+ (.*)$", re.MULTILINE)
MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|`|\*\*")
FUNCTION = re.compile(r"\s*(?:LK_API|static inline)\b[^;(]*?\b(lk_\w+)\s*\(")
TITLE = re.compile(r"(?:A |(?!NULL)[A-Z][A-Z'-]{2,}\b)(?:,? ?(?:A(?= )|[A-Z][A-Z'-]+)\b)*")
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| `([^|:`]+): (\w*)` \|$", re.MULTILINE)

TEST = re.compile(r"`([^`:]+): (\w+)`")
BLOCK = re.compile(r"\n(?=\s*\n|\s*- |\s*\d\. |\||#)")
VERDICT = re.compile(r"(?:no|–|\*\*(?:yes|most)\*\*)(?: \((\d)\))?")
DEPLOYMENTS = 5


def plain(comment: str) -> str:
    return " ".join(re.sub(r"^\s*\* ?", "", comment, flags=re.MULTILINE).split())


def paragraphs(comment: str) -> list[str]:
    lines = re.sub(r"^ *\* ?", "", comment, flags=re.MULTILINE)
    return [part.strip() for part in re.split(r"\n\s*\n", lines)]


def promises(header: str) -> dict[str, str]:
    """By name: the comment of each function, and each paragraph that opens with capitals."""
    found = {}
    for match in COMMENT.finditer(header):
        function = FUNCTION.match(header, match.end())
        if function:
            found[function.group(1)] = plain(match.group(1))
        where = ""
        for paragraph in paragraphs(match.group(1)):
            title = TITLE.match(paragraph)
            if title and len(title.group()) > 3:
                where = title.group()
            if where:
                found[where] = f"{found.get(where, '')} {' '.join(paragraph.split())}"
    return found


def below_headings(page: str) -> dict[str, str]:
    """By heading: the text below it, without marks."""
    _, *parts = HEADING.split(page)
    return {title: " ".join(MARKUP.sub(r"\1", text).split())
            for title, text in zip(parts[::2], parts[1::2])}


def has_test(place: str, test: str) -> bool:
    paths = [ROOT / "tests" / f"{place}{suffix}" for suffix in (".c", ".py")]
    return any(path.is_file() and re.search(rf"\b{test}\b", path.read_text()) for path in paths)


def compare(source: str, told: dict[str, str], rows: list[tuple[str, ...]]) -> list[str]:
    problems = []
    for where, promise, place, test in rows:
        if " ".join(promise.split()) not in told.get(where, ""):
            problems.append(f"{source}: {where} does not say: {promise}")
        if not test or not has_test(place, test):
            problems.append(f"{source}: {where}: tests/{place} has no {test}")
    missing = sorted(set(told) - {row[0] for row in rows})
    return problems + [f"{source}: nothing of {where} is in docs/guarantees.md"
                       for where in missing]


def failures(section: str) -> tuple[int, list[str]]:
    """How many lines the table of failures has, and what is wrong with them."""
    notes, problems = re.findall(r"^(\d)\. ", section, re.MULTILINE), []
    rows = [line.strip("| ").split(" | ") for line in section.splitlines()
            if line.startswith("| ") and not line.startswith("| failure |")]
    for failure, *cells in rows:
        verdicts = [VERDICT.fullmatch(cell) for cell in cells[:DEPLOYMENTS]]
        tests = TEST.findall(cells[-1])
        if len(cells) != DEPLOYMENTS + 2 or not all(verdicts):
            problems.append(f"{failure}: the verdicts are not no, **yes**, **most** or –")
        elif any(match[1] and match[1] not in notes for match in verdicts):
            problems.append(f"{failure}: there is no such note")
        if not tests or TEST.sub("", cells[-1]).strip(", "):
            problems.append(f"{failure}: no tests: {cells[-1]}")
        problems += [f"{failure}: tests/{place} has no {test}"
                     for place, test in tests if not has_test(place, test)]
    if not rows:
        problems.append("docs/guarantees.md: there is no table of failures")
    return len(rows), problems


def of_other_pages() -> list[str]:
    return [f"{page}: tests/{place} has no {test}" for page in OTHER_PAGES
            for place, test in TEST.findall((ROOT / page).read_text())
            if not has_test(place, test)]


def doubled(page: str) -> list[str]:
    """Paragraphs and items that the page has twice, and lines that a header has twice."""
    problems, told = [], set()
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        lines = set()
        for block in BLOCK.split(section):
            text = " ".join(block.split()).rstrip(".;,")
            seen = lines if text.startswith("|") else told
            if text and text in seen and not text.startswith(("| where ", "|---")):
                problems.append(f"docs/guarantees.md: stands there twice: {text[:80]}")
            seen.add(text)
    return problems


def main() -> None:
    page = PAGE.read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL))
    failing, problems = failures(sections.pop("Failures and deployments", ""))
    problems += doubled(page) + of_other_pages()
    count = failing
    told = {path.name: promises(path.read_text())
            for path in files(".h", under=("include/lockkeeper",))}
    told[PROMISING.name] = below_headings(PROMISING.read_text())
    for source, texts in told.items():
        rows = ROW.findall(sections.pop(source, ""))
        problems += compare(source, texts, rows)
        count += len(rows)
    problems += [f"docs/guarantees.md: nothing is promised by {name}" for name in sections]
    lines = len(re.findall(r"^\| (?!where \||failure \|)", page, re.MULTILINE))
    if lines != count:
        problems.append(f"docs/guarantees.md: {lines - count} lines of tables are not understood")
    finish(problems, f"{count - failing} promises, {failing} failures")


main()
