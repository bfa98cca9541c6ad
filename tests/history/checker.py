"""Checks a history: what several processes asked and were answered, and so who believed what, when.

A claim is the time in which its owner believed that it held the lock: from the return of the
acquire to the begin of the release, or to the last deadline it knew, whichever is first. All
times are CLOCK_BOOTTIME of one machine, so claims of several processes can be compared.

What nobody was told is no claim: an attempt without an answer (its process was killed), one whose
outcome is unknown, and a grant that was over when it was returned. So whatever is found here is a
violation, whichever way the unknown went.
"""
from __future__ import annotations

import pathlib
import struct
from collections import defaultdict
from dataclasses import dataclass, field

RECORD = struct.Struct("<qqIIIIiIqII4xI")
INVOKE, GRANTED, FAILED, RELEASE, RELEASED = range(1, 6)
# What an attempt is about: all of the lock, a share that readers have, so many permits; a latch is
# counted down by some and waited for by others.
EXCLUSIVE, SHARED, PERMITS, COUNT_DOWN, LATCH_WAIT = range(5)
HOLDS = (EXCLUSIVE, SHARED, PERMITS)
assert RECORD.size == 64


@dataclass(frozen=True)
class Record:
    time_ns: int
    deadline_ns: int
    owner: tuple  # run, process, thread
    attempt: object  # of this owner
    lock: object
    code: object
    phase: int
    mode: int = EXCLUSIVE
    permits: int = 0
    fence: int = 0  # of a grant; 0: it has none


@dataclass(frozen=True)
class Claim:
    lock: object
    owner: object
    start_ns: int
    end_ns: int
    invoke_ns: int = 0  # when it was asked for; 0: not known
    mode: int = EXCLUSIVE
    permits: int = 0
    fence: int = 0

    def __str__(self) -> str:
        what = ("", " as a reader", f" {self.permits} permits of")[self.mode]
        return f"{self.owner} has{what} {self.lock!r} from {self.start_ns} to {self.end_ns}"

    def excludes(self, other: Claim) -> bool:
        """Whether both at once are one too many. A writer may read what it has locked."""
        if self.mode == other.mode == EXCLUSIVE:
            return True
        return EXCLUSIVE in (self.mode, other.mode) and self.owner != other.owner


@dataclass(frozen=True)
class Sighting:
    """A fair lock as Redis had it at one moment: its holder, and its queue, first come first."""
    holder: object
    queue: tuple = field(default=())


def read(*paths: pathlib.Path) -> list[Record]:
    """The records of some files of the driver; unfinished ones are left out."""
    records = []
    for path in paths:
        for row in RECORD.iter_unpack(used(path)):
            time_ns, deadline_ns, process, thread, attempt, lock, code, run = row[:8]
            fence, permits, mode, phase = row[8:]
            if phase:
                owner = (run, process, thread)
                records.append(Record(time_ns, deadline_ns, owner, attempt, lock, code, phase,
                                      mode, permits, fence))
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
        if not grant or grant.mode not in HOLDS:
            continue
        release = phases.get(RELEASE)
        end_ns = max(grant.deadline_ns, release.deadline_ns if release else 0)
        if release:
            end_ns = min(end_ns, release.time_ns)
        invoke_ns = phases[INVOKE].time_ns if INVOKE in phases else 0
        if end_ns > grant.time_ns:
            made.append(Claim(grant.lock, grant.owner, grant.time_ns, end_ns, invoke_ns,
                              grant.mode, grant.permits, grant.fence))
    return made


def by_lock(made: list[Claim]) -> dict[object, list[Claim]]:
    """The claims of each lock, by their begin."""
    rows = defaultdict(list)
    for claim in sorted(made, key=lambda claim: (claim.start_ns, claim.end_ns)):
        if claim.end_ns > claim.start_ns:
            rows[claim.lock].append(claim)
    return rows


def overlaps(made: list[Claim]) -> list[tuple[Claim, Claim]]:
    """Pairs of claims on one lock that exclude each other, and overlap."""
    found = []
    for row in by_lock(made).values():
        running: list[Claim] = []
        for claim in row:
            running = [other for other in running if other.end_ns > claim.start_ns]
            found += [(other, claim) for other in running if other.excludes(claim)]
            running.append(claim)
    return found


def too_many(made: list[Claim], permits: int) -> list[tuple[Claim, int]]:
    """Claims with which more permits were out than there are, and how many then were."""
    found = []
    for row in by_lock([claim for claim in made if claim.mode == PERMITS]).values():
        running: list[Claim] = []
        for claim in row:
            running = [other for other in running if other.end_ns > claim.start_ns] + [claim]
            out = sum(other.permits for other in running)
            if out > permits:
                found.append((claim, out))
    return found


def bad_fences(records: list[Record]) -> list[str]:
    """Tokens that repeat, or fall from one claim of a lock to its next."""
    found, seen = [], {}
    records = [record for record in records if record.phase != GRANTED or record.fence]
    for record in records:
        if record.phase == GRANTED:
            before = seen.setdefault((record.lock, record.fence), record)
            if before is not record:
                found.append(f"token {record.fence} was given to {before.owner} and {record.owner}")
    for row in by_lock(claims(records)).values():
        found += [f"token {after.fence} of {after.owner} came after {before.fence}"
                  for before, after in zip(row, row[1:]) if after.fence < before.fence]
    return found


def stuck(records: list[Record], limit_ns: int) -> list[str]:
    """Who asked in vain for longer than the limit while nobody could have had the lock.

    The limit has to be longer than any lease: an attempt without an answer may have been granted.
    """
    found = []
    for lock, rows in grouped(records).items():
        ends = [(phases, last_sign_ns(phases)) for phases in rows]
        for phases in rows:
            failed = phases.get(FAILED)
            if not failed or INVOKE not in phases:
                continue
            idle_ns = max([phases[INVOKE].time_ns] + [end_ns for other, end_ns in ends
                                                      if other is not phases])
            if failed.time_ns - idle_ns > limit_ns:
                found.append(f"{failed.owner} did not get {lock!r}, which nobody had, within"
                             f" {(failed.time_ns - idle_ns) / 1e9:.1f} s")
    return found


def grouped(records: list[Record]) -> dict[object, list[dict[int, Record]]]:
    rows = defaultdict(list)
    for phases in attempts(records):
        rows[next(iter(phases.values())).lock].append(phases)
    return rows


def last_sign_ns(phases: dict[int, Record]) -> int:
    """When an attempt was over for all that is known: by its last record, or its deadline."""
    last = max(phases.values(), key=lambda record: record.phase)
    if last.phase in (FAILED, RELEASED):
        return last.time_ns
    return max(max(record.time_ns, record.deadline_ns) for record in phases.values())


def opened_early(records: list[Record], count: int) -> list[str]:
    """Waits for a latch that ended well before so many had begun to count it down."""
    found = []
    for lock, rows in grouped(records).items():
        downs = sorted(phases[INVOKE].time_ns for phases in rows
                       if INVOKE in phases and phases[INVOKE].mode == COUNT_DOWN)
        opens_ns = downs[count - 1] if len(downs) >= count else float("inf")
        found += [f"{phases[GRANTED].owner} passed {lock!r} at {phases[GRANTED].time_ns}, which"
                  f" was not to open before {opens_ns}" for phases in rows
                  if GRANTED in phases and phases[GRANTED].mode == LATCH_WAIT
                  and phases[GRANTED].time_ns < opens_ns]
    return found


def overtaken(sightings: list[Sighting]) -> list[str]:
    """Who became the holder while one that had stood before it still stood in the queue, or who
    came later and stands before it.

    A fair lock is to be sighted more often than its waiters' time limits run out.
    """
    found = []
    for before, after in zip(sightings, sightings[1:]):
        found += cut_in(before.queue, after.queue)
        if after.holder is None or after.holder == before.holder:
            continue
        place = before.queue.index(after.holder) if after.holder in before.queue else None
        found += [f"{after.holder} overtook {waiter}" for waiter in before.queue[:place]
                  if waiter in after.queue and not came_back(waiter, before.queue, after.queue)]
    return found


def cut_in(before: tuple, after: tuple) -> list[str]:
    old = [place for place, waiter in enumerate(after) if waiter in before]
    return [f"{waiter} cut in before {after[old[-1]]}" for place, waiter in enumerate(after)
            if waiter not in before and old and place < old[-1]]


def came_back(waiter: object, before: tuple, after: tuple) -> bool:
    """Its time was up meanwhile: it stands behind one that it stood before."""
    behind = before[before.index(waiter) + 1:]
    return any(other in behind for other in after[:after.index(waiter)])


def returned_over(records: list[Record]) -> list[Record]:
    """Grants whose deadline had passed when the acquire returned them."""
    return [record for record in records if record.phase == GRANTED and record.mode in HOLDS
            and record.time_ns >= record.deadline_ns]


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


def violations(records: list[Record], permits: int | None = None, count: int | None = None,
               idle_limit_ns: int | None = None) -> list[str]:
    """All that is wrong: of a semaphore `permits` are there, a latch opens at the `count`-th."""
    made = claims(records)
    found = [f"two owners: {first} | {second}" for first, second in overlaps(made)]
    found += [f"bad fence: {text}" for text in bad_fences(records)]
    if permits is not None:
        found += [f"too many permits: {out} of {permits} with {claim}"
                  for claim, out in too_many(made, permits)]
    if count is not None:
        found += [f"opened early: {text}" for text in opened_early(records, count)]
    if idle_limit_ns is not None:
        found += [f"stuck: {text}" for text in stuck(records, idle_limit_ns)]
    return found


def check(records: list[Record], over_allowed: int = 0, **limits) -> list[Claim]:
    """Asserts that a history is legal, and returns its claims."""
    assert not malformed(records), malformed(records)[:5]
    over = returned_over(records)
    assert len(over) <= over_allowed, f"{len(over)} grants were over when returned: {over[:5]}"
    found = violations(records, **limits)
    assert not found, f"{len(found)} violations: {found[:5]}"
    return claims(records)
