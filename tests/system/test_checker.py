"""The checker on histories made by hand: it passes the legal ones and bites at the others."""
from __future__ import annotations

import random

import pytest

import checker
from checker import FAILED, GRANTED, INVOKE, RECORD, RELEASE, RELEASED, Claim, Record


def attempt(owner: int, start: int, granted: int, release: int | None, deadline: int,
            lock=0, number: int = 0, last_deadline: int = 0, code: int = 0) -> list[Record]:
    """One attempt: asked, granted, released (None: never), with its deadlines."""
    who = (0, 1, owner)
    records = [Record(start, 0, who, number, lock, 0, INVOKE),
               Record(granted, deadline, who, number, lock, 0, GRANTED)]
    if release is not None:
        records += [Record(release, last_deadline or deadline, who, number, lock, 0, RELEASE),
                    Record(release + 1, deadline, who, number, lock, code, RELEASED)]
    return records


def failed(owner: int, start: int, end: int, number: int = 0) -> list[Record]:
    who = (0, 1, owner)
    return [Record(start, 0, who, number, 0, 0, INVOKE),
            Record(end, 0, who, number, 0, -4, FAILED)]


LEGAL = {
    "one after the other": attempt(1, 0, 10, 20, 100) + attempt(2, 5, 20, 30, 100),
    "a wait that spans holds": attempt(1, 0, 10, 20, 100) + attempt(2, 0, 21, 30, 100)
    + attempt(3, 0, 31, 40, 100),
    "after the lease of one that never released": attempt(1, 0, 10, None, 50)
    + attempt(2, 5, 50, 60, 100),
    "late release after the lease": attempt(1, 0, 10, 80, 50) + attempt(2, 5, 55, 90, 150),
    "two locks at once": attempt(1, 0, 10, 50, 100) + attempt(2, 0, 10, 50, 100, lock=1),
    "renewed, then released": attempt(1, 0, 10, 150, 100, last_deadline=200)
    + attempt(2, 20, 151, 160, 300),
    "the same owner twice": attempt(1, 0, 10, 20, 100) + attempt(1, 25, 30, 40, 130, number=1),
    "one that failed meanwhile": attempt(1, 0, 10, 50, 100) + failed(2, 20, 30),
    "an invoke without an end": attempt(1, 0, 10, 20, 100)
    + [Record(15, 0, (0, 1, 2), 0, 0, 0, INVOKE)],
    "same clock tick": attempt(1, 0, 10, 20, 100) + attempt(2, 0, 20, 20, 100),
}

OVERLAPPING = {
    "granted before the release": attempt(1, 0, 10, 20, 100) + attempt(2, 5, 19, 30, 100),
    "granted within the lease of one that never released": attempt(1, 0, 10, None, 50)
    + attempt(2, 5, 49, 60, 100),
    "inside another": attempt(1, 0, 10, 90, 100) + attempt(2, 5, 40, 50, 100),
    "same instant": attempt(1, 0, 10, 20, 100) + attempt(2, 0, 10, 20, 100),
    "a renewal saw the longer deadline": attempt(1, 0, 10, 150, 100, last_deadline=200)
    + attempt(2, 20, 120, 130, 300),
    "the same owner over itself": attempt(1, 0, 10, 50, 100) + attempt(1, 5, 20, 30, 100, number=1),
    "behind a short one inside a long one": attempt(1, 0, 10, 90, 100)
    + attempt(2, 0, 20, 20, 15) + attempt(3, 0, 80, 85, 200),
}

MALFORMED = {
    "granted, never asked": attempt(1, 0, 10, 20, 100)[1:],
    "granted and failed": attempt(1, 0, 10, 20, 100) + failed(1, 0, 11)[1:],
    "released, never granted": [attempt(1, 0, 10, 20, 100)[i] for i in (0, 2, 3)],
    "answer without a release": [attempt(1, 0, 10, 20, 100)[i] for i in (0, 1, 3)],
    "goes back in time": attempt(1, 30, 10, 20, 100),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal(name):
    checker.check(LEGAL[name])


@pytest.mark.parametrize("name", OVERLAPPING)
def test_overlap(name):
    assert checker.overlaps(checker.claims(OVERLAPPING[name]))
    with pytest.raises(AssertionError):
        checker.check(OVERLAPPING[name])


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name):
    with pytest.raises(AssertionError):
        checker.check(MALFORMED[name])


def test_recorded_twice():
    with pytest.raises(ValueError):
        checker.check(attempt(1, 0, 10, 20, 100) * 2)


def test_grant_that_was_over():
    records = attempt(1, 0, 60, 70, 50)
    assert len(checker.returned_over(records)) == 1
    with pytest.raises(AssertionError):
        checker.check(records)
    checker.check(records, over_allowed=1)


def test_read_leaves_out_what_was_not_finished(tmp_path):
    whole = RECORD.pack(5, 9, 1, 2, 3, 4, -1, 7, b"", INVOKE)
    torn = RECORD.pack(6, 9, 1, 2, 4, 4, -1, 7, b"", 0)
    path = tmp_path / "history"
    path.write_bytes(whole + torn + whole[:30])
    assert checker.read(path) == [Record(5, 9, (7, 1, 2), 3, 4, -1, INVOKE)]


def legal_at_random(generator: random.Random, locks: int = 3, grants: int = 40) -> list[Record]:
    """A run of a correct lock: each grant begins when the one before is released or over."""
    records, free_at = [], [0] * locks
    for number in range(grants):
        lock = generator.randrange(locks)
        granted = free_at[lock] + generator.randint(1, 5)
        deadline = granted + generator.randint(5, 40)
        hold = generator.randint(1, 60)
        release = None if generator.random() < 0.1 else granted + hold
        records += attempt(number, max(0, granted - generator.randint(1, 30)), granted, release,
                           deadline, lock)
        free_at[lock] = min(deadline, release if release is not None else deadline)
    return records


def test_random_legal_histories_pass_and_bent_ones_do_not():
    generator = random.Random(20261121)
    for _ in range(300):
        records = legal_at_random(generator)
        generator.shuffle(records)
        made = checker.check(records)
        victim = generator.choice(made)
        middle = (victim.start_ns + victim.end_ns) / 2
        stranger = Claim(victim.lock, "stranger", middle, middle + 1)
        assert checker.overlaps(made + [stranger])
        assert not checker.overlaps(made + [Claim(99, "stranger", middle, middle + 1)])
