"""A plugin of pytest: which tests of its files one process runs.

    --chosen GLOB   only the tests (file::name, as in wire::test_*) that match one of these; one
                    that matches none is an error
    --part 2/4      of these about every fourth

It is loaded by name (`-p pytest_part`, with this folder in PYTHONPATH); see parts.py.
"""
from __future__ import annotations

import fnmatch
import re
import zlib

import pytest


def pytest_addoption(parser):
    parser.addoption("--chosen", action="append", default=[], metavar="GLOB")
    parser.addoption("--part", default="1/1", metavar="NUMBER/PARTS")


def matches(item, glob: str) -> bool:
    """`*` is the only sign that stands for others: names of cases have brackets."""
    name = f"{item.path.stem.removeprefix('test_')}::{item.name}"
    return fnmatch.fnmatchcase(name, re.sub(r"([\[?])", r"[\1]", glob))


def key(item) -> bytes:
    """What decides about its part: its name, since every second of a regular list may be the slow
    one; or its file and place, where tests share servers that take long to start."""
    place = item.callspec.params.get("place", "") if hasattr(item, "callspec") else ""
    shares = place or "standing" in item.fixturenames
    return (f"{item.path.stem}{place}" if shares else item.nodeid).encode()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    globs = config.getoption("chosen")
    for glob in globs:
        if not any(matches(item, glob) for item in items):
            raise pytest.UsageError(f"no test is called {glob}")
    number, _, parts = config.getoption("part").partition("/")
    kept = [item for item in items
            if (not globs or any(matches(item, glob) for glob in globs))
            and zlib.crc32(key(item)) % int(parts) == int(number) - 1]
    names = {item.nodeid for item in kept}
    dropped = [item for item in items if item.nodeid not in names]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept
