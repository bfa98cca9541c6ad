"""The README's first program, as it stands but for the server and the time that it waits."""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
LIMIT_S = 60


def said(server: str) -> list[str]:
    text = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    for own, ours in (("redis://localhost", f"unix://{server}"), ("wait=10", "wait=0.2")):
        assert text.count(own) == 1
        text = text.replace(own, ours)
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True,
                          timeout=LIMIT_S)
    return done.stdout.splitlines()


def test_the_first_program(server: str, redis: Callable[..., str]) -> None:
    lines = said(server)
    assert lines[0].startswith("got it, under ") and lines[-1] == "done, and released"
    assert redis("EXISTS", "backup") == "0"


def test_it_waits_for_another(server: str, redis: Callable[..., str]) -> None:
    redis("HSET", "backup", "other:1", 1)
    assert said(server) == ["another process has had it for 10 seconds"]
