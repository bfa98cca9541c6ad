"""Every request that the library sends, and what can go wrong with it.

One test is one operation of one kind: it is run without a fault first, and what it sent is the
list of requests; then each request with each fault (faults.py), judged in cells.py.
"""
from __future__ import annotations

import pytest

from operations import operations
from requests_seen import SCRIPTS, script_of

OPERATIONS = operations()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.title)
def test_operation(matrix, operation):
    problems = matrix.problems(operation)
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


ELSEWHERE = {"foreign_force_release"}
"""Inspection sends it, for locks of other libraries: cli/test_foreign."""


def test_every_script_is_sent(matrix):
    """A script that no operation sends would not be in the matrix."""
    sent = {script_of(name) for recording in matrix.recordings(OPERATIONS)
            for name in recording.sent}
    missing = sorted(set(SCRIPTS.values()) - sent - ELSEWHERE)
    assert not missing, f"not covered: {', '.join(missing)}"
