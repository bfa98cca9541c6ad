#!/usr/bin/env python3
"""How costs grow with the work: waiters, locks, threads, pairs in flight.

usage: curves.py --build DIR [--quick] [--runs N]

Writes docs/curves.md, docs/curves.svg and bench/results/curves.json; --quick only shows that each
curve gives figures. Exit status: 1 when a point gave none.
"""
from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import machine
from measure import Bench, Failed, medians, prepared, run_program
from page import number

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = 3
QUICK_POINTS = 2


@dataclass(frozen=True)
class Line:
    """One figure of one program against the work. `scale`, `per`: what is drawn is
    figure × scale, and divided by the work where it is told for all of it."""
    name: str
    command: list[str]
    key: str
    unit: str
    scale: float = 1
    per_work: bool = False


@dataclass(frozen=True)
class Curve:
    name: str
    title: str
    work: str
    points: list[int]
    lines: list[Line]
    full: dict[str, int]
    quick: dict[str, int]
    runs: int | None = None  # None: as many as asked for


def pairs_lines(program: str, floor: str) -> list[Line]:
    """{n}: the work, {ms}: how long."""
    ours, bare = [program, "{tcp}", "{n}", "{ms}"], [floor, "{tcp}", "{n}", "{ms}"]
    return [Line("median time of a pair", ours, "p50_us", "µs"),
            Line("bare hiredis: median time", bare, "p50_us", "µs"),
            Line("CPU a pair", ours, "cpu_us", "µs"),
            Line("bare hiredis: CPU", bare, "cpu_us", "µs")]


def queue_lines(kind: str) -> list[Line]:
    command = ["ours-queue", "{tcp}", kind, "{n}"]
    name = kind.replace("-", " ")
    return [Line(f"{name}: time a grant", command, "drain_ms", "µs", 1000, per_work=True),
            Line(f"{name}: commands a grant", command, "commands_a_handover", "commands")]


MANY = ["ours-many", "{tcp}", "{n}", "{ms}", "1"]

CURVES = [
    Curve("waiters", "Waiters for one lock", "waiting threads", [1, 3, 10, 30, 100, 300, 1000],
          queue_lines("lock") + queue_lines("fair-lock"), {}, {}),
    Curve("locks", "Locks that one client holds", "locks", [10 ** i for i in range(7)],
          [Line("heap a lock", MANY, "heap_bytes_a_lock", "bytes"),
           Line("CPU a lock and second", MANY, "cpu_ms_s", "µs", 1000, per_work=True)],
          {"ms": 12000}, {"ms": 200}, runs=1),
    Curve("threads", "Threads on separate names, one client", "threads",
          [1, 2, 4, 8, 16, 32, 64, 128, 256], pairs_lines("ours-pairs", "floor-pairs"),
          {"ms": 1000}, {"ms": 100}),
    Curve("in-flight", "Pairs in flight, one thread", "pairs in flight",
          [1, 10, 100, 1000, 10000], pairs_lines("ours-async", "floor-async"),
          {"ms": 1000}, {"ms": 100}),
]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How costs grow with the work.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="few points, once; nothing is written")
    parser.add_argument("--runs", type=int, default=RUNS)
    return parser.parse_args()


def measure_point(bench: Bench, curve: Curve, work: int) -> list[float]:
    """What each line has there. A program that several lines share runs once for all."""
    answers: dict[tuple, dict[str, float]] = {}
    settings = {"tcp": bench.tcp, "n": work, **(curve.quick if bench.quick else curve.full)}
    for command in {tuple(line.command): None for line in curve.lines}:
        words = [word.format(**settings) for word in command]
        runs = 1 if bench.quick else curve.runs or bench.runs
        answers[command] = medians([run_program(bench, words) for _ in range(runs)])
    return [answers[tuple(line.command)][line.key] * line.scale / (work if line.per_work else 1)
            for line in curve.lines]


def measure(bench: Bench, curve: Curve) -> dict:
    points = curve.points[:QUICK_POINTS] if bench.quick else curve.points
    values = []
    for work in points:
        values.append(measure_point(bench, curve, work))
        print(f"{curve.name} {work:,}: " +
              ", ".join(f"{line.name} {number(value)} {line.unit}"
                        for line, value in zip(curve.lines, values[-1])), flush=True)
    return {"name": curve.name, "points": points,
            "lines": [{"name": line.name, "command": " ".join(line.command), "unit": line.unit,
                       "values": [row[at] for row in values]}
                      for at, line in enumerate(curve.lines)]}


def table(curve: Curve, result: dict) -> list[str]:
    heads = [f"{line['name']} ({line['unit']})" for line in result["lines"]]
    lines = ["", f"## {curve.title}", "", f"| {curve.work} | {' | '.join(heads)} |",
             "|--:" * (1 + len(heads)) + "|"]
    for at, work in enumerate(result["points"]):
        cells = [number(line["values"][at]) for line in result["lines"]]
        lines.append(f"| {work:,} | {' | '.join(cells)} |")
    return lines


def write_page(document: dict) -> None:
    """The tables go below the line in the page; the text above it is written by hand."""
    path, mark = ROOT / "docs" / "curves.md", "<!-- below: made by `bench/curves.py` -->"
    head = path.read_text().split(mark)[0] if path.exists() else "# Curves\n\n"
    about = document["machine"]
    facts = (f"Measured {document['date']}: {about['cpu']}, {about['cores']} cores; medians of "
             f"{document['runs']} runs (locks: one run). All values: "
             "`bench/results/curves.json`.")
    tables = [line for curve, result in zip(CURVES, document["curves"])
              for line in table(curve, result)]
    path.write_text("\n".join([head + mark, "", facts, *tables, ""]))


def panel(curve: Curve, result: dict) -> str:
    """What gnuplot draws of one curve: the data as a block, then its lines."""
    block = f"${curve.name.replace('-', '_')}"
    rows = "\n".join(" ".join(f"{value:.6g}" for value in (work, *values)) for work, *values in
                     zip(result["points"], *(line["values"] for line in result["lines"])))
    # A log axis has no place for nothing.
    plots = ", ".join(f'{block} using 1:(${at + 2}>0?${at + 2}:NaN) with linespoints lw 2 '
                      f'title "{line["name"]} ({line["unit"]})"'
                      for at, line in enumerate(result["lines"]))
    return (f'{block} << EOD\n{rows}\nEOD\nset title "{curve.title}"\n'
            f'set xlabel "{curve.work}"\nplot {plots}\n')


def write_picture(document: dict) -> None:
    script = f"""
set terminal svg size 1000,760 font "sans-serif,12" background "#ffffff"
set output "{ROOT / 'docs' / 'curves.svg'}"
set multiplot layout 2,2
set logscale xy
set format x "%.0f"
set tics nomirror
set grid lc rgb "#dddddd"
set key outside below samplen 2
set xlabel offset 0,0.4
""" + "".join(panel(curve, result) for curve, result in zip(CURVES, document["curves"]))
    with tempfile.NamedTemporaryFile("w", suffix=".gnuplot") as file:
        file.write(script)
        file.flush()
        subprocess.run(["gnuplot", file.name], check=True)


def keep(options: argparse.Namespace, results: list[dict]) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    document = {"date": now.strftime("%Y-%m-%d %H:%M UTC"), **machine.describe(options.build),
                "runs": options.runs, "curves": results}
    path = ROOT / "bench" / "results" / "curves.json"
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    write_page(document)
    write_picture(document)
    print("\nwritten: curves.json, docs/curves.md, docs/curves.svg")


def main() -> int:
    options = arguments()
    results, failures = [], 0
    with prepared(options.build.resolve(), options.quick, options.runs) as bench:
        for curve in CURVES:
            try:
                results.append(measure(bench, curve))
            except (Failed, OSError, ValueError) as failure:
                failures += 1
                print(f"{curve.name}: NO FIGURES: {failure}", flush=True)
    if not failures and not options.quick:
        keep(options, results)
    print(f"{len(results)} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
