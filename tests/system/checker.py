"""Checks a history: who believed to own what, and when.

A claim is the time in which its owner believed that it held the lock: from the return of the
acquire to the begin of the release, or to the last deadline it knew, whichever is first. All
times are CLOCK_BOOTTIME of one machine, so claims of several processes can be compared.
"""
from __future__ import annotations

import pathlib
import struct
from dataclasses import dataclass

RECORD = struct.Struct("<qqIIIIiI20sI")
INVOKE, GRANTED, FAILED, RELEASE, RELEASED = range(1, 6)
MAYBE_HELD = -9
assert RECORD.size == 64


@dataclass(frozen=True)
class Record:
    time_ns: int
    deadline_ns: int
    owner: tuple[int, int, int]  # run, process, thread
    attempt: int
    lock: object
    code: int
    phase: int


@dataclass(frozen=True)
class Claim:
    lock: object
    owner: object
    start_ns: int
    end_ns: int
    invoke_ns: int = 0  # when it was asked for; 0: not known

    def __str__(self) -> str:
        return f"{self.owner} has {self.lock!r} from {self.start_ns} to {self.end_ns}"


def read(*paths: pathlib.Path) -> list[Record]:
    """The records of some files of the driver; unfinished ones are left out."""
    records = []
    for path in paths:
        for row in RECORD.iter_unpack(used(path)):
            time_ns, deadline_ns, process, thread, attempt, lock, code, run, _, phase = row
            if phase:
                owner = (run, process, thread)
                records.append(Record(time_ns, deadline_ns, owner, attempt, lock, code, phase))
    return records


def used(path: pathlib.Path) -> bytes:
    """The bytes of a file up to its first long stretch of zeros: it was made larger than needed."""
    data, size = b"", 4096 * RECORD.size
    if not path.exists():
        return data  # its run has not begun
    with open(path, "rb") as file:
        while (piece := file.read(size)).strip(b"\0"):
            data += piece
    return data[:len(data) - len(data) % RECORD.size]


def attempts(records: list[Record]) -> list[dict[int, Record]]:
    """The records of each attempt, by phase. A phase that comes twice is an error."""
    found: dict[tuple, dict[int, Record]] = {}
    for record in records:
        phases = found.setdefault((record.owner, record.attempt), {})
        if record.phase in phases:
            raise ValueError(f"recorded twice: {record}")
        phases[record.phase] = record
    return list(found.values())


def claims(records: list[Record]) -> list[Claim]:
    """The claims in a history. Grants that were over when they were returned are left out."""
    made = []
    for phases in attempts(records):
        grant = phases.get(GRANTED)
        if not grant:
            continue
        release = phases.get(RELEASE)
        end_ns = max(grant.deadline_ns, release.deadline_ns if release else 0)
        if release:
            end_ns = min(end_ns, release.time_ns)
        invoke_ns = phases[INVOKE].time_ns if INVOKE in phases else 0
        if end_ns > grant.time_ns:
            made.append(Claim(grant.lock, grant.owner, grant.time_ns, end_ns, invoke_ns))
    return made


def overlaps(made: list[Claim]) -> list[tuple[Claim, Claim]]:
    """Pairs of claims on one lock that overlap: violations of mutual exclusion."""
    found = []
    latest: dict[object, Claim] = {}
    for claim in sorted(made, key=lambda claim: (claim.start_ns, claim.end_ns)):
        before = latest.get(claim.lock)
        if before and claim.start_ns < before.end_ns and claim.end_ns > claim.start_ns:
            found.append((before, claim))
        if not before or claim.end_ns > before.end_ns:
            latest[claim.lock] = claim
    return found


def returned_over(records: list[Record]) -> list[Record]:
    """Grants whose deadline had passed when the acquire returned them."""
    return [record for record in records
            if record.phase == GRANTED and record.time_ns >= record.deadline_ns]


def malformed(records: list[Record]) -> list[str]:
    """What no run can produce: answers without a question, releases of what was not granted."""
    found = []
    for phases in attempts(records):
        some = next(iter(phases.values()))
        if INVOKE not in phases:
            found.append(f"no invoke: {some}")
        if GRANTED in phases and FAILED in phases:
            found.append(f"granted and failed: {some}")
        if RELEASE in phases and GRANTED not in phases:
            found.append(f"released, never granted: {some}")
        if RELEASED in phases and RELEASE not in phases:
            found.append(f"answer without release: {some}")
        times = [phases[phase].time_ns for phase in sorted(phases)]
        if times != sorted(times):
            found.append(f"goes back in time: {some}")
    return found


def grants_by(records: list[Record], key) -> dict:
    """Counts grants by key(record)."""
    counts: dict = {}
    for record in records:
        if record.phase == GRANTED:
            counts[key(record)] = counts.get(key(record), 0) + 1
    return counts


def check(records: list[Record], over_allowed: int = 0) -> list[Claim]:
    """Asserts that a history is legal, and returns its claims."""
    assert not malformed(records), malformed(records)[:5]
    over = returned_over(records)
    assert len(over) <= over_allowed, f"{len(over)} grants were over when returned: {over[:5]}"
    made = claims(records)
    found = overlaps(made)
    assert not found, f"{len(found)} overlaps: " + "; ".join(
        f"{first} | {second}" for first, second in found[:5])
    return made
