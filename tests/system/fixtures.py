"""What several suites share: servers, proxies, C clients. keeper.py explains LOCKKEEPER_BUILD.

Every test has servers of its own on unix sockets and free ports, so that several pytest processes
can run side by side.
"""
from __future__ import annotations

import itertools
import pathlib
import shutil
import tempfile
import threading

import pytest

from keeper import DRIVER, Keeper
from proxy import Proxy
from servers import Server


@pytest.fixture(scope="session")
def driver():
    if not DRIVER.exists():
        pytest.fail(f"{DRIVER} is missing: build first, or set LOCKKEEPER_BUILD")


@pytest.fixture
def folder():
    """A folder with a short path: unix sockets allow 107 bytes."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def make_server(folder):
    """make_server(**config): a running server; underscores in names stand for dashes."""
    made = []

    def make(tls=None, site=None, **config) -> Server:
        place = folder / f"server{len(made)}"
        place.mkdir()
        config = {name.replace("_", "-"): value for name, value in config.items()}
        made.append(Server(place, config, tls))
        if site:
            made[-1].settle(site)
        return made[-1].start_anywhere()

    yield make
    for server in made:
        server.kill()


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def make_proxy(folder):
    made = []

    def make(target: str) -> Proxy:
        made.append(Proxy(target, str(folder / f"proxy{len(made)}.sock")))
        return made[-1]

    yield make
    for proxy in made:
        proxy.stop()
    assert not any(proxy.problems for proxy in made), [proxy.problems for proxy in made]


@pytest.fixture
def proxy(server, make_proxy):
    return make_proxy(server.path)


@pytest.fixture
def make_keeper(driver):
    """make_keeper(url, **options): a process with a client; ended, and looked at, afterwards."""
    made = []

    def make(url=None, **options) -> Keeper:
        keeper = Keeper(url, **options)
        made.append(keeper)
        return keeper

    yield make
    for keeper in made:
        keeper.stop()


@pytest.fixture
def keeper(server, make_keeper):
    return make_keeper(server.unix_url)


@pytest.fixture
def history(folder):
    """history(): the path of a new history file."""
    numbers = itertools.count()
    return lambda: folder / f"history{next(numbers)}"


@pytest.fixture
def background():
    """background(function): runs it again and again in a thread until the test ends."""
    stop = threading.Event()
    threads = []

    def start(function, pause: float = 0.0) -> threading.Event:
        def work():
            while not stop.is_set():
                function()
                stop.wait(pause)
        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        return stop

    yield start
    stop.set()
    for thread in threads:
        thread.join(10)
