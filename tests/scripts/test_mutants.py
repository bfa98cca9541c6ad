"""Each mutant of tests/system/mutants.py finds the text that it changes."""
from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "system"))

import mutants  # noqa: E402  (behind the path)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_is_there(mutant):
    for file, before, _ in mutant.edits:
        assert before in (ROOT / file).read_text(), f"{file} has changed: mend the mutant"
