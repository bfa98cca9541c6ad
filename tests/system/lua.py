"""Our scripts as a server can run them: with the pieces that they include."""
from __future__ import annotations

import functools
import sys

from keeper import ROOT

sys.path.append(str(ROOT / "scripts"))

import lua_scripts  # noqa: E402  (behind the path)


@functools.cache
def text_of(noun: str, name: str) -> str:
    return lua_scripts.text_of(ROOT / "src" / "sync" / noun / f"{name}.lua")
