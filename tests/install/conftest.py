"""A copy installed into a folder of its own, a server, and the README's blocks."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/system"), str(ROOT / "scripts")]

import servers  # noqa: E402  (behind the path)
import sessions  # noqa: E402

BUILD = pathlib.Path(os.environ.get("LOCKKEEPER_BUILD", ROOT / "build"))
RUN_S = 300
PACKAGE_S = 900  # everything is compiled, and packed
# The environment of git and make: of a clone, not of this tree.
GIT = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
       "MAKEFLAGS": ""}


def until(what, condition, limit_s: float = 20):
    end = time.monotonic() + limit_s
    while not (answer := condition()):
        assert time.monotonic() < end, f"not within {limit_s} s: {what}"
        time.sleep(0.005)
    return answer


def run(*argv, check=True, limit_s=RUN_S, **more) -> subprocess.CompletedProcess:
    """When its time is over, all of its session ends: what it started has its output open."""
    with subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                          **more) as process:
        try:
            out, error = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            sessions.end(process.pid)
            out, error = process.communicate()
            raise AssertionError(f"{argv}: not within {limit_s} s\n{out}{error}") from None
    said = f"{argv}: {process.returncode}\n{out}{error}"
    assert not check or process.returncode == 0, said
    return subprocess.CompletedProcess(argv, process.returncode, out, error)


def blocks(page: str, kind: str) -> list[str]:
    fence = re.compile(rf"^```{kind}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return fence.findall((ROOT / page).read_text())


class Copy:
    """An installed copy: what `make install` laid below `prefix`, seen through `staging`."""

    def __init__(self, staging: pathlib.Path, prefix: str):
        self.prefix = prefix
        self.top = pathlib.Path(f"{staging}{prefix}")
        self.pkgconfig = next(self.top.rglob("lockkeeper.pc")).parent
        self.libraries = self.pkgconfig.parent
        self.environment = {
            **os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.libraries), "PKG_CONFIG_PATH": str(self.pkgconfig),
            **({"PKG_CONFIG_SYSROOT_DIR": str(staging)} if str(staging) else {}),
        }

    def flags(self, *words: str) -> list[str]:
        return run("pkg-config", *words, "lockkeeper", env=self.environment).stdout.split()


@pytest.fixture(scope="session")
def folder():
    made = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def copy(folder) -> Copy:
    """Installed by the Makefile into DESTDIR, from a build folder of its own."""
    staging = folder / "staging"
    run("make", "install", f"BUILD={folder / 'build'}", "PREFIX=/opt/lockkeeper",
        f"DESTDIR={staging}", cwd=ROOT, env={**os.environ, "MAKEFLAGS": ""})
    return Copy(staging, "/opt/lockkeeper")


def distribution(folder, name: str, **more: str):
    """The folder of what `make dist` makes in a clone of its own."""
    clone = folder / name
    run("git", "clone", "--quiet", "--no-local", ROOT, clone, env=GIT)
    run("make", "dist", cwd=clone, env={**GIT, **more})
    return clone / "build/dist"


@pytest.fixture(scope="session")
def dist(folder):
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("there is no git, or this is no clone")
    return distribution(folder, "clone")


@pytest.fixture(scope="session")
def tarball(dist):
    (path,) = dist.glob("lockkeeper-*.tar.gz")
    return path


class Server(servers.Server):
    """It is asked as a user asks it."""

    @property
    def url(self) -> str:
        return self.unix_url

    def ask(self, *words) -> str:
        return run("redis-cli", "-s", self.path, *words).stdout.strip()


@pytest.fixture
def server(folder):
    place = pathlib.Path(tempfile.mkdtemp(prefix="lk-", dir=folder))
    made = Server(place).start_anywhere()
    yield made
    made.kill()


@pytest.fixture
def environment(copy, server, folder):
    """The installed copy first on every path, and the server named."""
    return {**copy.environment, "LOCKKEEPER_URL": server.url,
            "LOCKKEEPER_STATE_DIR": str(folder / "state")}
