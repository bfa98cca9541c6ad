"""Probes for tracers are in what is built, after strip too, as docs/probes.md lists them."""
from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from command import BINARY, BUILD, ROOT

PAGE = ROOT / "docs" / "probes.md"
SCRIPTS = ROOT / "examples" / "operations" / "bpftrace"
pytestmark = pytest.mark.skipif("-DLK__PROBES" not in (BUILD / "compile_commands.json").read_text(),
                                reason="it was built without sys/sdt.h")


def documented() -> dict[str, int]:
    """By name, how many arguments."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    return {name: arguments.count(",") + 1 for name, arguments in rows}


def noted(path) -> dict[str, int]:
    text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, timeout=60,
                          check=True).stdout
    found = re.findall(r"Provider: lockkeeper\s+Name: (\w+)\s+Location:[^\n]*\n"
                       r"\s+Arguments:([^\n]*)", text)
    return {name: len(arguments.split()) for name, arguments in found}


@pytest.mark.parametrize("stripped", [False, True], ids=["built", "stripped"])
@pytest.mark.parametrize("path", [BINARY, BUILD / "src" / "liblockkeeper.so",
                                  BUILD / "cli" / "lockkeeper-static"], ids=lambda path: path.name)
def test_they_are_there(tmp_path, path, stripped):
    if not path.exists():
        pytest.skip(f"{path.name} was not built")
    if stripped:
        shutil.copy(path, tmp_path / "copy")
        path = tmp_path / "copy"
        subprocess.run(["strip", path], timeout=60, check=True)
    assert noted(path) == documented()


def test_the_scripts_use_what_there_is():
    scripts = sorted(SCRIPTS.glob("*.bt"))
    assert len(scripts) == 3
    for script in scripts:
        probes = re.findall(r"^usdt:\$1:lockkeeper:(\w+)", script.read_text(), re.MULTILINE)
        assert probes and set(probes) <= set(documented())
        assert f"`{script.name}`" in PAGE.read_text()
