"""The checker on histories made by hand: it passes the legal ones and bites at the others."""
from __future__ import annotations

import random

import pytest

import checker
from checker import (COUNT_DOWN, FAILED, GRANTED, INVOKE, LATCH_WAIT, PERMITS, RECORD, RELEASE,
                     RELEASED, SHARED, Claim, Record, Sighting)


def attempt(owner: int, start: int, granted: int, release: int | None, deadline: int,
            lock=0, number: int = 0, last_deadline: int = 0, code: int = 0, **what) -> list[Record]:
    """One attempt: asked, granted, released (None: never), with its deadlines."""
    who = (0, 1, owner)
    records = [Record(start, 0, who, number, lock, 0, INVOKE, **what),
               Record(granted, deadline, who, number, lock, 0, GRANTED, **what)]
    if release is not None:
        records += [Record(release, last_deadline or deadline, who, number, lock, 0, RELEASE,
                           **what),
                    Record(release + 1, deadline, who, number, lock, code, RELEASED, **what)]
    return records


def failed(owner: int, start: int, end: int, number: int = 0, code: int = -4) -> list[Record]:
    who = (0, 1, owner)
    return [Record(start, 0, who, number, 0, 0, INVOKE),
            Record(end, 0, who, number, 0, code, FAILED)]


def reader(owner: int, start: int, granted: int, release: int, number: int = 0) -> list[Record]:
    return attempt(owner, start, granted, release, 1000, mode=SHARED, number=number)


def permits(owner: int, granted: int, release: int, count: int = 1) -> list[Record]:
    return attempt(owner, granted - 1, granted, release, 1000, mode=PERMITS, permits=count)


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
    "killed while it asked": [Record(5, 0, (0, 1, 1), 0, 0, 0, INVOKE)]
    + attempt(2, 0, 10, 20, 100),
    "outcome unknown": failed(1, 0, 15, code=-9) + attempt(2, 0, 10, 20, 100),
    "stopped while it held": attempt(1, 0, 10, 200, 100) + attempt(2, 0, 100, 190, 300),
    "stopped while it released": attempt(1, 0, 10, 20, 100)[:3] + attempt(2, 0, 30, 190, 300)
    + [Record(250, 100, (0, 1, 1), 0, 0, -9, RELEASED)],
    "readers together": reader(1, 0, 10, 50) + reader(2, 0, 11, 60) + reader(3, 5, 40, 70),
    "a writer between readers": reader(1, 0, 10, 50) + attempt(2, 0, 50, 60, 100)
    + reader(3, 0, 61, 70),
    "a writer that reads, and goes down to it": attempt(1, 0, 10, 50, 100)
    + reader(1, 20, 30, 80, number=1) + reader(2, 0, 55, 70),
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
    "a writer among readers": reader(1, 0, 10, 50) + reader(2, 0, 11, 20)
    + attempt(3, 0, 45, 60, 100),
    "a reader beside a writer": attempt(1, 0, 10, 50, 100) + reader(2, 0, 20, 30),
    "a second writer in the first one's read": attempt(1, 0, 10, 20, 100)
    + reader(1, 12, 15, 80, number=1) + attempt(2, 0, 30, 40, 100),
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


def test_permits():
    three_of_three = permits(1, 10, 30, 2) + permits(2, 20, 40) + permits(3, 30, 50, 2)
    checker.check(three_of_three, permits=3)
    checker.check(three_of_three + permits(4, 20, 30, 9), permits=12)
    for one_more in (permits(4, 25, 26), permits(4, 29, 60), permits(4, 49, 60, 2)):
        assert checker.too_many(checker.claims(three_of_three + one_more), 3)
        with pytest.raises(AssertionError, match="too many permits"):
            checker.check(three_of_three + one_more, permits=3)


def test_lost_permits_are_legal():
    """Of one that was killed while it held, and of one whose lease ended."""
    history = permits(1, 10, 30, 2)[:2] + attempt(2, 0, 10, None, 50, mode=PERMITS, permits=1)
    checker.check(history + permits(3, 50, 60), permits=3)
    with pytest.raises(AssertionError):
        checker.check(history + permits(3, 49, 60), permits=3)


def fenced(*tokens: int) -> list[Record]:
    """Claims one after the other."""
    return [record for number, token in enumerate(tokens)
            for record in attempt(number, 0, 10 * number + 1, 10 * number + 5, 1000, fence=token)]


def test_fences():
    checker.check(fenced(3, 4, 9, 10))
    checker.check(fenced(3, 4) + attempt(7, 50, 51, 52, 100, lock=1, fence=3))
    checker.check(fenced(5, 0, 6))
    # One that was over when it was returned may have been given long before.
    checker.check(fenced(3, 5) + attempt(7, 0, 90, 91, 80, fence=4), over_allowed=1)


@pytest.mark.parametrize("tokens", [(3, 3), (3, 4, 4), (4, 3), (1, 7, 9, 8), (5, 0, 5), (5, 0, 4)])
def test_bad_fences(tokens):
    with pytest.raises(AssertionError, match="bad fence"):
        checker.check(fenced(*tokens))


def test_a_token_of_an_expired_grant_may_not_repeat():
    with pytest.raises(AssertionError, match="bad fence"):
        checker.check(fenced(3, 4) + attempt(7, 0, 90, 91, 80, fence=4), over_allowed=1)


def latch(downs: list[tuple[int, int]], waits: list[tuple[int, int]]) -> list[Record]:
    """Counted down, and waited for, from … to …"""
    records = []
    for number, (start, end) in enumerate(downs):
        records += attempt(number, start, end, None, 0, mode=COUNT_DOWN)
    for number, (start, end) in enumerate(waits, len(downs)):
        records += attempt(number, start, end, None, 0, mode=LATCH_WAIT)
    return records


def test_latch():
    downs = [(0, 10), (20, 30), (25, 90)]
    checker.check(latch(downs, [(0, 25), (0, 26), (95, 96)]), count=3)
    unanswered = latch(downs, [(0, 40)])
    checker.check([record for record in unanswered if record.time_ns != 90], count=3)
    for early in (24, 5):
        with pytest.raises(AssertionError, match="opened early"):
            checker.check(latch(downs, [(0, early)]), count=3)
    with pytest.raises(AssertionError, match="opened early"):
        checker.check(latch(downs, [(0, 100)]), count=4)


def test_stuck():
    killed = [Record(0, 0, (0, 1, 1), 0, 0, 0, INVOKE)]
    for legal in (killed + failed(2, 10, 60), attempt(1, 0, 10, None, 50) + failed(2, 0, 99),
                  attempt(1, 0, 10, 90, 200) + failed(2, 0, 120),
                  killed + failed(2, 0, 200) + attempt(3, 0, 160, 190, 300),
                  attempt(1, 0, 10, 20, 500)[:3] + failed(2, 0, 540)):
        checker.check(legal, idle_limit_ns=50)
    for illegal in (killed + failed(2, 10, 61), attempt(1, 0, 10, None, 50) + failed(2, 0, 101),
                    attempt(1, 0, 10, 90, 200) + failed(2, 0, 142)):
        with pytest.raises(AssertionError, match="stuck"):
            checker.check(illegal, idle_limit_ns=50)


def sightings(*texts: str) -> list[Sighting]:
    """ "a bc": a holds, b and c wait; "- b": nobody holds. """
    return [Sighting(None if holder == "-" else holder, tuple(queue))
            for holder, _, queue in (text.partition(" ") for text in texts)]


@pytest.mark.parametrize("seen", [
    ("a bc", "b c", "c ", "- "), ("a bc", "- bc", "b c"), ("a b", "c "), ("a ", "b c", "c "),
    ("a bc", "c "), ("a bc", "a c", "c "), ("a bcd", "c db"), ("- bc", "b c", "b cd", "c d"),
    ("a b", "a b"), ("a b", "c d")])
def test_in_order(seen):
    assert not checker.overtaken(sightings(*seen))


@pytest.mark.parametrize("seen", [
    ("a bc", "c b"), ("a b", "c b"), ("a b", "- b", "c b"), ("a bcd", "d bc"),
    ("a bc", "b c", "d c"), ("- b", "c b"), ("a b", "a cb"), ("a bc", "b dce")])
def test_overtaken(seen):
    assert checker.overtaken(sightings(*seen))


def test_grant_after_its_lease():
    records = attempt(1, 0, 60, 70, 50)
    assert len(checker.returned_over(records)) == 1
    with pytest.raises(AssertionError):
        checker.check(records)
    checker.check(records, over_allowed=1)


def test_read_leaves_out_unfinished_calls(tmp_path):
    whole = RECORD.pack(5, 9, 1, 2, 3, 4, -1, 7, 12, 2, PERMITS, INVOKE)
    torn = RECORD.pack(6, 9, 1, 2, 4, 4, -1, 7, 0, 0, 0, 0)
    path = tmp_path / "history"
    path.write_bytes(whole + torn + whole[:30])
    assert checker.read(path) == [Record(5, 9, (7, 1, 2), 3, 4, -1, INVOKE, PERMITS, 2, 12)]


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
