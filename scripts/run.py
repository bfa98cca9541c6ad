"""Runs the parts of a test run side by side, says how far it is, and repeats what failed alone.

    a case that passes          counts as passed
    that fails                  is repeated when all others have ended, alone, TRIES times
    and passes each time        is unsteady: it counts as passed, and the run names it
    and fails once more         counts as failed

Every repetition has a log of its own. A run in which much fails repeats nothing: it is not luck.
"""
from __future__ import annotations

import concurrent.futures
import json
import pathlib
import threading
import time

from parts import Case, Part
from tally import Tally, say

# Most of a test is waiting: two cores are busy with these. A limit in a test is for a machine that
# is four times slower.
AT_ONCE = 6
AT_ONCE_PATIENT = 8  # where LK_TEST_SLOW multiplies the limits: most of a test is waiting then
TRIES = 3
REPEATED_MAX = 12
REPEATING_LIMIT_S = 600
NEW_S = 5.0  # how long a part takes that was never run


class Times:
    """How long each part took when it was last run with this build folder."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.seconds: dict[str, float] = {}
        if path.exists():
            self.seconds = json.loads(path.read_text())

    def of(self, part: Part) -> float:
        return self.seconds.get(part.name, NEW_S)

    def keep(self) -> None:
        self.path.write_text(json.dumps(self.seconds, indent=0, sort_keys=True))


class Progress:
    """One line for each part that has ended, with how far the run is by the parts' usual times."""

    def __init__(self, parts: list[Part], times: Times):
        self.times, self.count = times, len(parts)
        self.whole = sum(map(times.of, parts)) or 1.0
        self.usual = {part.name: times.of(part) for part in parts}
        self.done, self.ended, self.begun = 0.0, 0, time.monotonic()
        self.mutex = threading.Lock()

    def say(self, part: Part, cases: list[Case], seconds: float, log: pathlib.Path) -> None:
        with self.mutex:
            self.done += self.usual[part.name]
            self.ended += 1
            took = time.monotonic() - self.begun
            failed = [case for case in cases if case.outcome == "failed"]
            say(f"{100 * self.done / self.whole:3.0f} %  {took // 60:2.0f}:{took % 60:02.0f}  "
                f"{'FAILED' if failed else 'ok':6}  {part.name}  "
                f"({counted(cases)}, {seconds:.1f} s)")
            for case in failed:
                say(f"{'':15}{case.name}\n{'':17}{case.why}\n{'':17}log: {log}")


def counted(cases: list[Case]) -> str:
    counts = [(sum(case.outcome == word for case in cases), word)
              for word in ("passed", "failed", "skipped")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "no test"


def log_of(tally: Tally, part: Part, suffix: str = "") -> pathlib.Path:
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in part.name)[:150]
    return tally.logs / f"{plain}{suffix}.log"


def in_order(parts: list[Part], times: Times, longest: list[str]) -> list[Part]:
    """Those that take longest begin first; `longest` names them where their times are not known."""
    order = {name: number for number, name in enumerate(longest)}

    def key(part: Part) -> tuple:
        known = part.name in times.seconds
        first = not known and part.name.split(" ")[0] in order
        return (not first, order.get(part.name.split(" ")[0], 0) if first else -times.of(part))
    return sorted(parts, key=key)


def run(tally: Tally, parts: list[Part], times: Times, longest: list[str] = (),
        at_once: int = AT_ONCE) -> None:
    waiting = in_order(parts, times, longest)
    progress = Progress(parts, times)

    def one(part: Part) -> tuple[Part, list[Case]]:
        log, begun = log_of(tally, part), time.monotonic()
        cases = part.run(log)
        times.seconds[part.name] = round(time.monotonic() - begun, 1)
        progress.say(part, cases, times.seconds[part.name], log)
        return part, cases

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(one, waiting))
    times.keep()
    for _, cases in ended:
        for case in cases:
            if case.outcome != "failed":
                tally.add(case.name, int(case.outcome == "passed"), 0,
                          int(case.outcome == "skipped"), case.why)
    repeat(tally, [(part, failed) for part, cases in ended
                   if (failed := [case for case in cases if case.outcome == "failed"])])


def repeat(tally: Tally, failing: list[tuple[Part, list[Case]]]) -> None:
    again = [one for part, failed in failing for one in part.again(failed)]
    if len(again) > REPEATED_MAX:
        say(f"{len(again)} failed: more than {REPEATED_MAX} are not repeated")
    end = time.monotonic() + REPEATING_LIMIT_S
    for failed, part in again:
        fails = len(again) > REPEATED_MAX or fails_again(tally, part, end)
        for case in failed:
            tally.add(case.name, int(not fails), int(fails))
            if not fails:
                tally.unsteady.append(f"{case.name} ({case.why})")


def fails_again(tally: Tally, part: Part, end: float) -> bool:
    """Whether a repetition fails, or cannot be run within the limit."""
    for number in range(1, TRIES + 1):
        if time.monotonic() > end:
            say(f"not repeated, {REPEATING_LIMIT_S} s are over: {part.name}")
            return True
        log = log_of(tally, part, f".again-{number}")
        cases = part.run(log)
        failed = [case for case in cases if case.outcome == "failed"]
        ran = any(case.outcome == "passed" for case in cases)
        say(f"alone, {number} of {TRIES}: {'FAILED' if failed or not ran else 'ok'}  {part.name}")
        if failed or not ran:
            say(f"{'':15}{failed[0].why if failed else 'it did not run'}\n{'':15}log: {log}")
            return True
    return False
