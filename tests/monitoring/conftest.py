"""Fixtures: a server of locks, programs beside it, and pictures of pages.

LOCKKEEPER_PICTURES names a folder in which the pictures stay.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "system")]

from servers import Server, free_port  # noqa: E402  (behind the path)
from waiting import until  # noqa: E402

BUILD = pathlib.Path(os.environ.get("LOCKKEEPER_BUILD") or ROOT / "build").resolve()
COMMAND = BUILD / "cli" / "lockkeeper"
PROMETHEUS = ROOT / "examples" / "operations" / "prometheus"


@pytest.fixture(scope="session")
def folder():
    made = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def pictures(folder):
    place = pathlib.Path(os.environ.get("LOCKKEEPER_PICTURES") or folder / "pictures")
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(scope="session")
def server(folder):
    place = folder / "server"
    place.mkdir()
    made = Server(place).start_anywhere()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def environment(server):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("LOCKKEEPER_")}
    return {**kept, "LOCKKEEPER_URL": server.unix_url, "LOCKKEEPER_CONFIG": "/dev/null",
            "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="session")
def start(environment):
    """Starts programs that end with the session."""
    made = []

    def begin(*words, **more):
        process = subprocess.Popen([str(word) for word in words], env={**environment, **more},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        made.append(process)
        return process

    yield begin
    for process in made:
        process.terminate()
    for process in made:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
        process.stderr.close()


@pytest.fixture(scope="session")
def page(start):
    """Where `lockkeeper metrics --listen` serves."""
    process = start(COMMAND, "metrics", "--names", "--listen", "0")
    return re.search(r"serving (http://\S+)/,", process.stderr.readline())[1]


def run(*words, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, timeout=120, **more)


__all__ = ["BUILD", "COMMAND", "PROMETHEUS", "ROOT", "free_port", "run", "until"]
