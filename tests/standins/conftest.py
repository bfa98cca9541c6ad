"""The fixtures of the system tests."""
from __future__ import annotations

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "standins"), str(TESTS / "system"), str(TESTS / "history")]

from fixtures import (driver, folder, make_keeper, make_server, server)  # noqa: E402,F401
