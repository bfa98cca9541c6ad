"""What goes wrong: each fault knows a request by its name and number alone.

A fault acts on the n-th copy of the request that is aimed at (from 0) or on that copy's reply;
`returned` runs when the call has answered. Those in `MAIN` run with every `make check-all`.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import resp
from proxy import CUT_BEFORE, HOLE, Park, Replace
from requests_seen import CAN_BE_LATE, SCRIPTS, name_of, script_of
from stand import COMMAND_MS, LEASE_MS, SANITIZED

PING = Replace(resp.encode("PING"))
REFUSALS = {
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL.",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "MISCONF": "MISCONF Redis is configured to save RDB snapshots, but it is unable to.",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY": "READONLY You can't write against a read only replica.",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down.",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
    "NOPERM": "NOPERM this user has no permissions to run the 'evalsha' command",
}
HARMLESS = {"ping", "time", "subscribe", "unsubscribe", "auth", "select", "client setname",
            "script load", "script exists"}


@dataclass
class Fault:
    name: str
    request: dict = field(default_factory=dict)  # copy → (run, message) → verdict
    reply: dict = field(default_factory=dict)
    returned: object = None                      # (run, answer)
    fits: object = lambda operation, request: True
    follow: str = ""        # what comes between the call and the copy that strayed
    strays: bool = False
    heals: bool = False     # the call must come out as without it
    main: bool = False


class Shot:
    """One fault at one request: the rule of the first node's proxy."""

    def __init__(self, run, fault: Fault, request: tuple[str, int]):
        self.run, self.fault, (self.name, self.nth) = run, fault, request
        self.copies: list[list[bytes]] = []
        self.over = False  # the call has returned; copies that were changed get their answer yet

    def __call__(self, message, nth: int):
        if message.reply:
            for copy, argv in enumerate(self.copies):
                if argv is message.argv:
                    return self.act(self.fault.reply.get(copy), message)
            return None
        if self.over or name_of(message.argv) != self.name or nth < self.nth:
            return None
        self.copies.append(message.argv)
        return self.act(self.fault.request.get(len(self.copies) - 1), message)

    def act(self, action, message):
        return action(self.run, message) if callable(action) else action


# ---- what is done to a copy ----

def late(run, message):
    seconds, micros = run.stand.servers[0].call("TIME")
    return Replace(b"+LATE %d\r\n" % (int(seconds) * 1000000 + int(micros)))


def flush_and_cut(run, message):
    run.flush_scripts()
    return CUT_BEFORE


def flush(run, message):
    run.flush_scripts()


def lasting(change):
    """What lasts until the call has returned: behind that, nothing would end it."""
    def begin(run, message):
        return run.unless_over(lambda: change(run, message))
    return begin


def away(seconds: float):
    @lasting
    def go(run, message):
        run.away()
        run.cut_others(message.connection)
        if seconds:
            run.later(seconds, run.back)
        return CUT_BEFORE
    return go


def set_server(name: str, value, cut: bool):
    """Not for ever: an acquire without a limit waits for the end of it."""
    @lasting
    def change(run, message):
        run.configure(name, value)
        run.healing = run.later(REFUSES_S, lambda: run.configure(name, 0))
        return CUT_BEFORE if cut else None
    return change


@lasting
def silence(run, message):
    """Not for ever, as above."""
    run.silence(True)
    run.healing = run.later(REFUSES_S, lambda: run.silence(False))


def heal_replicas(run, answer):
    """A call that is told of one grant is told when a replica has it."""
    if run.healing:
        run.healing.cancel()
    early = run.silent and answer["code"] == "OK" and run.operation.name != "watched"
    run.silence(False)
    assert not early, "said OK, and no replica has it"


def heal_server(name: str):
    def heal(run, answer):
        if run.healing:
            run.healing.cancel()
        run.configure(name, 0)
    return heal


@lasting
def no_descriptors(run, message):
    run.limit_descriptors()
    return CUT_BEFORE


@lasting
def no_memory(run, message):
    run.starve(True)
    return CUT_BEFORE


def stray(run, message):
    run.strayed = message.data
    return CUT_BEFORE


def close_if_unknown(run, answer):
    """At once, when the server has just come back."""
    run.back()
    if answer["code"] in ("LK_EMAYBEHELD", "LK_ENOTDURABLE"):
        run.closed = run.call("c", "close", how=1)


# ---- where it can be done ----

def changes(operation, request) -> bool:
    return request[0] not in HARMLESS and not operation.reads


def is_wait(operation, request) -> bool:
    return request[0] == "wait"


def replaceable(operation, request) -> bool:
    return request[0] not in ("subscribe", "unsubscribe")


def can_starve(operation, request) -> bool:
    """The other is in the same process, and must be able to do its part."""
    return changes(operation, request) and not SANITIZED and not operation.has_meanwhile


def may_be_late(operation, request) -> bool:
    return script_of(request[0]) in CAN_BE_LATE and request[0] not in WITHOUT_DEADLINE


def is_script(operation, request) -> bool:
    return script_of(request[0]) in KNOWN


def follows(name: str):
    """A follow-up needs something that is held, and most of them a lock."""
    def fits(operation, request) -> bool:
        needs_lock = name in ("extended", "forced", "next")
        return changes(operation, request) and (not name or operation.holds) and \
            (not needs_lock or operation.locks)
    return fits


KNOWN = set(SCRIPTS.values())
WITHOUT_DEADLINE = ("fair_queue:release", "fair_queue:force")
OUTAGE_S = (COMMAND_MS + LEASE_MS + 200) / 1000
REFUSES_S = 5.0  # longer than any call here waits that has a limit

FAULTS = [
    Fault("request lost", {0: CUT_BEFORE}, heals=True, main=True),
    Fault("reply lost", reply={0: CUT_BEFORE}, main=True),
    Fault("reply never comes", reply={0: HOLE}),
    Fault("parked", {0: Park(1.5 * COMMAND_MS / 1000)}),
    Fault("scripts flushed", {0: flush}, fits=is_script, heals=True, main=True),
    Fault("second copy meets NOSCRIPT", reply={0: flush_and_cut}, fits=is_script, main=True),
    Fault("second copy late", {1: PING}, {0: CUT_BEFORE, 1: late}, fits=may_be_late, main=True),
    Fault("late", {0: PING}, {0: late}, fits=may_be_late),
    *(Fault(f"refused {word}", {0: PING}, {0: Replace(f"-{text}\r\n".encode())},
            fits=replaceable) for word, text in REFUSALS.items()),
    *(Fault(f"second copy refused {word}", {1: PING},
            {0: CUT_BEFORE, 1: Replace(f"-{text}\r\n".encode())}, fits=replaceable,
            main=word in ("LOADING", "NOREPLICAS")) for word, text in REFUSALS.items()),
    *(Fault(f"{word} from then on", {0: set_server(name, value, False)},
            returned=heal_server(name))
      for word, name, value in (("NOREPLICAS", "min-replicas-to-write", 1),
                                ("OOM", "maxmemory", 1))),
    *(Fault(f"done, then {word}", reply={0: set_server(name, value, True)},
            returned=heal_server(name), fits=changes)
      for word, name, value in (("NOREPLICAS", "min-replicas-to-write", 1),
                                ("OOM", "maxmemory", 1))),
    *(Fault(f"strayed copy runs {name or 'afterwards'}", {0: stray}, strays=True, follow=name,
            fits=follows(name), main=True)
      for name in ("", "extended", "released", "forced", "next")),
    Fault("acknowledged by none", reply={0: Replace(b":0\r\n")}, fits=is_wait, main=True),
    Fault("replicas silent from then on", {0: silence}, returned=heal_replicas, fits=is_wait,
          main=True),
    Fault("away before it", {0: away(OUTAGE_S)}, fits=changes),
    Fault("away behind it", reply={0: away(OUTAGE_S)}, fits=changes, main=True),
    Fault("closed after unknown", reply={0: away(0)}, returned=close_if_unknown, fits=changes,
          main=True),
    Fault("no descriptors before it", {0: no_descriptors},
          returned=lambda run, answer: run.unlimit_descriptors()),
    *(Fault(f"no memory {where} it", **{what: {0: no_memory}},
            returned=lambda run, answer: run.starve(False),
            fits=can_starve)
      for where, what in (("before", "request"), ("behind", "reply"))),
    Fault("no descriptors behind it", reply={0: no_descriptors}, fits=changes,
          returned=lambda run, answer: run.unlimit_descriptors()),
]
