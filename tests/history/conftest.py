"""The fixtures of the system tests serve here too."""
from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

from fixtures import (background, driver, folder, history, keeper, make_keeper,  # noqa: E402,F401
                      make_proxy, make_server, proxy, server)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes several seconds by its nature")
