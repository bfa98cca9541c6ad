"""The C functions that send the scripts, from the scripts' leading comments.

    --   KEYS[1]  key: the lock's hash
    --   ARGV[1]  keep_ms: for how long
    --   ARGV[2]  field: owner field
    --   ARGV[3]  channel (not read)
    --
    -- Sent by lk__lock_keep(target, field, keep_ms).

Each line names what it is filled with, and says the rest for a reader. "(not read)": the script has
no use for it. A name is one of these, the first that fits:

- A function words_NAME() in src/sync/script.c, which writes the word, or several of them; its
  parameters are resolved as names, too.
- A parameter of the function that sends the script.
- A member of its first parameter, where that is a struct.
- "prefix:{key}": the key that is derived from the lock's.

"KEYS[1] … KEYS[n]" is written for each of `count`: of the members of the first parameter, where
that is an array, or with the index `i`. "ARGV[4] … ARGV[7]" is written by one function.
"""
from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

import lua_scripts

LINE = re.compile(r"--   (KEYS|ARGV)\[([^\]]+)\](?: …(?: \1\[([^\]]+)\])?)?\s+(.*)")
NAMES = re.compile(r"([\w:{}]+?(?:, [\w:{}]+?)*)( \(not read\))?(?:: .*)?")
SENT_BY = re.compile(r"-- Sent by (lk__\w+)\((\w+(?:, \w+)*)\)\.")
WRITER = re.compile(
    r"^(?:static )?void ((?:lk__)?words_(\w+))\(struct lk__words \*words((?:,[^)]*)?)\)",
    re.MULTILINE)
DERIVED = re.compile(r"(\w+):\{key\}")
ARRAYS = {"renewals": "struct lk__renewal", "keys": "struct lk__multi_key"}
STRUCTS = {"wanted": "struct lk__try", "change": "struct lk__change", **ARRAYS}
TYPES = {"target": "const struct lk__target *", "count": "size_t ",
         "ids": "const unsigned char *", "value": "const void *",
         "term": "uint64_t ", "version": "int64_t ", "value_size": "size_t ",
         **{name: f"const {type_} *" for name, type_ in STRUCTS.items()}}


@dataclass(frozen=True)
class Line:
    """One that documents a word, or those of each element of an array."""
    table: str
    first: str
    last: str | None
    names: list[str]
    source: lua_scripts.Line

    @property
    def each(self) -> bool:
        return self.last is not None and "n" in self.last


@dataclass(frozen=True)
class Call:
    """The function that sends a script."""
    script: str
    function: str
    parameters: list[str]
    lines: list[Line]

    def declaration(self) -> str:
        parameters = ", ".join(f"{type_of(name)}{name}" for name in self.parameters)
        return f"struct lk__request *{self.function}({parameters})"

    def value(self, name: str, line: Line) -> str:
        first = self.parameters[0]
        if line.each and first in ARRAYS:
            return f"{first}[i].{name}"
        if name in self.parameters or (line.each and name == "i"):
            return name
        if first not in STRUCTS:
            raise line.source.error(f"{name}: neither a function writes that word, nor is it a "
                                    f"parameter of {self.function}")
        return f"{first}->{name}"

    def word(self, name: str, line: Line, writers: dict[str, tuple[str, list[str]]]) -> str:
        derived = DERIVED.fullmatch(name)
        if derived:
            function, _ = writers["derived"]
            return f'{function}(&words, "{derived[1]}", {self.value("target", line)});'
        function, wanted = writers.get(name, ("words_value", [name]))
        values = [self.value(each, line) for each in wanted]
        return f"{function}({', '.join(['&words', *values])});"

    def text(self, writers: dict[str, tuple[str, list[str]]]) -> str:
        body = ["struct lk__words words = {0};"]
        if "count" in self.parameters:
            body.append("assert(count > 0);")
        for table in ("KEYS", "ARGV"):
            for line in (line for line in self.lines if line.table == table):
                words = "\n\t\t".join(self.word(name, line, writers) for name in line.names)
                body.append(f"for (size_t i = 0; i < count; i++) {{\n\t\t{words}\n\t}}"
                            if line.each else words)
            if table == "KEYS":
                body.append("size_t key_count = words.count;")
        script = f"LK__SCRIPT_{self.script.upper()}"
        body.append(f"return lk__words_script(&words, {script}, key_count);")
        return f"{self.declaration()}\n{{\n\t" + "\n\t".join(body) + "\n}\n"


def type_of(name: str) -> str:
    return TYPES.get(name, "int64_t " if name.endswith("_ms") else "const char *")


def lines_of(head: list[lua_scripts.Line]) -> list[Line]:
    """The documented words, in order."""
    found = []
    for source in head:
        match = LINE.match(source.text)
        names = match and NAMES.fullmatch(match[4])
        if match and not names:
            raise source.error("a word is documented as NAME: …")
        if match:
            found.append(Line(match[1], match[2], match[3], names[1].split(", "), source))
    return found


def call_of(script: str, head: list[lua_scripts.Line]) -> Call | None:
    """None where C fills the words by hand."""
    sent = next((match for line in head if (match := SENT_BY.fullmatch(line.text))), None)
    if not sent:
        return None
    lines = lines_of(head)
    for table in ("KEYS", "ARGV"):
        check_order([line for line in lines if line.table == table])
    return Call(script, sent[1], sent[2].split(", "), lines)


def check_order(lines: list[Line]) -> None:
    """Each word is filled in its turn: nothing is left out, or stands twice."""
    following = "1"
    for line in lines:
        if line.first != following and (following or line.first.isdigit()):
            raise line.source.error(f"{line.table}[{following or 'n+1'}] should stand here")
        following = "" if line.each else str(int(line.last or line.first) + 1)


def indexes_of(head: list[lua_scripts.Line], table: str) -> set[int] | None:
    """The documented indexes that the script reads; None: more than are numbered."""
    found: set[int] = set()
    for source in head:
        match = LINE.match(source.text)
        if not match or match[1] != table or "(not read)" in match[4]:
            continue
        if "…" in source.text[:match.start(4)] and not (match[3] or "").isdigit():
            return None
        found |= set(range(int(match[2]), int(match[3] or match[2]) + 1))
    return found


def writers_of(path: pathlib.Path) -> dict[str, tuple[str, list[str]]]:
    """The functions that write a word: its name → the function, and the names of what it takes."""
    return {name: (function, re.findall(r"(\w+)(?=,|$)", parameters))
            for function, name, parameters in WRITER.findall(path.read_text())}


def header(calls: list[Call]) -> str:
    structs = sorted({type_[:type_.rindex(" ")].removeprefix("const ") for type_ in TYPES.values()
                      if "struct" in type_})
    return ("/* Made by scripts/embed_lua.py from the .lua files; do not edit. */\n"
            "#ifndef LK__SCRIPT_CALLS_H\n#define LK__SCRIPT_CALLS_H\n\n"
            "#include <stddef.h>\n#include <stdint.h>\n\nstruct lk__request;\n" +
            "".join(f"{struct};\n" for struct in structs) + "\n" +
            "".join(f"{call.declaration()};\n" for call in calls) + "\n#endif\n")


def code(calls: list[Call], writers: dict[str, tuple[str, list[str]]]) -> str:
    return ("/* Made by scripts/embed_lua.py from the .lua files; do not edit. */\n\n" +
            "\n".join(call.text(writers) for call in calls))
