"""Ways to find the server of a row: the smallest cluster, the smallest set of sentinels."""
from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time

LIMIT_S = 20


class Failed(Exception):
    pass


def ask(port: int, *words: str) -> str:
    return subprocess.run(["redis-cli", "-h", "127.0.0.1", "-p", str(port), *words],
                          capture_output=True, text=True, timeout=LIMIT_S).stdout


def until_says(port: int, part: str, *words: str) -> None:
    end = time.monotonic() + LIMIT_S
    while part not in ask(port, *words):
        if time.monotonic() > end:
            raise Failed(f"port {port} does not say {part}")
        time.sleep(0.02)


@contextlib.contextmanager
def running(*words: str):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def direct(folder: pathlib.Path, ports: tuple[int, int], cluster: bool = False):
    more = ["--cluster-enabled", "yes", "--cluster-port", str(ports[1])] if cluster else []
    with running("redis-server", "--port", str(ports[0]), "--bind", "127.0.0.1", "--dir",
                 str(folder), "--save", "", "--logfile", str(folder / "log"), *more):
        until_says(ports[0], "PONG", "PING")
        yield f"redis://127.0.0.1:{ports[0]}"


@contextlib.contextmanager
def sentinel(folder: pathlib.Path, ports: tuple[int, int]):
    (folder / "sentinel").write_text(f"port {ports[1]}\nbind 127.0.0.1\nlogfile {folder}/watch\n"
                                     f"sentinel monitor bench 127.0.0.1 {ports[0]} 1\n")
    with direct(folder, ports) as url, running("redis-server", str(folder / "sentinel"),
                                               "--sentinel"):
        until_says(ports[1], str(ports[0]), "SENTINEL", "get-master-addr-by-name", "bench")
        yield url, f"redis-sentinel://127.0.0.1:{ports[1]}/bench"


@contextlib.contextmanager
def cluster(folder: pathlib.Path, ports: tuple[int, int]):
    """One node, which has all slots."""
    with direct(folder, ports, cluster=True) as url:
        ask(ports[0], "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        until_says(ports[0], "cluster_state:ok", "CLUSTER", "INFO")
        yield url, url.replace("redis:", "redis-cluster:")


ALL = {made.__name__: made for made in (sentinel, cluster)}
