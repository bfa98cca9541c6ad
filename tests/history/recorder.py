"""Makes a history of what programs of any kind were asked by line and what they answered."""
from __future__ import annotations

from collections import defaultdict

from checker import (COUNT_DOWN, EXCLUSIVE, FAILED, GRANTED, INVOKE, LATCH_WAIT, RELEASE, RELEASED,
                     SHARED, Record)
from waiting import boottime_ns


def mode_of(verb: str, kind: str) -> int:
    if kind == "latch":
        return COUNT_DOWN if verb == "down" else LATCH_WAIT
    return SHARED if kind.startswith("read") else EXCLUSIVE


class Recorder:
    """Says commands for its caller and remembers them. One thread of a program holds a name once
    at a time."""

    def __init__(self):
        self.rows = []

    def say(self, program, verb: str, name: str, **arguments):
        said_ns = boottime_ns()
        pending = program.say(verb, name, **arguments)
        self.rows.append((program.pid, verb, name, arguments, said_ns, pending))
        return pending

    def records(self) -> list[Record]:
        """The history so far. A question without an answer counts from when it was said. Who takes
        several locks at once ("a,b") claims each of them."""
        made, attempts, granted = [], defaultdict(int), {}
        for pid, verb, names, arguments, said_ns, pending in self.rows:
            owner = (0, pid, arguments.get("thread", "main"))
            attempts[owner] += verb != "release"
            mode = mode_of(verb, arguments.get("kind", ""))
            for name in names.split(","):
                if verb == "release":
                    made += self.release(granted.pop((owner, name), None), said_ns, pending.answer)
                    continue
                rows = self.acquire(owner, (attempts[owner], name), name, mode, said_ns,
                                    pending.answer)
                made += rows
                if rows[-1].phase == GRANTED:
                    granted[owner, name] = rows[-1]
        return made

    @staticmethod
    def acquire(owner, attempt, name, mode, said_ns, answer) -> list[Record]:
        if answer is None:
            return [Record(said_ns, 0, owner, attempt, name, 0, INVOKE, mode)]
        asked = Record(answer.start_ns, 0, owner, attempt, name, 0, INVOKE, mode)
        phase = GRANTED if answer.code == "OK" else FAILED
        return [asked, Record(answer.end_ns, answer.get("deadline_ns", 0), owner,
                              attempt, name, answer.code, phase, mode, 0,
                              answer.get("fence", 0))]

    @staticmethod
    def release(grant, said_ns, answer) -> list[Record]:
        if grant is None:
            return []

        def record(time_ns, code, phase):
            return Record(time_ns, grant.deadline_ns, grant.owner, grant.attempt, grant.lock, code,
                          phase, grant.mode)
        if answer is None:
            return [record(said_ns, 0, RELEASE)]
        return [record(answer.start_ns, 0, RELEASE), record(answer.end_ns, answer.code, RELEASED)]
