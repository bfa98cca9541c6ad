#!/usr/bin/env python3
"""Writes pages of section 3 from the public headers, which stay the only source: one page a header.

usage: make_manual.py DATE_FROM FOLDER HEADER...   (the page DATE_FROM has the date of the manual)
       make_manual.py --names HEADER...            (each page and the functions on it)

A header begins with a comment, which becomes the description. Paragraphs, lists with "- " and
indented lines stay what they are; words in capitals at the start of a paragraph are a heading. Then
come types and constants, which are copied, and functions, each with a comment.
"""
from __future__ import annotations

import pathlib
import re
import sys
import textwrap
from typing import NamedTuple

HEAD = re.compile(r"\A/\* SPDX[^\n]*\n/\*(.*?)\*/", re.DOTALL)
FUNCTION = re.compile(r"(/\*(?:(?!\*/).)*\*/)?\s*^(LK_API|static inline)\b([^;(]*?)"
                      r"\b(lk_\w+)\s*\(([^;{]*)\)\s*(?:;|\{.*?^\})\n", re.MULTILINE | re.DOTALL)
NOT_TYPES = re.compile(r"^(?:#include .*|#(?:ifndef|define) LOCKKEEPER_\w*H|"
                       r"LK_(?:BEGIN|END)_DECLS)\n", re.MULTILINE)
LEAD = re.compile(r"([A-Z][A-Z0-9 ,/'-]*[A-Z](?: \(\w+\))?)([.:]?)(?=\s|$)")
CHARACTERS = {"\\": "\\e", "…": "...", "µ": "\\(mc", "→": "\\(->", "─": "-", "▲": "^", "▶": ">"}
WIDTH = 78


class Function(NamedTuple):
    name: str
    returns: str
    parameters: list[str]
    comment: str
    inline: bool


class Header(NamedTuple):
    page: str     # lockkeeper_lock
    include: str  # lockkeeper/lock.h
    about: str
    types: str
    functions: list[Function]


def bare(comment: str) -> str:
    """A comment's lines, without what makes them one."""
    inner = comment.removeprefix("/*").removesuffix("*/")
    lines = [re.sub(r"^ \*( |$)", "", line).rstrip() for line in inner.strip("\n").split("\n")]
    return textwrap.dedent("\n".join([lines[0].strip(), *lines[1:]])).strip("\n")


def parameters(text: str) -> list[str]:
    words = " ".join(text.split())
    return re.split(r", (?![^(]*\))", words)


def functions(text: str) -> list[Function]:
    return [Function(name, " ".join(returns.split()), parameters(words), bare(comment or ""),
                     kind == "static inline")
            for comment, kind, returns, name, words in FUNCTION.findall(text)]


def read(path: pathlib.Path) -> Header:
    text = path.read_text()
    head = HEAD.match(text)
    if not head:
        sys.exit(f"{path}: does not begin with its licence and a comment")
    body = text[head.end():].rpartition("#endif")[0]
    types = NOT_TYPES.sub("", FUNCTION.sub("", body))
    types = re.sub(r"\n{3,}", "\n\n", types).strip("\n")
    outer = path.parent.name == "include"
    return Header("lockkeeper" if outer else f"lockkeeper_{path.stem}",
                  path.name if outer else f"lockkeeper/{path.name}", bare(head[1]), types,
                  functions(body))


def escaped(text: str) -> str:
    return "".join(CHARACTERS.get(character, character) for character in text)


def lines(text: str) -> list[str]:
    """Filled text: each sentence begins a line, and none is a request."""
    made = []
    for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z(\"`0-9])", " ".join(text.split())):
        marked = re.sub(r"\b(\w+)(?=\(\))", r"\\fB\1\\fR", escaped(sentence))
        made += textwrap.wrap(marked, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [("\\&" if line[:1] in ".'" else "") + line for line in made]


def literal(block: list[str]) -> list[str]:
    shown = textwrap.dedent("\n".join(line.expandtabs(8) for line in block)).strip("\n").split("\n")
    return [".Bd -literal -offset indent",
            *[("\\&" if line[:1] in (".", "'") else "") + escaped(line) for line in shown], ".Ed"]


def paragraph(text: str, begins: str) -> list[str]:
    lead = LEAD.match(text)
    if not lead or len(lead[1]) < 4 or lead[1].startswith("LK_"):
        return [begins, *lines(text)]
    rest = text[lead.end():]
    if not rest:
        return [f".Ss {lead[1]}"]
    shown = lines(rest)
    return [begins, f".Sy {lead[1]} {lead[2]}".rstrip(), *shown]


def chunks(text: str) -> list[tuple[str, list[str]]]:
    """Neighbouring lines that are of one sort: text, a list's item, or literal."""
    made: list[tuple[str, list[str]]] = []
    sort = ""
    for line in text.split("\n"):
        if not line:
            sort = "" if sort != "literal" else "gap"
        elif line.startswith("- "):
            sort = "item"
            made.append((sort, [line[2:]]))
        elif line.startswith("  ") and sort == "item":
            made[-1][1].append(line)
        elif line.startswith("  "):
            if sort == "gap":
                made[-1][1].append("")
            if sort in ("gap", "literal"):
                made[-1][1].append(line)
            else:
                made.append(("literal", [line]))
            sort = "literal"
        elif sort == "text":
            made[-1][1].append(line)
        else:
            sort = "text"
            made.append((sort, [line]))
    return made


def described(text: str) -> list[str]:
    """A comment as mdoc."""
    made: list[str] = []
    listing = False
    for sort, block in chunks(text):
        if listing and sort != "item":
            made.append(".El")
            listing = False
        if sort == "literal":
            made += literal(block)
        elif sort == "item":
            made += [] if listing else [".Bl -bullet -compact"]
            made += [".It", *lines("\n".join(block))]
            listing = True
        else:
            fresh = not made or made[-1].startswith(".Ss")
            shown = paragraph("\n".join(block), ".Pp")
            made += shown[1:] if fresh and shown[0] == ".Pp" else shown
    return made + [".El"] * listing


def declared(function: Function) -> list[str]:
    given = [f'.Fa "{escaped(one)}"' for one in function.parameters]
    return [f'.Ft "{function.returns}"', f".Fo {function.name}", *given, ".Fc"]


def title(header: Header) -> str:
    """The first sentence, as apropos(1) shows it."""
    first = re.split(r"\.(?:\s|$)", " ".join(header.about.split()), maxsplit=1)[0]
    first = first.split(": ")[-1] if first.startswith("Lockkeeper: ") else first
    return escaped(first[0].lower() + first[1:])


def page(header: Header, date: str) -> str:
    names = [function.name for function in header.functions] or [header.page]
    others = ["lockkeeper 1"] + (["lockkeeper 3"] if header.page != "lockkeeper" else [])
    made = [f'.\\" Made from {header.include} by scripts/make_manual.py; do not edit.', date,
            f".Dt {header.page.upper()} 3", ".Os", ".Sh NAME",
            *[f".Nm {name} ," for name in names[:-1]], f".Nm {names[-1]}", f".Nd {title(header)}",
            ".Sh SYNOPSIS", f".In {header.include}"]
    for function in header.functions:
        made += declared(function)
    made += [".Sh DESCRIPTION", *described(header.about)]
    if header.types:
        made += [".Ss Types and constants", *literal(header.types.split("\n"))]
    for function in header.functions:
        made += [f".Ss {function.name}", *described(function.comment)]
    made += [".Sh SEE ALSO", " ,\n".join(f".Xr {other}" for other in others)]
    return "\n".join(made) + "\n"


def main() -> None:
    if sys.argv[1] == "--names":
        for header in map(read, map(pathlib.Path, sys.argv[2:])):
            print(header.page, *[function.name for function in header.functions])
        return
    date = next(line for line in pathlib.Path(sys.argv[1]).read_text().split("\n")
                if line.startswith(".Dd"))
    for header in map(read, map(pathlib.Path, sys.argv[3:])):
        pathlib.Path(sys.argv[2], f"{header.page}.3").write_text(page(header, date))


if __name__ == "__main__":
    main()
