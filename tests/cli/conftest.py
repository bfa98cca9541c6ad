"""Fixtures of the command's tests: a server of one's own, the command, and a terminal.

The command is <build>/cli/lockkeeper; LOCKKEEPER_BUILD names the build folder, else it is build/.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

from command import BINARY, Command  # noqa: E402  (behind the path)
from servers import Server  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes several seconds by its nature")


@pytest.fixture(autouse=True, scope="session")
def binary():
    if not BINARY.exists():
        pytest.exit(f"{BINARY} is missing: build first, or set LOCKKEEPER_BUILD", 2)


@pytest.fixture
def folder():
    """A folder with a short path: unix sockets allow 107 bytes."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def server(folder):
    place = folder / "server"
    place.mkdir()
    made = Server(place).start()
    yield made
    made.stop()


@pytest.fixture
def cli(server):
    """The command, with the test's own server in its environment."""
    made = Command({"LOCKKEEPER_URL": server.unix_url})
    yield made
    made.stop()


@pytest.fixture
def bare(folder):
    """The command without a server in its environment: it uses a private one in `folder`."""
    made = Command({"LOCKKEEPER_STATE_DIR": str(folder / "state")})
    yield made
    made.stop()
    made("server", "stop", "--force")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("LOCKKEEPER_") and name != "LOCKKEEPER_BUILD":
            monkeypatch.delenv(name)
