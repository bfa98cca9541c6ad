"""Reads the journal of a round, and shows it: turns, hand-overs, a timeline."""
from __future__ import annotations

import statistics
import time
from typing import NamedTuple

COLUMNS = 100
NS = 1_000_000_000


class Turn(NamedTuple):
    worker: int
    enter_ns: int
    leave_ns: int | None  # None: it never left


class Journal:
    def __init__(self, text: str):
        self.turns: list[Turn] = []
        self.last_ns = 0
        inside: dict[int, int] = {}
        for row in sorted(text.splitlines(), key=lambda row: int(row.split()[0])):
            when, worker, what = int(row.split()[0]), int(row.split()[1]), row.split()[2]
            self.last_ns = when
            if what == "enter":
                inside[worker] = when
            else:
                self.turns.append(Turn(worker, inside.pop(worker), when))
        self.turns += [Turn(worker, when, None) for worker, when in inside.items()]
        self.turns.sort(key=lambda turn: turn.enter_ns)

    def inside_longer_than(self, worker: int, seconds: float) -> bool:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return any(turn.worker == worker and turn.leave_ns is None
                   and now - turn.enter_ns > seconds * NS for turn in self.turns)

    def first_enter_after(self, when_ns: int) -> int:
        return next((turn.enter_ns for turn in self.turns if turn.enter_ns > when_ns), 0)

    def finished(self) -> int:
        return sum(turn.leave_ns is not None for turn in self.turns)

    def overlaps(self, ends: dict[int, int]) -> int:
        """How often somebody entered while another was inside. `ends`: when the killed ended."""
        count, free_ns = 0, 0
        for turn in self.turns:
            count += turn.enter_ns < free_ns
            free_ns = max(free_ns, turn.leave_ns or ends.get(turn.worker, 2**63))
        return count

    def most_inside(self) -> int:
        steps = sorted([(turn.enter_ns, 1) for turn in self.turns]
                       + [(turn.leave_ns, -1) for turn in self.turns if turn.leave_ns])
        inside = most = 0
        for _, step in steps:
            inside += step
            most = max(most, inside)
        return most

    def hand_overs_ms(self) -> list[float]:
        """From one's last act under the lock to another's first."""
        return [(after.enter_ns - before.leave_ns) / 1e6
                for before, after in zip(self.turns, self.turns[1:])
                if before.leave_ns and before.worker != after.worker]


def title(text: str) -> None:
    print(f"\n{text}\n", flush=True)


def line(text: str) -> None:
    print(f"   {text}", flush=True)


def timeline(journal: Journal, from_ns: int, to_ns: int, killed: dict[int, int]) -> None:
    """A row per worker, a column per moment: # inside, . outside, X killed, blank when dead."""
    step = (to_ns - from_ns) / COLUMNS
    moments = [from_ns + step * (column + 0.5) for column in range(COLUMNS)]
    for worker in sorted({turn.worker for turn in journal.turns}):
        turns = [turn for turn in journal.turns if turn.worker == worker]
        end_ns = killed.get(worker, to_ns)
        row = ["#" if any(turn.enter_ns <= moment < (turn.leave_ns or end_ns) for turn in turns)
               else "." for moment in moments]
        if worker in killed:
            column = int((end_ns - from_ns) / step)
            row[column:] = ["X"] + [" "] * (COLUMNS - column - 1)
        line(f"worker {worker}  {''.join(row)}".rstrip())
    line(f"{'':8}  one column per {step / 1e6:.0f} ms;  # inside   . outside   X killed\n")


def tell_bare(journal: Journal, balance: int) -> bool:
    """Whether the file came out wrong, as it should."""
    first = journal.turns[0].enter_ns
    timeline(journal, first, first + 1 * NS, {})
    line(f"turns {journal.finished()}, up to {journal.most_inside()} inside at one time")
    line(f"the file says {balance}: {journal.finished() - balance} of {journal.finished()} "
         "additions are lost")
    return balance != journal.finished()


def tell_fight(journal: Journal) -> None:
    timeline(journal, journal.last_ns - NS, journal.last_ns, {})
    took = sorted(journal.hand_overs_ms())
    line(f"turns {journal.finished()}, overlaps {journal.overlaps({})}")
    line(f"hand-overs between processes {len(took)}: median {statistics.median(took):.2f} ms, "
         f"nine in ten within {took[len(took) * 9 // 10]:.2f} ms, longest {took[-1]:.2f} ms")


def tell_kill(journal: Journal, from_ns: int, victim: int, killed_ns: int, balance: int,
              lease_ms: int) -> bool:
    """Whether nothing overlapped, and the file holds every finished turn."""
    timeline(journal, from_ns, journal.last_ns, {victim: killed_ns})
    overlaps = journal.overlaps({victim: killed_ns})
    waited_ms = (journal.first_enter_after(killed_ns) - killed_ns) / 1e6
    line(f"next worker inside {waited_ms / 1000:.2f} s after the kill: the rest of the lease of "
         f"{lease_ms / 1000:.0f} s")
    line(f"turns finished in all {journal.finished()}, overlaps {overlaps}")
    line(f"the file says {balance}: {journal.finished() - balance} additions are lost")
    return overlaps == 0 and balance == journal.finished()
