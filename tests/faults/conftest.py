"""The matrix: `make check-all` runs the main faults, LOCKKEEPER_FAULTS=all runs every one.

Main are a message that is lost, a second copy that is refused or late, a copy that strays, a server
that is away, or that forgets its scripts. The others, with which the matrix takes about five times
as long, are silence and delay, each other word of refusal, a server that refuses everything from
then on, no memory, and no descriptors: `make check-faults`.
"""
from __future__ import annotations

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

WHICH = os.environ.get("LOCKKEEPER_FAULTS", "main")


@pytest.fixture(scope="session")
def matrix(request):
    """Works through the rows that are to be tested, several at a time."""
    from matrix import Matrix
    made = Matrix(WHICH)
    made.begin([item.callspec.params["operation"] for item in request.session.items
                if hasattr(item, "callspec")])
    yield made
    made.end()
