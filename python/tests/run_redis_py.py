"""Runs redis-py's own lock tests against the drop-in.

usage: run_redis_py.py FOLDER VERSION...    (FOLDER: where pip may put things; VERSION: 6, 7, 8)

pip fetches the newest source distribution of each version, which has the tests in it, and what they
import into the Python that runs this. They run unchanged, with the redis-py that they came with; a
plugin puts our classes in place of redis-py's, and expects the failures that it names.
"""
from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
PACKAGES = ["redis", "pytest", "pytest-asyncio"]


def sources(folder: pathlib.Path, version: str) -> pathlib.Path:
    folder = folder / version
    subprocess.run([*PIP, "download", "--no-deps", "--no-binary", "redis", "-d", str(folder),
                    f"redis=={version}.*"], check=True)
    archive = max(folder.glob("redis-*.tar.gz"), key=os.path.getmtime)
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def tested(tree: pathlib.Path, url: str) -> bool:
    print(f"{tree.name}:", flush=True)
    environment = {**os.environ,
                   "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "drop_in", "-p", "no:cacheprovider",
         "--disable-warnings", "--redis-url", url, "tests/test_lock.py",
         "tests/test_asyncio/test_lock.py"], cwd=tree, env=environment).returncode == 0


def main() -> int:
    folder, versions = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    subprocess.run([*PIP, "install", *PACKAGES], check=True)
    trees = [sources(folder, version) for version in versions]
    with server(folder) as url:
        return 0 if all([tested(tree, url) for tree in trees]) else 1


class server:
    """A server on a free port."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
             str(self.folder), "--enable-debug-command", "yes"], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while subprocess.run(["redis-cli", "-p", str(port), "ping"],
                             capture_output=True).returncode:
            assert time.monotonic() < until, "no server"
            time.sleep(0.05)
        return f"redis://127.0.0.1:{port}/9"

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    sys.exit(main())
