#!/usr/bin/env python3
"""The generated pages are fresh, every public function has a comment that says since when and, if
it can fail, with what; links lead somewhere, quoted files are quoted rightly, and what the pages
say of the interface is in the headers.
usage: check_docs.py BUILD
"""
from __future__ import annotations

import pathlib
import re
import sys

import make_docs
from tree import FOLDERS, ROOT, files, finish, name

DECLARATION = re.compile(r"(/\*(?:(?!\*/).)*\*/)?\s*^(?:LK_API|static inline)\b[^;(]*?"
                         r"\b(lk_\w+)\s*\(([^;{]*)\)\s*[;{]", re.MULTILINE | re.DOTALL)
FAILURES = re.compile(r"\bErrors\b|\bThe same\b")
INTERFACE = re.compile(r"\b(?:lk_[a-z]\w*|LK_[A-Z]\w*)\b")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAMED = re.compile(r"(?<![\w/.>-])(?:\.\./)*((?:[\w-]+/)*[\w-]+\.(?:c|h|def|lua|py))\b(?![\w(*-])")
CALLED = re.compile(r"\b(lk_\w+)\(\)")
CODE = (*FOLDERS, "findings", "python")
# What the build makes, or is not ours.
ELSEWHERE = {"scripts.h", "script_calls.h", "stdio.h", "sys/sdt.h"}
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)[^)]*\)")


def stale(build: pathlib.Path) -> list[str]:
    problems = []
    for page, text in make_docs.pages(build).items():
        path = ROOT / page
        if not path.is_file() or path.read_text() != text:
            problems.append(f"{page}: not what the library's tables say (make docs)")
    return problems


def releases() -> dict[str, str]:
    """The release that brought each exported function, by the library's map."""
    nodes = re.findall(r"^LOCKKEEPER_([\d.]+) \{(.*?)^\}",
                       (ROOT / "src/lockkeeper.map").read_text(), re.MULTILINE | re.DOTALL)
    return {function: release for release, names in nodes
            for function in re.findall(r"\b(lk_\w+);", names)}


def undocumented(path: pathlib.Path, brought: dict[str, str]) -> list[str]:
    problems = []
    for comment, function, parameters in DECLARATION.findall(path.read_text()):
        since = re.search(r"Since\s+(?:\*\s+)?(\d+\.\d+)", comment)
        if not since:
            problems.append(f"{name(path)}: {function} has no comment that says since when")
        elif brought.get(function, since[1]) != since[1]:
            problems.append(f"{name(path)}: {function} says since {since[1]}, and "
                            f"src/lockkeeper.map {brought[function]}")
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


def unknown(pages: list[pathlib.Path], headers: list[pathlib.Path]) -> list[str]:
    """Names of the interface that no header has. Two underscores: a name inside the library."""
    words = set(re.findall(r"\w+", " ".join(path.read_text() for path in headers)))
    return [f"{name(path)}: no header has {word}" for path in pages
            for word in sorted(set(INTERFACE.findall(path.read_text())) - words)]


def unnamed_codes() -> list[str]:
    """The page for bindings says of each code what it becomes."""
    page = (ROOT / "docs/bindings.md").read_text()
    codes = re.findall(r"X\((LK_E\w+),", (ROOT / "include/lockkeeper/error.h").read_text())
    return [f"docs/bindings.md: does not name {code}" for code in codes
            if not re.search(rf"^\|.*`{code}`", page, re.MULTILINE)]


def gone(path: pathlib.Path, ends: set[str]) -> list[str]:
    """Files that a page, or a comment of the code, names by a path or its end, and that are not."""
    text = path.read_text()
    said = text if path.suffix == ".md" else "\n".join(COMMENT.findall(text))
    return [f"{name(path)}: there is no {file}"
            for file in sorted(set(NAMED.findall(said)) - ends - ELSEWHERE)]


def gone_functions(path: pathlib.Path, known: set[str]) -> list[str]:
    """Functions of the library that a page, or a comment of the code, names, and that are not."""
    text = path.read_text()
    said = text if path.suffix == ".md" else "\n".join(COMMENT.findall(text))
    return [f"{name(path)}: there is no {function}()"
            for function in sorted(set(CALLED.findall(said)) - known)]


def words_of_code(build: pathlib.Path) -> set[str]:
    paths = files(".c", ".h", ".def", ".hpp", under=(*CODE, "cpp"))
    made = list((build / "src").glob("script_calls.*"))
    return {word for path in paths + made
            for word in re.findall(r"\w+", COMMENT.sub("", path.read_text()))}


def unlisted() -> list[str]:
    index = ROOT / "docs/README.md"
    return [f"{name(index)}: does not lead to {page.name}"
            for page in sorted(index.parent.glob("*.md"))
            if page != index and f"]({page.name})" not in index.read_text()]


def path_ends() -> set[str]:
    paths = [name(path).split("/") for path in files(".c", ".h", ".def", ".lua", ".py", under=CODE)]
    return {"/".join(path[start:]) for path in paths for start in range(len(path))}


def main() -> None:
    pages = sorted(ROOT.glob("*.md")) + files(".md", under=("docs", "cpp", "python", "bench",
                                                            "tests"))
    headers = files(".h", under=("include",))
    problems = stale(pathlib.Path(sys.argv[1]))
    brought = releases()
    for header in headers:
        problems += undocumented(header, brought)
    for page in pages:
        problems += dead_links(page) + quotes(page)
    problems += unlisted()
    ends = path_ends()
    known = words_of_code(pathlib.Path(sys.argv[1]))
    for path in pages + files(".c", ".h", ".def", under=("include", "src", "cli")):
        problems += gone(path, ends)
        if path.name != "CHANGELOG.md":  # that page names calls that are gone
            problems += gone_functions(path, known)
    told = files(".md", under=("docs", "cpp")) + [ROOT / "README.md", ROOT / "SECURITY.md"]
    problems += unknown(told, headers)
    problems += unnamed_codes()
    finish(problems, f"{len(headers)} headers, {len(pages)} pages")


main()
