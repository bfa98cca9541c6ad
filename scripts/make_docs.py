#!/usr/bin/env python3
"""Writes docs/options.md and docs/errors.md from the library's own tables.

usage: make_docs.py BUILD [FOLDER]     (FOLDER: docs)
"""
from __future__ import annotations

import ctypes
import pathlib
import sys

from tree import ROOT

OPTIONS_HEAD = """# Options

Made from `src/conf/options.def` by `make docs`; do not edit.

`lk_config_set()`, the query of a URL (`redis://host?spin_us=0`), an environment variable or
`lockkeeper -o name=value` sets an option. A value that is invalid or out of range is refused with
its name and the reason, and nothing changes.

| option | environment | type | default | range | meaning |
|---|---|---|---|---|---|
"""

ERRORS_HEAD = """# Errors

Made from `include/lockkeeper/error.h` by `make docs`; do not edit.

A failed call says either *not done* or *unknown*. A code for *unknown* is marked *may be held*:
nobody holds the lock through this call, and the library releases any grant that the server may
have made. *Retryable*: the same call can succeed later without any change. *Fatal*: only a change
of arguments, rights or configuration can help. The `lk_error` that a call fills also names the
node, the command and the reason.

| code | value | meaning | retryable | fatal | may be held |
|---|---|---|---|---|---|
"""


class Option(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in (
        "name", "environment", "type", "default_value", "range", "description")]


def text(value: bytes | None) -> str:
    return (value or b"").decode().replace("|", "\\|")


def code(value: bytes | None) -> str:
    return f"`{text(value)}`" if value else ""


def options(library: ctypes.CDLL) -> str:
    library.lk_option_at.restype = ctypes.POINTER(Option)
    library.lk_option_at.argtypes = [ctypes.c_size_t]
    library.lk_option_count.restype = ctypes.c_size_t
    rows = []
    for index in range(library.lk_option_count()):
        row = library.lk_option_at(index).contents
        cells = [code(row.name), code(row.environment), text(row.type), code(row.default_value),
                 text(row.range), text(row.description)]
        rows.append(f"| {' | '.join(cells)} |\n")
    return OPTIONS_HEAD + "".join(rows)


def errors(library: ctypes.CDLL) -> str:
    library.lk_error_name.restype = library.lk_error_text.restype = ctypes.c_char_p
    rows = []
    number = -1
    while library.lk_error_name(number) != b"LK_E?":
        marks = " | ".join("yes" if ask(number) else "" for ask in (
            library.lk_error_is_retryable, library.lk_error_is_fatal, library.lk_error_maybe_held))
        rows.append(f"| {code(library.lk_error_name(number))} | {number} "
                    f"| {text(library.lk_error_text(number))} | {marks} |\n")
        number -= 1
    return ERRORS_HEAD + "".join(rows)


def pages(build: pathlib.Path) -> dict[str, str]:
    library = ctypes.CDLL(str(build / "src/liblockkeeper.so"))
    return {"options.md": options(library), "errors.md": errors(library)}


def main() -> None:
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs"
    for name, page in pages(pathlib.Path(sys.argv[1])).items():
        (folder / name).write_text(page)


if __name__ == "__main__":
    main()
