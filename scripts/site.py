#!/usr/bin/env python3
"""Writes the manuals as static HTML: the README, and all that its links reach in this tree.

usage: site.py FOLDER

A page of Markdown becomes a page, a public header one of the interface, a folder a list, another
file what it says; a picture is copied. Ends with 1 if a link leads nowhere. The search is
made by the browser alone (site/search.js), and all is readable without it.
"""
from __future__ import annotations

import html
import json
import os
import pathlib
import re
import shutil
import string
import sys
from typing import NamedTuple

import site_html
from site_html import Body
from tree import ROOT

INCLUDE = ROOT / "include" / "lockkeeper"
MANUAL = ROOT / "docs/man/lockkeeper.1"
# What the menu has beside the groups of docs/README.md.
INTERFACES = ("The interfaces", [INCLUDE, ROOT / "cpp", ROOT / "python", MANUAL])
ASSETS = ("style.css", "search.js")
PICTURES = (".svg", ".png")
PAGES_MAX = 1000  # a link out of what is meant for readers would reach the whole tree
INDEX = "search-index.js"
LINK = re.compile(r'\b(href|src)="([^"]*)"')
# What stands in a link or a heading is not made a link once more.
CODE = re.compile(r"<a .*?</a>|<h\d.*?</h\d>|<code([^>]*)>(.*?)</code>", re.DOTALL)
NAME = re.compile(r'(?<!")\b(?:lk|LK)_\w+\b')  # not an id=""
HEADING = re.compile(r'<h([1-4]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)


class Page(NamedTuple):
    target: str  # below the site's folder
    body: Body


def canonical(source: pathlib.Path) -> pathlib.Path:
    """A folder and its README are one page."""
    return source.parent if source.name == "README.md" else source


def target(source: pathlib.Path) -> str:
    path = source.relative_to(ROOT)
    if source.is_dir():
        return str(path / "index.html")
    if source.suffix in PICTURES:
        return str(path)
    if source.suffix == ".md" or source.parent == INCLUDE:
        return str(path.with_suffix(".html"))
    return f"{path}.html"


def read(source: pathlib.Path) -> Body:
    if source == INCLUDE:
        return site_html.headers(sorted(INCLUDE.glob("*.h")))
    if source.is_dir():
        page = source / "README.md"
        return site_html.markdown(page) if page.is_file() else site_html.listing(source)
    if source.suffix == ".md":
        return site_html.markdown(source)
    if source.parent == INCLUDE:
        return site_html.header(source)
    return site_html.manual(source) if source == MANUAL else site_html.plain(source)


def relative(to: str, page: str) -> str:
    return os.path.relpath(to, os.path.dirname(page) or ".")


class Site:
    def __init__(self) -> None:
        self.pages: dict[pathlib.Path, Page] = {}
        self.pictures: set[pathlib.Path] = set()
        self.problems: list[str] = []
        self.known: dict[str, str] = {}  # a name of the interface: where it is explained
        self.waiting = [ROOT]

    def reach(self, source: pathlib.Path) -> str:
        """Its target. It will be part of the site."""
        if source.suffix in PICTURES:
            self.pictures.add(source)
        elif source not in self.pages and source not in self.waiting:
            self.waiting.append(source)
        return target(source)

    def read_all(self) -> None:
        groups = menu_groups()
        for _, sources in groups:
            for source in sources:
                self.reach(source)
        for header in INCLUDE.glob("*.h"):
            place = target(header)
            self.known |= {name: f"{place}#{name}" for name in site_html.names(header)}
        while self.waiting:
            source = self.waiting.pop(0)
            if len(self.pages) >= PAGES_MAX:
                sys.exit(f"site.py: more than {PAGES_MAX} pages are reached")
            page = Page(target(source), read(source))
            self.pages[source] = page._replace(body=self.linked(source, page))

    def linked(self, source: pathlib.Path, page: Page) -> Body:
        base = source if source.is_dir() else source.parent
        text = CODE.sub(lambda found: self.code(found, base, page.target), page.body.html)
        text = LINK.sub(lambda found: self.link(found, source, base, page.target), text)
        return page.body._replace(html=text)

    def code(self, found: re.Match, base: pathlib.Path, page: str) -> str:
        """Names of the interface, and of a page, lead to where they are explained."""
        attributes, inner = found[1], found[2]
        if inner is None:
            return found[0]
        if inner.endswith(".md") and (place := ROOT / inner).is_file():
            return f'<a href="{os.path.relpath(place, base)}"><code>{inner}</code></a>'

        def name(word: re.Match) -> str:
            place = self.known.get(word[0])
            return f'<a class="name" href="/{place}">{word[0]}</a>' if place else word[0]
        return f"<code{attributes}>{NAME.sub(name, inner)}</code>"

    def link(self, found: re.Match, source: pathlib.Path, base: pathlib.Path, page: str) -> str:
        kind, where = found[1], html.unescape(found[2])
        if re.match(r"[a-z]+:|#", where):
            return found[0]
        path, mark, fragment = where.partition("#")
        if path.startswith("/"):  # from code(): a target
            return f'{kind}="{relative(path[1:], page)}{mark}{fragment}"'
        place = canonical(pathlib.Path(os.path.normpath(base / path)))
        if not place.exists() or not place.is_relative_to(ROOT):
            self.problems.append(f"{source.relative_to(ROOT)}: leads nowhere: {where}")
            return found[0]
        return f'{kind}="{relative(self.reach(place), page)}{mark}{fragment}"'

    def menu(self, current: pathlib.Path) -> str:
        here = self.pages[current].target
        rows = [f"<ul><li>{self.entry(ROOT, current, here)}</li></ul>"]
        for title, sources in menu_groups():
            rows.append(f"<h2>{html.escape(title)}</h2>\n<ul>")
            rows += [f"<li>{self.entry(source, current, here)}</li>" for source in sources]
            rows.append("</ul>")
        return "\n".join(rows)

    def entry(self, source: pathlib.Path, current: pathlib.Path, here: str) -> str:
        page = self.pages[source]
        now = ' aria-current="page"' if source == current else ""
        text = f'<a href="{relative(page.target, here)}"{now}>{page.body.title}</a>'
        if not now:
            return text
        parts = [f'<li><a href="#{mark}">{re.sub("<[^>]*>", "", title)}</a></li>'
                 for level, mark, title in HEADING.findall(page.body.html) if level == "2"]
        return text + (f"\n<ul>{''.join(parts)}</ul>" if len(parts) > 1 else "")

    def index(self) -> str:
        """What the search reads: pages, and their sections with all words."""
        pages, sections = [], []
        for number, page in enumerate(self.pages.values()):
            title = words(page.body.title)
            pages.append([page.target, title])
            pieces = re.split(r"(?=<h[1-4] id=)", page.body.html)
            for piece in pieces:
                head = HEADING.match(piece)
                mark, heading = (head[2], words(head[3])) if head else ("", title)
                text = words(piece[head.end():] if head else piece)
                if text or head:
                    sections.append([number, mark, heading, text])
        made = json.dumps({"pages": pages, "sections": sections}, ensure_ascii=False,
                          separators=(",", ":"))
        return f"window.lockkeeperIndex = {made};\n"

    def write(self, folder: pathlib.Path) -> None:
        template = string.Template((ROOT / "site/page.html").read_text())
        version = re.search(r'LK_VERSION "([^"]+)"', (INCLUDE / "version.h").read_text())[1]
        shutil.rmtree(folder, ignore_errors=True)
        for source, page in self.pages.items():
            up = relative(".", page.target)
            put(folder / page.target, template.substitute(
                title=page.body.title, root="" if up == "." else f"{up}/", version=version,
                body=page.body.html, menu=self.menu(source)))
        for picture in self.pictures:
            put(folder / target(picture), picture.read_bytes())
        for asset in ASSETS:
            put(folder / asset, (ROOT / "site" / asset).read_bytes())
        put(folder / INDEX, self.index())


def words(text: str) -> str:
    apart = re.sub(r"</?(?:p|li|ul|ol|td|th|tr|pre|h\d|div|dt|dd|section)\b[^>]*>", " ", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", apart)).split())


def put(path: pathlib.Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def menu_groups() -> list[tuple[str, list[pathlib.Path]]]:
    """The groups of docs/README.md, with the interfaces behind the first."""
    groups: list[tuple[str, list[pathlib.Path]]] = []
    for first in re.findall(r"^\| (.*?) \|", (ROOT / "docs/README.md").read_text(), re.MULTILINE):
        if title := re.match(r"\*\*(.*)\*\*$", first):
            groups.append((title[1], []))
        elif groups:
            groups[-1][1].extend(ROOT / "docs" / place
                                 for place in re.findall(r"\]\(([^)]*)\)", first))
    return [*groups[:1], INTERFACES, *groups[1:]]


def dead_marks(folder: pathlib.Path) -> list[str]:
    """Links within the site whose file, or whose place in it, is missing."""
    texts = {path: path.read_text() for path in folder.rglob("*.html")}
    marks = {path: set(re.findall(r'\bid="([^"]*)"', text)) for path, text in texts.items()}
    problems = []
    for path, text in texts.items():
        for _, where in LINK.findall(text):
            if re.match(r"[a-z]+:", where):
                continue
            file, _, mark = html.unescape(where).partition("#")
            place = pathlib.Path(os.path.normpath(path.parent / file)) if file else path
            if not place.is_file() or mark and mark not in marks.get(place, ()):
                problems.append(f"{path.relative_to(folder)}: leads nowhere: {where}")
    return problems


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    site = Site()
    site.read_all()
    site.write(folder)
    problems = site.problems or dead_marks(folder)
    print("\n".join(problems) if problems else f"{len(site.pages)} pages: {folder}/index.html")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
