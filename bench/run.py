#!/usr/bin/env python3
"""Figures of the library beside bare hiredis programs and other libraries, as ratios in one run.

usage: run.py --build DIR [--quick] [--only ROW[,ROW…] [--update]] [--runs N] [--results DIR]
              [--against DIR] [--list]

Both sides are run in turn, so that what else the machine does falls on both. Results, pictures and
the page docs/performance.md are written by a full run of all rows; --quick only shows that each
program gives figures. With --against, another build takes the place of the floor. Rows beside
another library (bench/peers) are skipped, with the reason, where it cannot be had. Exit status: 0
also when a target is missed, 1 when a row gave no figures.
"""
from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import sys

import machine
import page
import peer_programs
from measure import Failed, measure, prepared
from rows import all_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = 5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures Lockkeeper beside bare programs.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="once, and short; nothing is written")
    parser.add_argument("--only", help="these rows, parted by commas; nothing is written")
    parser.add_argument("--update", action="store_true",
                        help="with --only: put these rows into the newest results")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--against", type=pathlib.Path,
                        help="another build to compare with; nothing is written")
    parser.add_argument("--list", action="store_true", help="names the rows")
    return parser.parse_args()


def chosen(names: str | None) -> list:
    rows = {row.name: row for row in all_rows()}
    if not names:
        return list(rows.values())
    wrong = [name for name in names.split(",") if name not in rows]
    if wrong:
        sys.exit(f"bench: no row is called {', '.join(wrong)}; --list names them")
    return [rows[name] for name in names.split(",")]


def available(options: argparse.Namespace, rows: list) -> tuple[list, dict[str, str]]:
    """The rows that can be measured here, and which other libraries cannot be had, and why. Two
    builds of ours are compared without other libraries."""
    if options.quick and not options.only:
        rows = [row for row in rows if row.in_quick]
    if options.against:
        return [row for row in rows if not row.peer], {}
    missing = peer_programs.built(options.build, {row.peer for row in rows if row.peer})
    return [row for row in rows if row.peer not in missing], missing


def as_text(document: dict) -> str:
    """JSON with a line for each member, and for each row."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
             for key, value in document.items() if key != "rows"]
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    return "{\n" + ",\n".join([*lines, f'"rows": [\n{rows}\n]']) + "\n}\n"


def write(path: pathlib.Path, document: dict, options: argparse.Namespace) -> None:
    path.write_text(as_text(document))
    pages = page.write(ROOT / "docs", document, path.relative_to(options.results.parent.parent))
    print(f"\nwritten: {path.name}, {', '.join(f'docs/{name}' for name in pages)}")


def keep(options: argparse.Namespace, results: list[dict], missing: dict[str, str]) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    document = {"date": now.strftime("%Y-%m-%d %H:%M UTC"), **machine.describe(options.build),
                "runs_a_side": options.runs, "not_there": list(missing), "rows": results}
    options.results.mkdir(parents=True, exist_ok=True)
    write(options.results / f"{now:%Y-%m-%d}-{machine.label()}.json", document, options)


def update(options: argparse.Namespace, results: list[dict]) -> None:
    """Rows measured later, on the same machine, say when and of which tree in their own words."""
    path = max(options.results.glob(f"*-{machine.label()}.json"))
    document = json.loads(path.read_text())
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    fresh = {row["name"]: {**row, "date": now, **machine.describe(options.build)}
             for row in results}
    rows = {row["name"]: row for row in document["rows"]} | fresh
    document["rows"] = [rows[row.name] for row in all_rows() if row.name in rows]
    write(path, document, options)


def main() -> int:
    options = arguments()
    rows = chosen(options.only)
    if options.list:
        print("\n".join(f"{row.name:20} {row.title}" for row in rows))
        return 0
    rows, missing = available(options, rows)
    for peer, reason in missing.items():
        print(f"{peer}: SKIPPED: {reason}", flush=True)
    results, failed = [], []
    other = options.against.resolve() if options.against else None
    with prepared(options.build.resolve(), options.quick, options.runs, other) as bench:
        for row in rows:
            try:
                results.append(measure(bench, row))
                print(page.plain(results[-1]), flush=True)
            except (Failed, OSError, ValueError) as failure:
                failed.append(row)
                print(f"{row.name}: NO FIGURES: {failure}", flush=True)
    # What another library does not do costs its own row alone.
    writes = not options.against and all(row.peer for row in failed)
    if writes and not options.quick and not options.only:
        keep(options, results, missing)
    if writes and options.only and options.update:
        update(options, results)
    skipped = f", {len(missing)} other libraries skipped" if missing else ""
    print(f"{len(results)} passed, {len(failed)} failed{skipped}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
