"""Reads src/sync/foreign/foreign.def: the locks of other libraries."""
from __future__ import annotations

import dataclasses
import re

from tree import ROOT

PATH = ROOT / "src/sync/foreign/foreign.def"
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r"^LK__FOREIGN\(" + STRING + ", " + STRING + r", (\w+), (\w+), " +
                 ", ".join([STRING] * 8) + r"\)$", re.MULTILINE)
ALSO = re.compile(r"^LK__FOREIGN_ALSO\(" + STRING + r", (\w+), (\w+), " +
                  ", ".join([STRING] * 3) + r"\)$", re.MULTILINE)
ITEM = re.compile(r"%(\*|[1uedpTNtwz]|[habr]\d+)|\*")
WORDS = {"u": "a UUID", "1": "32 hex digits, a UUID of version 1", "d": "digits", "z": "0 or 1",
         "w": "letters or digits", "t": "ms since 1970", "e": "seconds since 1970", "T": "time",
         "N": "host", "p": "a pickle", "h": "{} hex digits", "a": "{} letters or digits",
         "b": "{} of base64", "r": "{} random bytes"}


@dataclasses.dataclass
class Row:
    library: str
    versions: str
    kind: str
    certainty: str
    key: str
    value: str
    told: str
    notify: str
    both: str
    ours: str
    theirs: str
    beware: str

    @property
    def name(self) -> str:
        """The library as the command shows it."""
        return self.library.replace("`", "")


def rows() -> list[Row]:
    text = PATH.read_text()
    found = [Row(*match.groups()) for match in ROW.finditer(text)]
    assert len(found) == text.count("\nLK__FOREIGN("), "a row has another form"
    return found


def also() -> list[Row]:
    """The keys that users of a library configure; without what runs would tell."""
    text = PATH.read_text()
    found = [Row(library, "", kind, certainty, key, value, told, "", "", "", "", "")
             for library, kind, certainty, key, value, told in ALSO.findall(text)]
    assert len(found) == text.count("\nLK__FOREIGN_ALSO("), "a row has another form"
    return found


def in_words(form: str, star: str) -> str:
    """A form as people read it: its stars are `star`, its items in angle brackets."""
    def word(match: re.Match) -> str:
        item = match.group(1)
        if item is None:
            return star
        return "*" if item == "*" else f"<{WORDS[item[0]].format(item[1:])}>"
    return ITEM.sub(word, form)


def sample(form: str, stars: list[str], random) -> bytes:
    """Something of that form; `random` is random.Random."""
    stars = list(stars)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

    def some(characters: str, count: int) -> bytes:
        return "".join(random.choices(characters, k=count)).encode()

    def piece(item: str | None) -> bytes:
        if item is None:
            return stars.pop(0).encode()
        if item[0] in "hab":
            characters = {"h": "0123456789abcdef", "a": letters, "b": letters + "+/"}[item[0]]
            return some(characters, int(item[1:]))
        if item[0] == "r":
            return b"\xff\x00" + random.randbytes(int(item[1:]) - 2)
        return {
            "*": lambda: b"*",
            "u": lambda: b"-".join(some("0123456789abcdef", n) for n in (8, 4, 4, 4, 12)),
            "1": lambda: b"f2d5a6c0cb6311f0a1b20242ac110002",
            "d": lambda: b"7",
            "w": lambda: b"0a1b2c",
            "z": lambda: b"1",
            "t": lambda: b"1795751903123",
            "e": lambda: b"1795751903.3529074",
            "T": lambda: b"2026-11-27T03:12:11.123Z",
            "N": lambda: b"web-1",
            "p": lambda: b"\x80\x05\x95\x05\0\0\0\0\0\0\0\x8c\x011\x94.",
        }[item[0]]()

    made, at = b"", 0
    for match in ITEM.finditer(form):
        made += form[at:match.start()].encode() + piece(match.group(1))
        at = match.end()
    return made + form[at:].encode()
