"""What is asked of the library, one operation after another: the rows of the matrix.

Rows come from the driver's own list of kinds and verbs. What a verb needs before it stands here; a
verb without a row fails the suite. Scenarios are rows of more than one call.
"""
from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, replace

from keeper import DRIVER, Answer
from stand import LEASE_MS, LONG_MS, SLOW, wait_for
from proxy import CUT_BEFORE


def nothing(run) -> None:
    pass


def c(verb: str, **arguments):
    return lambda run: run.call("c", verb, **arguments)


def o(verb: str, **arguments):
    return lambda run: run.call("o", verb, **arguments)


def steps(*each):
    """One after the other; the last one's answer."""
    def run_all(run):
        for step in each:
            answer = step(run)
        return answer
    return run_all


@dataclass(frozen=True)
class Operation:
    """`act` is looked at, and the other does `meanwhile`; `after` undoes what it did; `settle` is
    done whatever it said."""
    name: str
    act: object
    before: object = nothing
    meanwhile: object = nothing
    settle: object = nothing
    after: object = nothing
    sweep: object = nothing  # what frees what has expired, where somebody must look
    holds: bool = False      # done means that "c" owns it from now on
    had: bool = False        # "c" owned something before
    reads: bool = False      # changes nothing
    cold: bool = False       # its client's first call on a lock: it may ask what the node can do
    queued: bool = False     # "c" calls asynchronously
    threadless: bool = False  # and its program drives it
    several: bool = False    # several permits at once, where there is a call for one too
    acked: bool = False      # what "c" is told, a replica has acknowledged
    once: bool = False       # it frees what anybody has: it is not sent again
    kind: str = ""
    lock: str = "n"
    nodes: int = 1

    @property
    def locks(self) -> bool:
        """Whether the verbs of locks apply."""
        return self.kind not in SYNCHRONIZER_ROWS

    @property
    def queues(self) -> bool:
        """Whether a call that failed has a place in a queue, which may be served until it is taken
        back (fair_lock.h)."""
        return self.kind == "fair"

    @property
    def warm(self) -> str:
        """Who has had the lock once before, so that what stays behind is there from the start."""
        if not self.locks:
            return ""
        return "o" if self.cold else "oc"

    @property
    def loses(self) -> bool:
        """Whether it loses its connection by itself."""
        return self.act is left_behind

    def aims_at(self, request: tuple[str, int]) -> bool:
        """Without an acknowledgement the row is tested as well."""
        return not self.acked or EVERY_KIND or request[0] == "wait"

    @property
    def has_meanwhile(self) -> bool:
        return self.meanwhile is not nothing

    @property
    def title(self) -> str:
        how = "threadless-" if self.threadless else "queued-" if self.queued else ""
        how += "several-" if self.several else ""
        how += "acked-" if self.acked else ""
        return f"{self.kind}:{how}{self.name}"


# ---- locks ----

RIVALS = {"read": "write", "read-polite": "write-preferred"}


def rival(verb: str, **arguments):
    """By the other, with a kind that excludes ours."""
    def call(run):
        return run.call("o", verb, kind=RIVALS.get(run.operation.kind, run.operation.kind),
                        **arguments)
    return call


def by_field(who: str, verb: str, **arguments):
    return lambda run: run.call(who, verb, field=run.field or "nobody:1", **arguments)


def waits(**arguments):
    """Waits until the other makes way, once it has been refused and sleeps."""
    def act(run) -> Answer:
        pending = run.say("c", "within", wait=4000, **arguments)
        wait_for(lambda: pending.done or run.keeper.is_asleep(), 0.5)
        run.meanwhile = run.operation.meanwhile(run)["code"]
        return run.told(pending.result(30 * SLOW))
    return act


def watched(run) -> Answer:
    """Renewed for longer than its lease."""
    answer = run.call("c", "acquire")
    end = time.monotonic() + 1.5 * LEASE_MS / 1000
    while answer["code"] == "OK" and time.monotonic() < end:
        time.sleep(0.05)
        held = run.call("c", "is_held")
        if held["code"] == "LK_ENOMEM":  # for the handle: it says nothing of the hold
            continue
        if held["result"] != 1 or "deadline_ns" not in held:  # gone, or just now
            return Answer(held, code="LK_ELOST")
        answer = Answer(answer, deadline_ns=held["deadline_ns"])
    return answer


def line_up(run) -> None:
    """A thread holds, and the next one of the client waits."""
    HELD(run)
    run.waiting = run.say("c", "within", wait=4000, thread="next", lease=LONG_MS)
    wait_for(lambda: run.keeper.stats("c")["waiting"] >= 1 and run.keeper.is_asleep(), 0.5)


def hand_over(run) -> Answer:
    run.call("c", "release")
    return run.waiting.result(30 * SLOW)


def left_behind(run) -> Answer:
    """Granted, never told, the server gone; then it is back, and what was taken is given back."""
    def lose(message):
        if message.reply and message.argv[0].upper() in (b"EVALSHA", b"SET"):
            run.away()
            run.cut_others(message.connection)
            return CUT_BEFORE
        return None
    before = run.state()
    run.own_rule = lose
    answer = run.call("c", "within", wait=350, lease=LONG_MS)
    run.own_rule = None
    run.back()
    wait_for(lambda: run.state() == before, 3 * SLOW)
    if run.operation.nodes > 1 and answer["code"] == "LK_ENOQUORUM":  # few enough were asked
        answer = Answer(answer, code="LK_EMAYBEHELD", result=-9)
    return answer


RELEASE = c("release")
HELD = c("acquire", lease=1500)
THEIRS = o("acquire", lease=LONG_MS)
EXPORTED = steps(THEIRS, o("export"))

LOCK_ROWS = (
    Operation("acquire", c("acquire", lease=LONG_MS), after=RELEASE, holds=True, cold=True),
    Operation("try", c("try", lease=LEASE_MS), after=RELEASE, holds=True),
    Operation("within", waits(lease=LEASE_MS), rival("acquire", lease=LONG_MS),
              rival("release"), after=RELEASE, holds=True),
    Operation("release", RELEASE, HELD, had=True),
    Operation("force", c("force"), THEIRS, once=True),
    Operation("extend", c("extend", lease=LONG_MS), HELD, after=RELEASE, holds=True, had=True),
    Operation("release_field", by_field("c", "release_field"), EXPORTED),
    Operation("extend_field", by_field("c", "extend_field", lease=2 * LONG_MS), EXPORTED,
              settle=o("release")),
    Operation("is_locked", c("is_locked"), THEIRS, settle=o("release"), reads=True),
    Operation("is_held_by", by_field("c", "is_held_by"), EXPORTED, settle=o("release"),
              reads=True),
    Operation("ttl", c("ttl"), THEIRS, settle=o("release"), reads=True),
    *(Operation(verb, c(verb), HELD, settle=RELEASE, reads=True)
      for verb in ("export", "is_held", "fence", "hold_count", "remaining")),
)
LOCK_SCENARIOS = (
    Operation("busy", c("try", lease=LEASE_MS), rival("acquire", lease=LONG_MS),
              settle=rival("release")),
    Operation("given-up", c("within", wait=400, lease=LEASE_MS), rival("acquire", lease=LONG_MS),
              settle=rival("release")),
    Operation("watched", watched, after=RELEASE, holds=True),
    Operation("kept", c("release", keep=LONG_MS), HELD, settle=o("force"), had=True),
    Operation("handed", hand_over, line_up, after=c("release", thread="next"), holds=True,
              had=True),
    Operation("left-behind", left_behind),
    Operation("closed", c("close", how=1), HELD, had=True),
)

QUEUED = {"acquire", "try", "within", "release", "kept", "extend", "given-up", "watched", "handed",
          "left-behind", "closed"}
"""What is done asynchronously too."""
QUEUED_KINDS = {"lock", "fair", "write"}  # among the main faults; with all, every kind
FEW = {"acquire", "release", "closed"}
"""The same of FEW_KINDS, and in a threadless client; with all, as the others."""
FEW_KINDS = {"multi", "red"}
THREADLESS_KINDS = {"lock", "red"}
ACKED_KINDS = {"lock", "fair", "permits"}
"""What a replica has to acknowledge: faults of the WAIT. With all, every kind and request."""
EVERY_KIND = os.environ.get("LOCKKEEPER_FAULTS") == "all"

# ---- synchronizers ----

FIVE = o("set", count=5)


def give_permits(run) -> Answer:
    return run.call("c", "release", ids=run.ids, count=2)


def permits_watched(count: int):
    def act(run) -> Answer:
        answer = run.call("c", "acquire", count=count)
        if answer["code"] != "OK":
            return answer
        time.sleep(1.5 * LEASE_MS / 1000)
        left = run.call("c", "remaining", ids=run.ids.split(",")[0])
        if left["code"] == "LK_ENOMEM":  # without memory it says nothing of the permit
            return answer
        return left if left["code"] == "OK" else Answer(left, code="LK_ELOST")
    return act


def look(run) -> None:
    """What has expired comes back when somebody takes a permit."""
    ours, taken = run.ids, run.call("o", "try", count=1, lease=LEASE_MS)
    if taken["code"] == "OK":
        run.call("o", "release", count=1, ids=taken["ids"])
    run.ids = ours


def permit_rows(count: int) -> tuple[Operation, ...]:
    """With so many permits in each acquire of ours."""
    some = c("acquire", count=count, lease=LONG_MS)
    have = steps(FIVE, some)
    # The release of a single one waits until its lease ends, as that of a lock.
    had = have if count > 1 else steps(FIVE, c("acquire", lease=1500))

    def first(verb: str, **arguments):
        return lambda run: run.call("c", verb, ids=run.ids.split(",")[0], **arguments)

    return (
        Operation("set", c("set", count=5)),
        Operation("resize", c("resize", count=7), FIVE),
        Operation("add", c("add", count=3), FIVE),
        Operation("acquire", some, FIVE, after=give_permits, holds=True),
        Operation("within", waits(count=count), o("set", count=0), o("add", count=5),
                  after=give_permits, holds=True),
        Operation("try", c("try", count=count, lease=LEASE_MS), FIVE, after=give_permits,
                  holds=True),
        Operation("release", give_permits, had, settle=give_permits, had=True),
        Operation("extend", first("extend", lease=LONG_MS), have, settle=give_permits),
        Operation("lease", first("lease"), have, settle=give_permits, reads=True),
        Operation("remaining", first("remaining"), have, settle=give_permits, reads=True),
        Operation("available", c("available"), FIVE, reads=True),
        Operation("taken", c("taken"), FIVE, reads=True),
        Operation("delete", c("delete"), FIVE),
        Operation("given-up", c("within", wait=400, count=count), o("set", count=count - 1)),
        Operation("watched", permits_watched(count), FIVE, after=give_permits, holds=True),
        Operation("left-behind", left_behind, FIVE),
    )


GIVE = c("release", count=2)
SYNCHRONIZER_ROWS = {
    "semaphore": (
        Operation("set", c("set", count=5)),
        Operation("add", c("add", count=3), FIVE),
        Operation("acquire", c("acquire", count=2), FIVE, after=GIVE, holds=True),
        Operation("within", waits(count=2), o("set", count=0), o("add", count=5),
                  after=GIVE, holds=True),
        Operation("try", c("try", count=2), FIVE, after=GIVE, holds=True),
        Operation("release", c("release", count=2), FIVE),
        Operation("drain", c("drain"), FIVE),
        Operation("available", c("available"), FIVE, reads=True),
        Operation("delete", c("delete"), FIVE),
        Operation("release_if_exists", c("release_if_exists", count=2), FIVE),
        Operation("given-up", c("within", wait=400, count=2), o("set", count=1)),
        Operation("left-behind", left_behind, FIVE),
    ),
    "permits": permit_rows(2),
    "latch": (
        Operation("set", c("set", count=5)),
        Operation("down", c("down"), FIVE),
        Operation("acquire", c("acquire"), steps(FIVE, o("down", count=5)), reads=True),
        Operation("within", waits(), FIVE, o("down", count=5)),
        Operation("count", c("count"), FIVE, reads=True),
        Operation("delete", c("delete"), FIVE),
        Operation("given-up", c("within", wait=400), FIVE),
    ),
    "client": (
        Operation("ping", c("ping"), reads=True),
        Operation("fence_check", c("fence_check", token=7), o("fence_check", token=5)),
        Operation("fence_write", c("fence_write", token=7, value="new"),
                  o("fence_write", token=5, value="old")),
        Operation("show", c("show"), o("acquire", kind="lock", lease=LONG_MS),
                  settle=o("release", kind="lock"), reads=True),
        Operation("scan", c("scan"), o("acquire", kind="lock", lease=LONG_MS),
                  settle=o("release", kind="lock"), reads=True),
    ),
}
SEVERAL = {"acquire", "within", "try", "release", "given-up", "watched"}
QUEUED_ROWS = {
    "semaphore": SYNCHRONIZER_ROWS["semaphore"],
    "permits": (*(row for row in permit_rows(1)
                  if row.name not in {"lease", "remaining", "available", "taken"}),
                *(replace(row, several=True) for row in permit_rows(2) if row.name in SEVERAL),
                *(replace(row, several=True, threadless=True) for row in permit_rows(2)
                  if row.name in FEW)),
    "latch": SYNCHRONIZER_ROWS["latch"],
}
"""What is done asynchronously too; of permits one at a time, and several at once."""
NO_REQUESTS = {"open", "close", "free", "stats", "events", "event", "cancel", "reset", "fork",
               "end"}
"""Verbs on a client that send nothing of their own; closing is a scenario of each lock."""

SHAPES = {"permits": {"sweep": look}, "multi": {"lock": "a,b"}, "red": {"nodes": 3},
          "red-plain": {"nodes": 3}}


def listed() -> list[tuple[str, str]]:
    """What the driver can do: kind and verb."""
    told = subprocess.run([DRIVER], input=b"1 - list\n", stdout=subprocess.PIPE, check=True,
                          timeout=20).stdout.decode()
    words = told.split('"operations":"')[1].split('"')[0].split()
    return [tuple(word.split(":")) for word in words]


def rows_of(kind: str, verbs: list[str]) -> list[Operation]:
    """One kind's rows. A lock is what can be acquired and released by the lock's verbs."""
    is_lock = kind not in SYNCHRONIZER_ROWS
    rows = LOCK_ROWS if is_lock else SYNCHRONIZER_ROWS[kind]
    missing = set(verbs) - {row.name for row in rows} - (set() if is_lock else NO_REQUESTS)
    assert not missing, f"not covered: {', '.join(f'{kind}:{verb}' for verb in sorted(missing))}"
    every = [*rows, *(LOCK_SCENARIOS if is_lock else ())]
    acked = [replace(row, acked=True) for row in every if not row.reads
             and (EVERY_KIND or kind in ACKED_KINDS)]
    if is_lock:
        all_queued = EVERY_KIND or kind in QUEUED_KINDS
        queued = [replace(row, queued=True) for row in every if row.name in QUEUED
                  and (all_queued or (kind in FEW_KINDS and row.name in FEW))]
        every += queued
        every += [replace(row, threadless=True) for row in queued
                  if EVERY_KIND or (kind in THREADLESS_KINDS and row.name in FEW)]
    every += [replace(row, queued=True) for row in QUEUED_ROWS.get(kind, ())]
    every += acked
    return [replace(row, kind=kind, **SHAPES.get(kind, {})) for row in every]


def operations() -> list[Operation]:
    verbs: dict[str, list[str]] = {}
    for kind, verb in listed():
        verbs.setdefault(kind, []).append(verb)
    return [row for kind, names in verbs.items() for row in rows_of(kind, names)]
