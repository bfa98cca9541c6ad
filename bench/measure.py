"""Runs the programs of the benchmark: a private redis-server, the two sides of a row in turn."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import deployments
import machine
import traffic
from deployments import Failed
from rows import LEAST, Figure, Row

PROGRAM_LIMIT_S = 900  # the longest holds a million locks for 300 s
START_LIMIT_S = 10
COUNTED_ROUNDS = 20  # of a side, where its traffic is counted
LOOK_S = 0.1  # for each look at what else the machine does


class Bench:
    """Where things are: the build, a folder for this run, the server's two addresses.
    `against`: another build, which takes the place of the floor."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path, quick: bool, runs: int,
                 against: pathlib.Path | None = None):
        self.build, self.folder, self.quick, self.runs = build, folder, quick, runs
        self.against = against
        self.tcp = self.unix = ""
        self.server_pid = 0
        self.nodes: list[subprocess.Popen] = []
        self.node_urls: list[str] = []
        self.node = self.found = ""  # of a deployment: what it is compared with, and itself
        self.ports: list[int] = []  # of the servers that clients may find
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("LOCKKEEPER_")}
        self.environment["LOCKKEEPER_STATE_DIR"] = str(folder / "state")

    def of_build(self, build: pathlib.Path) -> Bench:
        other = copy.copy(self)
        other.build = build
        return other

    def words(self, row: Row, command: list[str], **other: str | int) -> list[str]:
        values = {"tcp": self.tcp, "direct": self.node or self.tcp, "unix": self.unix,
                  "folder": self.folder, "nodes": ",".join(self.node_urls),
                  "node": self.node, "found": self.found,
                  **(row.quick if self.quick else row.full), **other}
        return [word.format(**values) for word in command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(path: pathlib.Path) -> bool:
    """The file is there a moment before a client may connect."""
    with socket.socket(socket.AF_UNIX) as client:
        return path.exists() and client.connect_ex(str(path)) == 0


def start_server(folder: pathlib.Path, port: int) -> subprocess.Popen:
    """A redis-server without persistence, on TCP loopback and on folder/socket."""
    path = folder / "socket"
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(path),
         "--dir", str(folder), "--save", "", "--appendonly", "no",
         "--logfile", str(folder / "log")])
    end = time.monotonic() + START_LIMIT_S
    while not is_listening(path):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            process.wait()
            raise Failed("redis-server did not start")
        time.sleep(0.01)
    return process


@contextlib.contextmanager
def nodes(bench: Bench, row: Row):
    """As many servers more as the row wants; of those the last ones stopped that it wants so."""
    try:
        for number in range(row.nodes):
            folder, port = bench.folder / f"node-{number}", free_port()
            folder.mkdir(exist_ok=True)
            bench.nodes.append(start_server(folder, port))
            bench.node_urls.append(f"redis://127.0.0.1:{port}")
        for process in bench.nodes[row.nodes - row.stopped:]:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in bench.nodes:
            process.kill()
            process.wait()
        bench.nodes.clear()
        bench.node_urls.clear()
        for number in range(row.nodes):
            (bench.folder / f"node-{number}" / "socket").unlink(missing_ok=True)


@contextlib.contextmanager
def deployed(bench: Bench, row: Row):
    if not row.deployment:
        yield
        return
    folder = bench.folder / row.deployment
    folder.mkdir(exist_ok=True)
    usual, bench.ports = bench.ports, [free_port() for _ in range(deployments.PORTS)]
    try:
        with deployments.ALL[row.deployment](folder, tuple(bench.ports)) as urls:
            bench.node, bench.found = urls
            yield
    finally:
        bench.ports, bench.node, bench.found = usual, "", ""


@contextlib.contextmanager
def server(bench: Bench):
    port, path = free_port(), bench.folder / "socket"
    process = start_server(bench.folder, port)
    try:
        bench.server_pid, bench.ports = process.pid, [port]
        bench.tcp, bench.unix = f"redis://127.0.0.1:{port}", f"unix://{path}"
        yield
    finally:
        process.terminate()
        process.wait()


def place_server(bench: Bench, cores: set[int]) -> None:
    for thread in pathlib.Path(f"/proc/{bench.server_pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


@contextlib.contextmanager
def kept_apart(bench: Bench, row: Row):
    """For rows that want it, the server stays on core 0 meanwhile."""
    if not row.apart:
        yield
        return
    place_server(bench, {0})
    try:
        yield
    finally:
        place_server(bench, os.sched_getaffinity(0))


def run_program(bench: Bench, words: list[str]) -> dict[str, float]:
    program = bench.build / "bench" / words[0]
    process = subprocess.Popen([program, *words[1:]], stdout=subprocess.PIPE, text=True,
                               env=bench.environment, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=PROGRAM_LIMIT_S)
    except subprocess.TimeoutExpired:
        # Its own children as well: it leads a session of its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Failed(f"{' '.join(words)}: not done within {PROGRAM_LIMIT_S} s") from None
    if process.returncode != 0:
        raise Failed(f"{' '.join(words)}: ended with {process.returncode}")
    return json.loads(text)


def time_command(bench: Bench, words: list[str]) -> dict[str, float]:
    """Wall time of a whole command, from before the start to after the end."""
    repeats, command = int(words[0]), words[1:]
    if command[0] == "lockkeeper":
        command = [str(bench.build / "cli" / "lockkeeper"), *command[1:]]
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        code = subprocess.call(command, env=bench.environment)
        if code != 0:
            raise Failed(f"{' '.join(command)}: ended with {code}")
        times.append((time.perf_counter() - begun) * 1e3)
    return {"p50_ms": statistics.median(times)}


def run_words(bench: Bench, words: list[str]) -> dict[str, float]:
    if words[0] == "time-command":
        return time_command(bench, words[1:])
    return run_program(bench, words)


def run_side(bench: Bench, row: Row, command: list[str]) -> dict[str, float]:
    """Traffic is counted in a run of its own, because the proxy takes time."""
    figures = run_words(bench, bench.words(row, command))
    through = next((url for url in ("tcp", "found", "node") if f"{{{url}}}" in command), None)
    if row.counted and through:
        figures |= traffic.counted(bench.ports, COUNTED_ROUNDS, lambda proxies: run_words(
            bench, bench.words(row, command, rounds=COUNTED_ROUNDS,
                               **{through: led_through(bench, through, proxies)})))
    return figures


def led_through(bench: Bench, name: str, proxies: dict[int, int]) -> str:
    """The URL, so that each server is reached through its proxy. What is bare knows no map."""
    url = getattr(bench, name)
    if name == "found":
        pairs = (f"127.0.0.1:{port}=127.0.0.1:{proxy}" for port, proxy in proxies.items())
        return f"{url}?address_map={','.join(pairs)}"
    return re.sub(r":(\d+)$", lambda port: f":{proxies[int(port[1])]}", url)


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def judge(figure: Figure, ours: float, floor: float | None) -> dict:
    answer = {"key": figure.key, "unit": figure.unit, "ours": ours, "floor": floor}
    if floor:
        answer["ratio"] = ours / floor
    if figure.bound is not None:
        value = answer.get("ratio") if figure.ratio else ours
        answer["target"] = {"of": "ratio" if figure.ratio else "ours", "sense": figure.sense,
                            "bound": figure.bound}
        answer["reached"] = value is not None and (
            value >= figure.bound if figure.sense == LEAST else value <= figure.bound)
    return answer


def against(row: Row) -> Row:
    """The same program of two builds: of interest is the ratio alone."""
    figures = [dataclasses.replace(figure, bound=None) for figure in row.figures]
    return dataclasses.replace(row, floor=row.ours, figures=figures, beside="the other build")


def measure(bench: Bench, row: Row) -> dict:
    """The sides in turn, as often as asked for, and the medians. Between them no program of ours
    runs, so what is busy then is other work."""
    ours, floor, others = [], [], []
    row = against(row) if bench.against else row
    load, look_s = os.getloadavg()[0], LOOK_S / 10 if bench.quick else LOOK_S
    with kept_apart(bench, row), nodes(bench, row), deployed(bench, row):
        base_side = bench.of_build(bench.against or bench.build)
        for _ in range(1 if bench.quick else row.runs or bench.runs):
            others.append(machine.busy_cores(look_s))
            if row.floor:
                floor.append(run_side(base_side, row, row.floor))
            ours.append(run_side(bench, row, row.ours))
        others.append(machine.busy_cores(look_s))
    middle, base = medians(ours), medians(floor) if floor else {}
    missing = [figure.key for figure in row.figures if figure.key not in middle]
    if missing:
        raise Failed(f"{row.name}: no figures for {', '.join(missing)}")
    return {"name": row.name, "title": row.title, "beside": row.beside,
            "commands": {"ours": " ".join(row.ours), "floor": " ".join(row.floor or [])},
            "settings": row.quick if bench.quick else row.full, "load_1m_before": load,
            "others_cores": round(statistics.mean(others), 3),
            "figures": [judge(figure, middle[figure.key], base.get(figure.key))
                        for figure in row.figures],
            "median": {"ours": middle, "floor": base}, "runs": {"ours": ours, "floor": floor}}


@contextlib.contextmanager
def prepared(build: pathlib.Path, quick: bool, runs: int, other: pathlib.Path | None = None):
    with tempfile.TemporaryDirectory(prefix="lk-bench-") as folder:
        bench = Bench(build, pathlib.Path(folder), quick, runs, other)
        command = str(build / "cli" / "lockkeeper")
        try:
            with server(bench):
                yield bench
        finally:
            if (bench.folder / "state").exists():
                subprocess.call([command, "server", "stop"], env=bench.environment,
                                stdout=subprocess.DEVNULL)
