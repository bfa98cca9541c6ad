"""A private server for the tests, on a unix socket."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator

import pytest

import lockkeeper

SLOW = float(os.environ.get("LK_TEST_SLOW", "1"))

# A shell starts what runs in the background with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of its socket."""
    folder = tmp_path_factory.mktemp("server")
    path = folder / "redis.sock"
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir",
         str(folder)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10 * SLOW
        while not path.exists():
            assert process.poll() is None and time.monotonic() < until, "no server"
            time.sleep(0.01)
        yield str(path)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def redis(server: str) -> Callable[..., str]:
    """redis("GET", "name"): what redis-cli prints."""
    def ask(*words: object) -> str:
        return subprocess.run(["redis-cli", "-s", server, *map(str, words)], check=True,
                              capture_output=True, text=True).stdout.strip()

    ask("FLUSHALL")
    return ask


@pytest.fixture
def client(server: str, redis: Callable[..., str]) -> Iterator[lockkeeper.Client]:
    """Its leases are short, so that a loss is noticed soon."""
    with lockkeeper.Client(f"unix://{server}", watchdog_ms=1500) as made:
        yield made


@pytest.fixture
def other(server: str, redis: Callable[..., str]) -> Iterator[lockkeeper.Client]:
    with lockkeeper.Client(f"unix://{server}") as made:
        yield made


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        until = time.monotonic() + 10 * SLOW
        while not condition():
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.01)

    return wait


@pytest.fixture
def program(server: str, tmp_path: pathlib.Path) -> Callable[..., subprocess.Popen[str]]:
    """program("…"): a process that runs those lines; `client` is there."""
    def start(lines: str, stdin: bool = False) -> subprocess.Popen[str]:
        path = tmp_path / "program.py"
        path.write_text(f"import lockkeeper\nclient = lockkeeper.Client('unix://{server}')\n"
                        + textwrap.dedent(lines))
        return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE,
                                stdin=subprocess.PIPE if stdin else None,
                                stderr=subprocess.PIPE, text=True)

    return start
