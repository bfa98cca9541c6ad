"""Who defines a name, who uses it, and which files form a circle."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import sources  # noqa: E402

FILES = {
    "a.c": "int lk__a(void)\n{\n\treturn lk__b(); /* lk__d() */\n}\n",
    "b.c": "static int b(void)\n{\n\treturn lk__c();\n}\nint lk__b(void)\n{\n\treturn b();\n}\n",
    "c.c": "struct lk__table lk__c_table = {0};\nint lk__c(void)\n{\n\treturn lk__a();\n}\n",
    "d.c": "int lk__d(void)\n{\n\treturn lk__a() + lk__c();\n}\n",
    "d.h": "int lk__d(void);\nint lk__a(void);\n",
}


@pytest.fixture
def paths(tmp_path):
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    return sorted(tmp_path.iterdir())


def names(paths):
    return {path.name for path in paths}


def test_the_file_that_defines(paths):
    defined = sources.definitions(paths)
    assert {symbol: path.name for symbol, path in defined.items()} == {
        "lk__a": "a.c", "lk__b": "b.c", "lk__c": "c.c", "lk__c_table": "c.c", "lk__d": "d.c"}


def test_the_files_that_use(paths):
    users = sources.users(paths, sources.definitions(paths))
    assert names(users["lk__a"]) == {"c.c", "d.c"}
    assert users["lk__d"] == set()  # a comment and a declaration are no use


def test_a_circle_has_who_leads_there_and_back(paths):
    assert [names(circle) for circle in sources.circles(paths)] == [{"a.c", "b.c", "c.c"}]
