"""Which file of the library defines a name, which files use it, and which files use one another."""
from __future__ import annotations

import pathlib
import re

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NAME = r"(?<!struct )(?<!enum )(?<!union )\b(lk_\w+)"
ANY_NAME = r"(?<!struct )(?<!enum )(?<!union )(?<!\.)(?<!->)\b([a-z]\w+)"
# A function or an object that other files can see begins in the first column, and not with static.
DEFINED = (r"^(?:__attribute__\(\(\w+\)\) )?(?!static\b|extern\b|typedef\b|else\b|return\b)[a-z]"
           r"[^;{{}}()=#]*?{name}(?:\([^;{{}}]*\)\s*\{{|(?:\[\w*\])*\s*[=;])")


def code_of(path: pathlib.Path) -> str:
    """The text without comments and strings, its lines where they were."""
    return NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())


def definitions(paths: list[pathlib.Path], name: str = NAME) -> dict[str, pathlib.Path]:
    """The C file that defines each name. `name`: ANY_NAME where names have no prefix."""
    defined = re.compile(DEFINED.format(name=name), re.MULTILINE)
    return {symbol: path for path in paths if path.suffix == ".c"
            for symbol in defined.findall(code_of(path))}


def users(paths: list[pathlib.Path], defined: dict[str, pathlib.Path],
          name: str = NAME) -> dict[str, set[pathlib.Path]]:
    """The files that use each name, beside the one that defines it. A header only declares."""
    found: dict[str, set[pathlib.Path]] = {symbol: set() for symbol in defined}
    for path in paths:
        if path.suffix != ".h":
            for symbol in set(re.findall(name, code_of(path))) & defined.keys():
                found[symbol] |= {path} - {defined[symbol]}
    return found


def circles(paths: list[pathlib.Path], name: str = NAME) -> list[list[pathlib.Path]]:
    """The files of which each leads to each other by uses, and back: the largest circle first."""
    defined = definitions(paths, name)
    uses: dict[pathlib.Path, set[pathlib.Path]] = {path: set() for path in paths}
    for symbol, there in users(paths, defined, name).items():
        for path in there:
            uses[path].add(defined[symbol])
    reach = {path: reachable(path, uses) for path in paths}
    found = {tuple(sorted(other for other in reach[path] if path in reach[other]))
             for path in paths if path in reach[path]}
    return sorted(map(list, found), key=lambda circle: (-len(circle), circle))


def reachable(start: pathlib.Path,
              uses: dict[pathlib.Path, set[pathlib.Path]]) -> set[pathlib.Path]:
    found: set[pathlib.Path] = set()
    left = list(uses[start])
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += uses[path]
    return found
