"""Ways to find the server of a row: the smallest set of sentinels, a cluster of one or three. Each
yields two URLs: of what it is compared with, and of itself."""
from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time

LIMIT_S = 20
SLOTS = 16384


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
def direct(folder: pathlib.Path, ports: tuple[int, ...], cluster: bool = False):
    more = ["--cluster-enabled", "yes", "--cluster-port", str(ports[1])] if cluster else []
    with running("redis-server", "--port", str(ports[0]), "--bind", "127.0.0.1", "--dir",
                 str(folder), "--save", "", "--logfile", str(folder / "log"), *more):
        until_says(ports[0], "PONG", "PING")
        yield f"redis://127.0.0.1:{ports[0]}"


@contextlib.contextmanager
def sentinel(folder: pathlib.Path, ports: tuple[int, ...]):
    (folder / "sentinel").write_text(f"port {ports[1]}\nbind 127.0.0.1\nlogfile {folder}/watch\n"
                                     f"sentinel monitor bench 127.0.0.1 {ports[0]} 1\n")
    with direct(folder, ports) as url, running("redis-server", str(folder / "sentinel"),
                                               "--sentinel"):
        until_says(ports[1], str(ports[0]), "SENTINEL", "get-master-addr-by-name", "bench")
        yield url, f"redis-sentinel://127.0.0.1:{ports[1]}/bench"


@contextlib.contextmanager
def masters(folder: pathlib.Path, ports: tuple[int, ...], count: int):
    """A cluster of so many, which share the slots; each takes two of the ports."""
    pairs = [(ports[2 * i], ports[2 * i + 1]) for i in range(count)]
    edges = [SLOTS * i // count for i in range(count + 1)]
    with contextlib.ExitStack() as stack:
        for number, pair in enumerate(pairs):
            own = folder / str(number)
            own.mkdir(parents=True, exist_ok=True)
            stack.enter_context(direct(own, pair, cluster=True))
            ask(pair[0], "CLUSTER", "ADDSLOTSRANGE", str(edges[number]),
                str(edges[number + 1] - 1))
            ask(pair[0], "CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for port, bus in pairs[1:]:
            ask(pairs[0][0], "CLUSTER", "MEET", "127.0.0.1", str(port), str(bus))
        for port, _ in pairs:
            until_says(port, "cluster_state:ok", "CLUSTER", "INFO")
            until_says(port, f"cluster_known_nodes:{count}", "CLUSTER", "INFO")
        yield f"redis-cluster://127.0.0.1:{ports[0]}"


@contextlib.contextmanager
def cluster(folder: pathlib.Path, ports: tuple[int, ...]):
    """One node, which has all slots, beside that node alone."""
    with masters(folder, ports, 1) as url:
        yield url.replace("redis-cluster:", "redis:"), url


@contextlib.contextmanager
def three_masters(folder: pathlib.Path, ports: tuple[int, ...]):
    """Beside a cluster of one."""
    with masters(folder / "one", ports[6:], 1) as one, masters(folder / "three", ports, 3) as three:
        yield one, three


ALL = {made.__name__: made for made in (sentinel, cluster, three_masters)}
PORTS = 8  # that each is given
