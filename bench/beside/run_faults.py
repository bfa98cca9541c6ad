#!/usr/bin/env python3
"""Asks each system each question of faults/: what happens when?

usage: run_faults.py [--build DIR] [--ask QUESTION,…] [--only KEY,…] [--into FILE]

One line of JSON for each answer, and in the end all of them in FILE, where --ask and --only put
theirs in the place of older ones. One at a time: the answers tell times.
"""
from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE / "faults"), str(ROOT / "bench")]

import machine  # noqa: E402  (behind the path)
import stage  # noqa: E402
from systems import SYSTEMS, Programs, versions  # noqa: E402

QUESTIONS = ["pool", "faulty", "reentry", "killed_holder", "cut_connection", "killed_server",
             "stopped_holder", "vanished_host", "open_transaction"]


def write(path: pathlib.Path, about: dict, rows: list[dict]) -> None:
    """With the answers that are there, of other questions or systems, and how long all took."""
    def place(row: dict) -> tuple[int, int]:
        return QUESTIONS.index(row["question"]), list(about["systems"]).index(row["system"])

    asked = [place(row) for row in rows]
    if path.exists() and len(rows) < len(QUESTIONS) * len(SYSTEMS):
        before = json.loads(path.read_text())
        rows = rows + [row for row in before["rows"] if place(row) not in asked]
        about = {**about, "seconds": before["seconds"]}
    document = {**about, "rows": sorted(rows, key=place)}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ask", default=",".join(QUESTIONS), help="questions, by their scripts")
    parser.add_argument("--only", default=",".join(system.key for system in SYSTEMS),
                        help="systems, by their keys")
    parser.add_argument("--into", type=pathlib.Path)
    arguments = parser.parse_args()
    questions = [importlib.import_module(name).QUESTION for name in arguments.ask.split(",")]
    systems = [system for system in SYSTEMS if system.key in arguments.only.split(",")]
    programs, begun, rows = Programs(arguments.build), time.monotonic(), []
    about = {**machine.describe(arguments.build), "server": "as its package has it",
             "servers": versions(), "date": time.strftime("%Y-%m-%d"),
             "patience_s": stage.PATIENCE_S,
             "systems": {system.key: system.title for system in SYSTEMS}}
    for asked in questions:
        for system in systems:
            rows.append(stage.answer(asked, system, programs))
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    about["seconds"] = round(time.monotonic() - begun)
    if arguments.into:
        write(arguments.into, about, rows)


if __name__ == "__main__":
    main()
