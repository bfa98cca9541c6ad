"""Histories of several libraries as one, for the checker of tests/system."""
from __future__ import annotations

import json
import pathlib

import checker
from waiting import until


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
            theirs_pairs=100, name="hot", **options) -> list[checker.Record]:
    """Both take one lock under load, each so often; the records of all."""
    paths = history(), history()
    runs = [ours.say("stress", name, thread="s", threads=ours_threads, pairs=ours_pairs, run=1,
                     history=paths[0], **options),
            theirs.say("stress", name, thread="s", threads=theirs_threads, pairs=theirs_pairs,
                       history=paths[1], **options)]
    try:
        answers = [run.result(60) for run in runs]
    finally:
        ours.call("stop", thread="-")
        theirs.call("stop", thread="-")
    assert answers[0]["grants"] == ours_threads * ours_pairs, dict(answers[0])
    assert answers[1]["grants"] == theirs_threads * theirs_pairs, dict(answers[1])
    return checker.read(paths[0]) + read_peer(paths[1], run=2)


def read_and_write(ours, theirs, history, name: str, pairs: tuple[int, int]) -> None:
    """Readers and writers of both; the checker knows that readers may share. `pairs`: how often
    each thread of ours, and of theirs."""
    paths = {(keeper, kind): history() for keeper in (ours, theirs) for kind in ("read", "write")}
    wanted = {ours: pairs[0], theirs: pairs[1]}
    runs = {keeper.say("stress", name, kind=kind, thread=kind, threads=3, pairs=wanted[keeper],
                       hold_us=300, pause_us=2000, run=number, history=path): 3 * wanted[keeper]
            for number, ((keeper, kind), path) in enumerate(paths.items())}
    for run, grants in runs.items():
        answer = run.result(60)
        assert answer["grants"] == grants, dict(answer)
    records = []
    for number, ((keeper, kind), path) in enumerate(paths.items()):
        mode = checker.SHARED if kind == "read" else checker.EXCLUSIVE
        records += checker.read(path) if keeper is ours else read_peer(path, number, mode=mode)
    shared = sorted((claim for claim in checker.check(records) if claim.mode == checker.SHARED),
                    key=lambda claim: claim.start_ns)
    assert any(before.owner[0] != after.owner[0] and after.start_ns < before.end_ns
               for before, after in zip(shared, shared[1:])), "readers never shared"


def take_several(ours, theirs, history, names: str, pairs: tuple[int, int]) -> None:
    """Multi locks, taken in opposite orders: neither blocks the other for good, and no part has two
    owners."""
    paths, reverse = (history(), history()), ",".join(reversed(names.split(",")))
    runs = [keeper.say("stress", order, kind="multi", thread="s", threads=2, pairs=count,
                       wait=20000, hold_us=500, pause_us=4000, run=number, history=path)
            for number, (keeper, path, order, count)
            in enumerate(zip((ours, theirs), paths, (names, reverse), pairs))]
    answers = [run.result(100) for run in runs]
    assert [answer["grants"] for answer in answers] == [2 * count for count in pairs], answers
    checker.check(checker.read(paths[0]) + read_peer(paths[1], run=1))


def take_permits(ours, theirs, history, name: str, kind: str, pairs: tuple[int, int]) -> None:
    """Of three; in the end all are back."""
    theirs.call("set", name, kind=kind, count=3).ok()
    for keeper in (ours, theirs):  # neither is done before the other has connected
        keeper.call("stress", name, kind=kind, thread="s", threads=4, pairs=1, history=history())
    paths = history(), history()
    runs = [keeper.say("stress", name, kind=kind, thread="s", threads=4, pairs=count, hold_us=300,
                       pause_us=300, run=number, history=path)
            for number, (keeper, path, count) in enumerate(zip((ours, theirs), paths, pairs))]
    answers = [run.result(60) for run in runs]
    assert [answer["grants"] for answer in answers] == [4 * count for count in pairs], answers
    records = checker.read(paths[0]) + read_peer(paths[1], 1, mode=checker.PERMITS, permits=1)
    assert switches(checker.check(records, permits=3)) > 10
    until(lambda: all(keeper.call("available", name, kind=kind).ok()["result"] == 3
                      for keeper in (ours, theirs)), 5, "all permits are back")


def switches(claims: list[checker.Claim]) -> int:
    """How often the lock went from one library to the other."""
    runs = [claim.owner[0] for claim in sorted(claims, key=lambda claim: claim.start_ns)]
    return sum(before != after for before, after in zip(runs, runs[1:]))
