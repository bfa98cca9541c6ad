"""One cell: an operation, a request of it, a fault; and the judgement of what came out.

An operation is recorded first: what it sends, what it answers, what is in Redis behind it, and
what would be there without it. With a fault, "done" must find the one in Redis, "not done" the
other, and "may be held" in the end one of the two: the other, where nobody would own it.
"""
from __future__ import annotations

import time
from dataclasses import dataclass, field

import resp
from faults import FAULTS, Fault, Shot
from operations import Operation, rival
from stand import LEASE_MS, LONG_MS, SLOW, Run, Stand, wait_for

REQUESTS_MAX, SAME_MAX, RECORDINGS_MAX = 12, 3, 5
UNKNOWN = ("LK_EMAYBEHELD", "LK_ELOST", "LK_ENOTDURABLE")
"""Of a lock that was lost, too, nobody knows whether the server still has it; and what too few
replicas have, the master has for the time being."""
UNSAID = (*UNKNOWN, "LK_ENOQUORUM", "LK_EUNREACHABLE", "LK_EUNAVAILABLE")
"""Without a fault: an answer came too late."""
SETTLES_S = 4.0


def followed(run: Run, name: str) -> None:
    """What happens between the call and the copy that strayed."""
    if name == "extended":
        run.call("c", "extend", lease=2 * LONG_MS)
    elif name == "forced":
        run.call("o", "force")
    elif name in ("released", "next"):
        run.operation.after(run)
    if name == "next":
        run.answer_next = rival("acquire", lease=LONG_MS)(run)


def parted(run: Run, name: str) -> None:
    if name == "next":
        rival("release")(run)
    elif name in ("", "extended", "forced"):
        run.operation.after(run)


@dataclass
class Recording:
    """An operation without a fault, and its surroundings without it."""
    calm: bool = False  # see was_calm()
    code: str = ""
    result: int = 0
    requests: list = field(default_factory=list)
    sent: set = field(default_factory=set)
    done: tuple = ()
    final: tuple = ()
    undone: tuple = ()
    undone_final: tuple = ()
    followed: dict = field(default_factory=dict)


def chosen(seen: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Each request that is worth a fault, the first few of a name."""
    found = [request for request in dict.fromkeys(seen)
             if request[1] < SAME_MAX and not request[0].startswith(("client", "script", "auth"))]
    return found[:REQUESTS_MAX]


def record(stand: Stand, operation: Operation) -> Recording:
    """On a busy machine an answer may come after the command limit: then once more."""
    for _ in range(RECORDINGS_MAX):
        recording = record_once(stand, operation)
        if recording.calm:
            break
    return recording


def was_calm(run: Run, answer) -> bool:
    """No answer and no connection was lost so far, or that is what the operation is about."""
    if run.operation.loses:
        return True
    nodes = [who for who in run.clients if who[0] == "c"]
    return answer["code"] not in UNSAID and \
        not any(run.keeper.stats(who).get("disconnects") for who in nodes)


def is_one(state: tuple) -> bool:
    """All nodes have the same."""
    return len(set(state)) == 1


def record_once(stand: Stand, operation: Operation) -> Recording:
    recording = Recording()
    run = Run(stand, operation)
    try:
        operation.before(run)
        run.arm()
        answer = operation.act(run)
        recording.code, recording.result = answer["code"], answer["result"]
        recording.calm = was_calm(run, answer)
        recording.done = run.agreed()
        recording.requests = chosen(list(run.seen))
        operation.settle(run)
        operation.after(run)
        recording.final = run.agreed()
        recording.sent = {name for name, _ in run.seen}
        recording.calm = recording.calm and is_one(recording.done) and is_one(recording.final)
    finally:
        run.end()
    run = Run(stand, operation)
    try:
        operation.before(run)
        operation.meanwhile(run)
        recording.undone = run.agreed()
        operation.settle(run)
        recording.undone_final = run.agreed()
    finally:
        run.end()
    for name in sorted({fault.follow for fault in FAULTS if fault.strays}):
        fault = next(fault for fault in FAULTS if fault.strays and fault.follow == name)
        if any(fault.fits(operation, request) for request in recording.requests):
            recording.calm = record_follow(stand, operation, recording, name) and recording.calm
    return recording


def record_follow(stand: Stand, operation: Operation, recording: Recording, name: str) -> bool:
    """Whether it went calmly."""
    run = Run(stand, operation)
    try:
        operation.before(run)
        run.arm()
        answer = operation.act(run)
        run.codes.clear()
        followed(run, name)
        recording.followed[name] = run.agreed()
        return was_calm(run, answer) and is_one(recording.followed[name]) and \
            not run.codes.intersection(UNSAID)
    finally:
        run.end()


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def same(found: tuple, wanted: tuple, of_all: bool) -> bool:
    """On all nodes, or on a majority of them."""
    hits = sum(a == b for a, b in zip(found, wanted))
    return hits == len(wanted) if of_all else hits > len(wanted) // 2


class Cell:
    def __init__(self, stand: Stand, operation: Operation, recording: Recording, fault: Fault,
                 request: tuple[str, int]):
        self.operation, self.recording = operation, recording
        self.fault, self.request = fault, request
        self.problems: list[str] = []
        self.said = ""
        self.run = Run(stand, operation)
        self.run.strayed = self.run.closed = None

    def problem(self, text: str, wanted: tuple | None = None, found: tuple | None = None) -> None:
        states = f"; in Redis {found} for {wanted}" if wanted is not None else ""
        name, nth = self.request
        self.problems.append(f"{self.operation.title} | {name}#{nth} | {self.fault.name} | said "
                             f"{self.said} | {text}{states}")

    def play(self) -> list[str]:
        try:
            self.operation.before(self.run)
            self.shot = Shot(self.run, self.fault, self.request)
            self.run.arm(self.shot)
            answer = self.operation.act(self.run)
            self.said = answer["code"]
            self.shot.over = True
            self.run.returned()
            if self.fault.returned:
                self.fault.returned(self.run, answer)
            self.judge(answer)
        except AssertionError as problem:
            self.problem(f"broke off: {str(problem)[:300]}")
        finally:
            self.finish()
        return self.problems

    def finish(self) -> None:
        try:
            self.run.end()
        except AssertionError as problem:
            self.problem(f"the process: {str(problem)[:3000]}")

    # ---- judgement ----

    def judge(self, answer) -> None:
        recording = self.recording
        done = self.said == recording.code
        once = self.operation.once and self.said == "LK_EMAYBEHELD"
        if self.fault.heals and not done and not once:
            self.problem(f"must be {recording.code}: {answer['message']}")
        if done and answer["result"] != recording.result:
            self.problem(f"result {answer['result']} for {recording.result}")
        if not self.run.closed:
            self.judge_now(done, answer)
        self.run.finish_timers()
        if self.run.closed:
            self.judge_closed()
            return
        if done and self.run.strayed:
            self.judge_stray(answer.get("deadline_ns"))
        self.judge_end(done)

    def judge_now(self, done: bool, answer) -> None:
        """What the call said is so at this moment. Who holds may have more there than that: a try
        of its own that went astray, until it is released."""
        recording, operation = self.recording, self.operation
        found = self.run.state()
        if done and self.said == "OK" and operation.holds and operation.locks:
            self.expect_lease("c", answer)
        elif done and self.said == "OK" and operation.holds:
            self.expect([recording.done], "it has more, or less")
        elif done and self.said == "OK" and not same(found, recording.done, False):
            self.problem("not so", recording.done, found)
        elif not done and self.said not in UNKNOWN and \
                not operation.had and not operation.queues and \
                same(found, recording.done, False) and recording.done != recording.undone:
            self.problem("it is done", recording.undone, found)

    def expect(self, wanted: list[tuple], what: str, until_ns: int | None = None) -> None:
        """One of these states in the end, on all nodes. The first problem of a cell is enough. What
        is held `until_ns` may be gone then: on a busy machine a short lease ends meanwhile."""
        found = ()
        if self.problems:
            return

        def reached() -> bool:
            nonlocal found
            found = self.run.state()
            if any(same(found, state, True) for state in wanted) or self.between(found, wanted):
                return True
            self.operation.sweep(self.run)
            return until_ns is not None and now_ns() >= until_ns
        if not wait_for(reached, SETTLES_S * SLOW):
            self.problem(f"{what}: {SETTLES_S} s later", wanted[0], found)

    def between(self, found: tuple, wanted: list[tuple]) -> bool:
        """Of several nodes, or several locks, each may be as in another of the wanted states."""
        if len(wanted) < 2:
            return False
        if len(found) > 1:
            return all(any(same(found[node:node + 1], state[node:node + 1], True)
                           for state in wanted) for node in range(len(found)))
        if "," not in self.operation.lock:
            return False
        parts = [set(state[0].split(", ")) - {""} for state in wanted]
        return set(found[0].split(", ")) - {""} <= set.union(*parts)

    def expect_lease(self, who: str, answer) -> None:
        """No key may end before its owner's deadline."""
        if "deadline_ns" not in answer:
            return
        ttls = self.run.ttl_of(who)
        left_ms = (answer["deadline_ns"] - now_ns()) / 1e6
        if left_ms > 0 and sum(ttl >= left_ms - 5 for ttl in ttls) <= len(ttls) // 2:
            self.problem(f"its owner has {left_ms:.0f} ms left, its key {ttls}")

    def judge_closed(self) -> None:
        """What close called done must be done: no more than a lease later, nothing is left."""
        if self.run.closed["code"] != "OK":
            return
        recording, operation = self.recording, self.operation
        if operation.had:  # closing releases it
            wanted = [recording.final]
        elif operation.holds:
            wanted = [recording.undone_final]
        else:
            wanted = [recording.undone_final, recording.final, recording.done]
        operation.settle(self.run)
        self.expect(wanted, "after a close that said OK")

    def judge_stray(self, until_ns: int | None) -> None:
        """The copy that was held back runs now, while its deadline has not come. The holder's lease
        ends `until_ns`, as far as it was told."""
        run, name = self.run, self.fault.follow
        followed(run, name)
        wanted = self.recording.followed.get(name, self.recording.done)
        with resp.Connection(run.stand.servers[0].path) as connection:
            connection.socket.sendall(run.strayed)
            connection.read()
        if name == "next":
            self.expect_lease("o", run.answer_next)
        elif name in ("", "extended") and self.operation.holds and self.operation.locks:
            answer = run.call("c", "is_held")
            self.expect_lease("c", answer)
            until_ns = answer.get("deadline_ns", until_ns)
        else:
            until_ns = None
        states = [wanted]
        if self.operation.name == "kept" and len(wanted) > 1:  # on one of several nodes it is freed
            states.append(self.recording.final)
        if name != "forced":  # who has not heard of it has the lock again, until he releases it
            self.expect(states, f"the copy that strayed, {name or 'alone'}", until_ns)

    def judge_end(self, done: bool) -> None:
        """What is held is given back; then nothing is left that was not there before."""
        run, recording, operation = self.run, self.recording, self.operation
        operation.settle(run)
        if run.meanwhile not in ("", "OK", *UNKNOWN):  # the fault met the other, too
            operation.meanwhile(run)
        if done and self.fault.strays and self.run.strayed:
            parted(run, self.fault.follow)
        elif done or operation.had:
            operation.after(run)
        if operation.once and len(recording.final) > 1:  # a minority may not have heard of it
            wanted = [recording.final, recording.undone_final]
        elif operation.name == "kept" and len(recording.final) > 1:
            # One node may have been asked for the lock late, and then to keep it, behind the force.
            wanted = [recording.final, recording.done]
        elif done or operation.had:
            wanted = [recording.final]
        elif self.said in UNKNOWN and not operation.holds:
            wanted = [recording.final, recording.undone_final]
        else:
            wanted = [recording.undone_final]
        self.expect(wanted, "at the end")
        for who in run.clients:
            run.keeper.call("free", c=who)
        if not wait_for(lambda: not run.channels(), 2 * SLOW):
            self.problem(f"channels are left: {run.channels()}")
        if not self.fault.heals and not operation.reads:
            time.sleep(LEASE_MS / 1000)
        self.expect(wanted, "one lease later")


def cells_of(stand: Stand, operation: Operation, recording: Recording, request: tuple[str, int],
             faults: list[Fault]) -> list[str]:
    """Plays each fault of one request; the problems."""
    return [problem for fault in faults if fault.fits(operation, request)
            for problem in play(stand, operation, recording, fault, request)]


def play(stand: Stand, operation: Operation, recording: Recording, fault: Fault,
         request: tuple[str, int]) -> list[str]:
    """As for a recording: where a fault heals, a busy machine may still make an answer late."""
    for _ in range(RECORDINGS_MAX):
        cell = Cell(stand, operation, recording, fault, request)
        problems = cell.play()
        if not problems or not fault.heals or cell.said not in UNSAID:
            break
    return problems
