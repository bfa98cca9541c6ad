#!/usr/bin/env python3
"""Measures locks of other systems beside ours, each with its real server.

usage: run.py [--build DIR] [--quick] [--held-s N] [--only KEY,…] [--into FILE]

For each system: a pair alone; 8 and 64 threads on names of their own; 8 processes on one name; the
hand-over between two processes; 1,000 names held; 1,000 threads that wait for one name. One line of
JSON for each figure's row, and all of them in FILE, where --only puts those of its systems in the
place of older ones. What cannot be had is skipped, with the reason. `others_cores`: how many cores
other programs kept busy meanwhile.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import histories
from servers import Missing, Server
from systems import SYSTEMS, Programs, System, served, versions

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

import machine  # noqa: E402  (behind the path)

LIMIT_S = 120
KEPT = 1000
PROCESSES = 8
COUNTED_S = 0.5  # a server's process for a connection ends soon, and its time counts a moment later
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Length:
    def __init__(self, quick: bool, held_s: int):
        self.ms = 300 if quick else 2000
        self.held_s = 2 if quick else held_s
        self.handovers = 20 if quick else 200


def tree(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def usage(pid: int) -> tuple[float, float]:
    """CPU seconds and MiB in RAM of a process and those below it; shared pages count once."""
    cpu = memory = 0.0
    for one in tree(pid):
        with contextlib.suppress(OSError, IndexError, StopIteration):
            fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            cpu += sum(map(int, fields[11:15])) / TICKS
            rollup = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            kib = next(line for line in rollup if line.startswith("Pss:")).split()[1]
            memory += int(kib) / 1024
    return cpu, memory


class Bench:
    def __init__(self, system: System, words: list[str], server: Server, folder: pathlib.Path,
                 length: Length):
        self.system, self.words, self.server = system, words, server
        self.folder, self.length, self.count = folder, length, 0

    def begin(self, *rest: str, history: bool = True) -> tuple[subprocess.Popen, pathlib.Path]:
        self.count += 1
        path = self.folder / f"history-{self.count}"
        process = subprocess.Popen(
            [*self.words, self.server.url, self.system.kind, *([str(path)] if history else []),
             *rest],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return process, path

    def turns(self, *rest: str) -> tuple[dict, pathlib.Path]:
        process, path = self.begin(*rest)
        return ended(process), path

    def server_cpu(self) -> float:
        return usage(self.server.process.pid)[0] if self.server.process else 0.0

    def alone(self, threads: int) -> dict:
        self.turns(f"threads={threads}", "ms=200")  # warms up
        time.sleep(COUNTED_S)
        before = self.server_cpu()
        figures, _ = self.turns(f"threads={threads}", f"ms={self.length.ms}")
        time.sleep(COUNTED_S)
        figures["server_cpu_us"] = 1e6 * (self.server_cpu() - before) / figures.pop("pairs")
        return figures

    def hot(self) -> dict:
        several = [self.begin("same", "name=hot", f"ms={2 * self.length.ms}", "hold_us=0")
                   for _ in range(PROCESSES)]
        pairs = sum(ended(process, may_starve=True)["pairs"] for process, _ in several)
        holds, _ = histories.read(*(path for _, path in several))
        shares = [sum(hold.owner.startswith(f"{process.pid}/") for hold in holds)
                  for process, _ in several]
        return {"grants_s": pairs / (2 * self.length.ms / 1e3), "fewest": min(shares),
                "most": max(shares), "two_owners": len(histories.overlaps(holds, 0))}

    def handover(self) -> dict:
        """Each holds for 5 ms, during which the other comes to wait."""
        several = [self.begin("same", "name=handed", f"turns={self.length.handovers}",
                              "hold_us=5000", "pause_us=2000") for _ in range(2)]
        for process, _ in several:
            ended(process)
        holds, _ = histories.read(*(path for _, path in several))
        times = histories.handovers_us(holds)
        if not times:
            raise Missing("no hand-over happened")
        return {"p50_us": histories.middle(times), "p99_us": histories.part(times, 0.99),
                "handovers": len(times)}

    def held(self) -> dict:
        before = usage(self.server.process.pid) if self.server.process else (0.0, 0.0)
        process, _ = self.begin("keep", str(KEPT), history=False)
        try:
            if process.stdout.readline().strip() != "kept":
                raise Missing(f"it does not hold {KEPT} names")
            return self.watched(process.pid, before)
        finally:
            process.stdin.close()
            process.wait(LIMIT_S)

    def watched(self, pid: int, before: tuple[float, float]) -> dict:
        """Both sides' CPU a second meanwhile, and the memory then."""
        begun, client = self.server_cpu(), usage(pid)[0]
        time.sleep(self.length.held_s)
        after = usage(self.server.process.pid) if self.server.process else (0.0, 0.0)
        then = usage(pid)
        seconds = self.length.held_s
        return {"server_cpu_ms_s": 1e3 * (after[0] - begun) / seconds,
                "server_mib": after[1] - before[1],
                "client_cpu_ms_s": 1e3 * (then[0] - client) / seconds, "client_mib": then[1]}

    def waiting(self) -> dict:
        """A thousand threads of one process wait for a name that another holds."""
        if self.system.polls:
            raise Missing("each asks again each 10 ms: 100,000 questions a second")
        before = usage(self.server.process.pid) if self.server.process else (0.0, 0.0)
        holder, _ = self.begin("keep", "1", history=False)
        if holder.stdout.readline().strip() != "kept":
            raise Missing("it does not hold the name")
        waiters, path = self.begin("same", "name=kept", f"threads={KEPT}", "turns=1", "live")
        try:
            time.sleep(5)  # until all wait: a thousand connections are to be made
            if waiters.poll() is not None:
                raise Missing(f"{KEPT} cannot wait")
            return self.watched(waiters.pid, before)
        finally:
            waiters.kill()
            waiters.wait(LIMIT_S)
            holder.stdin.close()
            holder.wait(LIMIT_S)


def ended(process: subprocess.Popen, may_starve: bool = False) -> dict:
    """The line of a program. One that had no turn says so, and has 0 pairs."""
    try:
        text, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Missing(f"not done within {LIMIT_S} s") from None
    if process.returncode and may_starve:
        return {"pairs": 0}
    if process.returncode:
        raise Missing(f"{process.args[0]} ended with {process.returncode}")
    return json.loads(text)


SCENES = {"alone": lambda bench: bench.alone(1), "apart-8": lambda bench: bench.alone(8),
          "apart-64": lambda bench: bench.alone(64), "hot": Bench.hot, "handover": Bench.handover,
          "held": Bench.held, "waiting": Bench.waiting}


def measured(system: System, programs: Programs, folder: pathlib.Path, length: Length
             ) -> list[dict]:
    rows = []
    try:
        words = programs.words(system.program)
        with served(system, programs, folder / system.key) as server:
            bench = Bench(system, words, server, folder, length)
            for scene, run in SCENES.items():
                rows.append(row(system, scene, bench, run))
    except Missing as why:
        rows.append({"system": system.key, "skipped": " ".join(str(why).split())})
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    return rows


def row(system: System, scene: str, bench: Bench, run) -> dict:
    made = {"system": system.key, "scene": scene}
    begun, busy, own = time.monotonic(), machine.busy_ticks(), usage(os.getpid())[0]
    try:
        made |= {key: round(value, 2) for key, value in run(bench).items()}
    except Missing as why:
        made["skipped"] = " ".join(str(why).split())
    others_s = (machine.busy_ticks() - busy) / TICKS - (usage(os.getpid())[0] - own)
    made["others_cores"] = round(max(0, others_s) / (time.monotonic() - begun), 2)
    print(json.dumps(made, ensure_ascii=False), flush=True)
    return made


def write(path: pathlib.Path, run: dict, rows: list[dict]) -> None:
    """With the rows and runs of other systems that are there."""
    runs, others = [], []
    if path.exists():
        before = json.loads(path.read_text())
        others = [row for row in before["rows"] if row["system"] not in run["systems"]]
        runs = [one | {"systems": left} for one in before["runs"]
                if (left := [key for key in one["systems"] if key not in run["systems"]])]
    order = [system.key for system in SYSTEMS]
    document = {"runs": [*runs, run],
                "rows": sorted(others + rows, key=lambda row: order.index(row["system"]))}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def command(arguments: argparse.Namespace) -> str:
    if not (arguments.only or arguments.quick):
        return "make bench-beside"
    return "bench/beside/run.py" + (" --quick" if arguments.quick else "") + \
        (f" --only {arguments.only}" if arguments.only else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="only shows that all of it runs")
    parser.add_argument("--held-s", type=int, default=10, help="how long names are held")
    parser.add_argument("--only", default="", help="systems, by their keys")
    parser.add_argument("--into", type=pathlib.Path)
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.only.split(",")))
    if unknown := wanted - {system.key for system in SYSTEMS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    length = Length(arguments.quick, arguments.held_s)
    programs, begun, rows = Programs(arguments.build), time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="lk-beside-") as folder:
        pathlib.Path(folder).chmod(0o755)
        for system in SYSTEMS:
            if not wanted or system.key in wanted:
                rows += measured(system, programs, pathlib.Path(folder), length)
    run = {**machine.describe(arguments.build), "server": "as its package has it",
           "servers": versions(), "quick": arguments.quick,
           "held_s": length.held_s, "seconds": round(time.monotonic() - begun),
           "date": time.strftime("%Y-%m-%d"),
           "command": command(arguments),
           "systems": sorted({row["system"] for row in rows})}
    if arguments.into:
        write(arguments.into, run, rows)
    print(f"{len(rows)} rows in {run['seconds']} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
