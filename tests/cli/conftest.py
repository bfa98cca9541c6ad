"""Fixtures of the command's tests: a server of one's own, the command, and a terminal.

The command is <build>/cli/lockkeeper; LOCKKEEPER_BUILD names the build folder, else it is build/.
"""
from __future__ import annotations

import functools
import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

from command import BINARY, Command  # noqa: E402  (behind the path)
from examination import examine  # noqa: E402
from fixtures import folder, make_server, server  # noqa: E402,F401
from private import servers_in  # noqa: E402
from waiting import until  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes several seconds by its nature")


@pytest.fixture(autouse=True, scope="session")
def binary():
    if not BINARY.exists():
        pytest.exit(f"{BINARY} is missing: build first, or set LOCKKEEPER_BUILD", 2)


@pytest.fixture
def cli(server):
    """The command, with the test's own server in its environment."""
    made = Command({"LOCKKEEPER_URL": server.unix_url})
    yield made
    made.stop()


@pytest.fixture
def doctor():
    """Examines what its words name; `command` is the command without --json."""
    command = Command({})
    call = functools.partial(examine, command)
    call.command = command
    return call


@pytest.fixture
def bare(folder):
    """The command without a server in its environment: it uses a private one in `folder`, and
    does not say so."""
    made = Command({"LOCKKEEPER_STATE_DIR": str(folder / "state"), "LOCKKEEPER_PRIVATE": "on"})
    yield made
    made.stop()
    made("server", "stop", "--force")


@pytest.fixture
def no_server_is_left(folder, bare):
    yield
    bare("server", "stop", "--force")
    try:
        until(lambda: not servers_in(folder), 10, "no private server is left")
    finally:
        for pid in servers_in(folder):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("LOCKKEEPER_") and name != "LOCKKEEPER_BUILD":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOCKKEEPER_CONFIG", "/dev/null")  # not what this machine has in /etc
    # Tests look at the keys that a command leaves; those of the record itself switch it on.
    monkeypatch.setenv("LOCKKEEPER_CLIENT_RECORD", "off")


@pytest.fixture
def make_three(make_server):
    """make_three(config): three servers that have just been started."""
    return lambda config=None: [make_server(**(config or {})) for _ in range(3)]
