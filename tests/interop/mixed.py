"""Histories of several libraries as one, for the checker of tests/system."""
from __future__ import annotations

import json
import pathlib

import checker


def read_peer(path: pathlib.Path, run: int, **about) -> list[checker.Record]:
    """The history that a peer's stress wrote: a JSON object a line. Only one lock a file.

    `about`: mode and permits, where they are not those of a lock.
    """
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [checker.Record(time_ns=row["time_ns"], deadline_ns=row["deadline_ns"],
                           owner=(run, 0, row["thread"]), attempt=row["attempt"], lock=0,
                           code=-5 if row["phase"] == checker.FAILED else 0,
                           phase=row["phase"], fence=row.get("fence", 0), **about)
            for row in rows]


def contend(ours, theirs, history, ours_threads=4, theirs_threads=4, ours_pairs=300,
            theirs_pairs=100, **options) -> list[checker.Record]:
    """Both take the lock "hot" under load, each so often; the records of all."""
    paths = history(), history()
    runs = [ours.say("stress", "hot", thread="s", threads=ours_threads, pairs=ours_pairs, run=1,
                     history=paths[0], **options),
            theirs.say("stress", "hot", thread="s", threads=theirs_threads, pairs=theirs_pairs,
                       history=paths[1], **options)]
    try:
        answers = [run.result(60) for run in runs]
    finally:
        ours.call("stop", thread="-")
        theirs.call("stop", thread="-")
    assert answers[0]["grants"] == ours_threads * ours_pairs, dict(answers[0])
    assert answers[1]["grants"] == theirs_threads * theirs_pairs, dict(answers[1])
    return checker.read(paths[0]) + read_peer(paths[1], run=2)


def switches(claims: list[checker.Claim]) -> int:
    """How often the lock went from one library to the other."""
    runs = [claim.owner[0] for claim in sorted(claims, key=lambda claim: claim.start_ns)]
    return sum(before != after for before, after in zip(runs, runs[1:]))
