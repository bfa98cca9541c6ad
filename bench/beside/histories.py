"""What the lines of turns.h tell, from outside: who held when, how long a hand-over took."""
from __future__ import annotations

import pathlib
import statistics
from typing import NamedTuple


class Hold(NamedTuple):
    """One grant, by the clock of the machine, in ns. `released` is None for a holder that died."""
    owner: str
    name: str
    begun: int
    granted: int
    release: int | None  # when its release began
    done: int | None
    outcome: str


class Word(NamedTuple):
    """A failed try, or what the library told of its own accord."""
    owner: str
    at: int
    text: str


def read(*paths: pathlib.Path) -> tuple[list[Hold], list[Word]]:
    holds, words = [], []
    for path in paths:
        open_grants: dict[str, tuple[str, int, int]] = {}
        for line in path.read_text(errors="replace").splitlines():
            kind, pid, thread, name, first, rest = line.split(" ", 5)
            owner = f"{pid}/{thread}"
            if kind in "ET":
                words.append(Word(owner, int(first), rest))
            elif kind == "G":
                open_grants[owner] = (name, int(first), int(rest))
            else:
                name, begun, granted = open_grants.pop(owner)
                done, outcome = rest.split(" ", 1)
                holds.append(Hold(owner, name, begun, granted, int(first), int(done), outcome))
        holds += [Hold(owner, name, begun, granted, None, None, "never released")
                  for owner, (name, begun, granted) in open_grants.items()]
    return sorted(holds, key=lambda hold: hold.granted), words


def overlaps(holds: list[Hold], until: int) -> list[tuple[Hold, Hold, int]]:
    """Pairs of which both held the same name, and for how long. A holder that never released held
    until `until`: when it was killed."""
    found = []
    for name in {hold.name for hold in holds}:
        last = None
        for hold in (hold for hold in holds if hold.name == name):
            if last:
                end = last.release if last.release is not None else until
                if hold.granted < end:
                    found.append((last, hold, min(end, hold.release or until) - hold.granted))
            if not last or (hold.release or until) > (last.release or until):
                last = hold
    return found


def handovers_us(holds: list[Hold]) -> list[float]:
    """From the beginning of a release to the grant of another that had waited by then."""
    times = []
    for before, after in zip(holds, holds[1:]):
        if before.owner != after.owner and before.release and after.begun < before.release:
            times.append((after.granted - before.release) / 1e3)
    return times


def shares(holds: list[Hold]) -> list[int]:
    """How many grants each owner had, fewest first."""
    owners = [hold.owner for hold in holds]
    return sorted(owners.count(owner) for owner in set(owners))


def part(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def middle(values: list[float]) -> float:
    return statistics.median(values)
