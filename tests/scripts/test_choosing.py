"""docs/choosing.md says what its rows say, and every system was asked every question."""
from __future__ import annotations

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import choosing_page  # noqa: E402
import choosing_words  # noqa: E402

SENTENCES = [word for _, words in choosing_words.ADVICE for word in words
             if isinstance(word, choosing_words.Shown)]
SYSTEMS = re.findall(r'^    System\("([\w-]+)"', (ROOT / "bench/beside/systems.py").read_text(),
                     re.MULTILINE)
QUESTIONS = {path.stem for path in (ROOT / "bench/beside/faults").glob("*.py")} - {"stage"}
SCENES = ["alone", "apart-8", "apart-64", "hot", "handover", "held", "waiting"]


@pytest.fixture
def results():
    return choosing_page.Results()


@pytest.mark.parametrize("sentence", SENTENCES,
                         ids=[f"{one.asked}-{one.system}" for one in SENTENCES])
def test_each_sentence_has_its_row(results, sentence):
    assert choosing_page.shown(sentence, results)


def test_each_system_was_asked_each_question(results):
    rows = results.faults["rows"]
    assert sorted((row["question"], row["system"]) for row in rows) == sorted(
        (question, system) for question in QUESTIONS for system in SYSTEMS)
    for row in rows:
        assert len({"verdict", "unfit", "skipped"} & row.keys()) == 1, row
        assert row.get("verdict") or row.get("unfit") or row.get("skipped"), row


def test_each_system_was_measured_in_each_scene(results):
    for system in SYSTEMS:
        scenes = [row.get("scene") for row in results.figures["rows"] if row["system"] == system]
        assert scenes == SCENES or results.without(system), system
    runs = results.figures["runs"]
    assert sorted(key for run in runs for key in run["systems"]) == sorted(SYSTEMS)


def test_a_row_that_says_something_else_stops_the_page(results):
    results.answer("pool", "postgres-advisory")["verdict"] = "one owner"
    with pytest.raises(choosing_page.Contradicted, match="Behind PgBouncer"):
        choosing_page.page(results)


def test_what_cannot_be_had_is_named_with_its_reason(results):
    said = "A killed server that comes back still has the lock"
    before = " ".join(choosing_page.page(results).split())
    row = results.answer("killed_server", "etcd")
    row.pop("verdict")
    row["skipped"] = "no such package"
    after = " ".join(choosing_page.page(results).split())
    assert "Cannot be had: no such package." in after
    assert before.count(said) == after.count(said) + 1
