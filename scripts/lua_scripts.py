"""The Lua scripts of src/sync/<noun>/, with the pieces of src/sync/*.lua that they share.

A line of a script, or of a piece, stands for the text of a piece, and names what it gives:

    --include "late.lua"
    --include "time.lua" gives now_us

The leading comment of a piece says which names it needs ("-- Needs: lease, deadline") and which it
declares for those who include it ("-- Gives: now_us").
"""
from __future__ import annotations

import itertools
import pathlib
import re
from dataclasses import dataclass

FORM = re.compile(r'\s*--include "(\w+\.lua)"(?: gives (\w+(?:, \w+)*))?')
DECLARATION = re.compile(r"\s*local (?:function )?(\w+(?:, \w+)*)")


class ScriptError(Exception):
    """Where, and what is wrong there."""


@dataclass(frozen=True)
class Line:
    text: str
    path: pathlib.Path
    number: int

    def error(self, what: str) -> ScriptError:
        return ScriptError(f"{self.path}:{self.number}: {what}")

    def is_include(self) -> bool:
        return re.match(r"\s*--\s*include\b", self.text) is not None

    def is_comment(self) -> bool:
        return not self.text.strip() or self.text.lstrip().startswith("--")

    def declared(self) -> list[str]:
        found = DECLARATION.match(self.text)
        return found[1].split(", ") if found else []


def is_piece(path: pathlib.Path) -> bool:
    return path.parent.name == "sync"


def pieces_of(paths: list[pathlib.Path]) -> dict[str, pathlib.Path]:
    return {path.name: path for path in paths if is_piece(path)}


def split(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """The leading comment, and the rest."""
    head = list(itertools.takewhile(lambda line: line.is_comment() and not line.is_include(),
                                    lines))
    return head, lines[len(head):]


def expand(path: pathlib.Path, pieces: dict[str, pathlib.Path]) -> list[Line]:
    """The lines of a script, with those of pieces in the place of the includes."""
    lines: list[Line] = []
    paste(read(path), pieces, [path], lines)
    check_clashes(lines)
    return lines


def read(path: pathlib.Path) -> list[Line]:
    return [Line(text, path, number)
            for number, text in enumerate(path.read_text().splitlines(), 1)]


def paste(source: list[Line], pieces: dict[str, pathlib.Path], above: list[pathlib.Path],
          lines: list[Line]) -> None:
    """Adds the source to the lines. `above`: the files that are being read, the script first."""
    for line in source:
        if not line.is_include():
            lines.append(line)
            continue
        path, gives = parse(line, pieces)
        if path in above:
            circle = " > ".join(other.name for other in [*above, path])
            raise line.error(f"a circle of includes: {circle}")
        head, body = split(read(path))
        check_needs(line, path, promised(head, "Needs"), lines)
        start = len(lines)
        paste(body, pieces, [*above, path], lines)
        check_gives(line, path, gives, promised(head, "Gives"), lines[start:])


def parse(line: Line, pieces: dict[str, pathlib.Path]) -> tuple[pathlib.Path, list[str]]:
    form = FORM.fullmatch(line.text)
    if not form:
        raise line.error('an include has the form --include "NAME.lua" gives NAME, NAME')
    if form[1] not in pieces:
        raise line.error(f'no piece is called "{form[1]}"; there are {", ".join(sorted(pieces))}')
    return pieces[form[1]], form[2].split(", ") if form[2] else []


def promised(head: list[Line], word: str) -> list[str]:
    found = [re.fullmatch(rf"-- {word}: (\w+(?:, \w+)*)", line.text) for line in head]
    return [name for match in found if match for name in match[1].split(", ")]


def names_of(lines: list[Line]) -> set[str]:
    return {name for line in lines for name in line.declared()}


def check_needs(line: Line, path: pathlib.Path, needs: list[str], before: list[Line]) -> None:
    missing = [name for name in needs if name not in names_of(before)]
    if missing:
        raise line.error(f"{path.name} needs {', '.join(missing)}, which nothing declares before")


def check_gives(line: Line, path: pathlib.Path, said: list[str], gives: list[str],
                text: list[Line]) -> None:
    missing = [name for name in gives if name not in names_of(text)]
    if missing:
        raise line.error(f"{path.name} does not declare {', '.join(missing)}, which it gives")
    if said != gives:
        raise line.error(f"{path.name} gives {', '.join(gives) or 'nothing'}, "
                         f"not {', '.join(said) or 'nothing'}")


def check_clashes(lines: list[Line]) -> None:
    """A name belongs to one file; it may declare it in several blocks."""
    owners: dict[str, Line] = {}
    for line in lines:
        for name in line.declared():
            first = owners.setdefault(name, line)
            if first.path != line.path:
                raise line.error(f"declares {name}, as {first.path.name} does")
            if first == line and first is not line:
                raise line.error(f"is included twice: it declares {name}")


def text_of(path: pathlib.Path) -> str:
    """A script as a server can run it, found in its folder of the tree."""
    pieces = pieces_of(sorted(path.parent.parent.glob("*.lua")))
    return "".join(line.text + "\n" for line in expand(path, pieces))
