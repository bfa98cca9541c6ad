"""A user who lacks rights competes for a lock: no crash, and each call ends in time with an answer.

Each right that docs/acl lists is taken away alone, and each pair of them. Another user listens for
the lock; ours gives it up and wants it again at once, so it holds off for the other's sake.
"""
from __future__ import annotations

import itertools
import re
import time

import pytest

from keeper import ROOT
from waiting import until

LIMIT_MS = 200
KINDS = ["lock", "fenced", "plain", "write", "read", "fair", "spin"]
NEEDED_FIRST = {"auth", "select", "ping", "client|setname"}  # no client begins without these


def rights() -> list[str]:
    rules = (ROOT / "docs" / "acl" / "locks.acl").read_text()
    return [word for word in re.findall(r"\+([\w|]+)", rules) if word not in NEEDED_FIRST]


class Contest:
    """Our user and another one, each a process."""

    def __init__(self, server, make_keeper, **options):
        self.server, self.names = server, itertools.count()
        self.restrict()
        self.ours = make_keeper(server.unix_url, username="app", password="app", retry_ms=200,
                                **options)
        self.other = make_keeper(server.unix_url)

    def restrict(self, *missing: str) -> None:
        self.server.call("ACL", "SETUSER", "app", "reset", "on", ">app", "~*", "&*", "-@all",
                         *("+" + right for right in [*rights(), *NEEDED_FIRST]),
                         *("-" + right for right in missing))

    def run(self, kind: str, queue: int, *missing: str) -> None:
        name, how = f"job{next(self.names)}", {"kind": kind, "queue": queue}
        ours, other = self.ours, self.other
        calls = [ours.call("within", name, wait=LIMIT_MS, **how)]
        self.restrict(*missing)
        waits = other.say("within", name, thread="w", wait=3 * LIMIT_MS, kind=kind)
        end = time.monotonic() + LIMIT_MS / 1000
        until(lambda: self.server.channels() or waits.done or time.monotonic() > end, 20)
        calls.append(ours.call("release", name, **how))
        calls.append(ours.call("within", name, wait=LIMIT_MS, **how))
        if calls[-1].code == "OK":
            calls.append(ours.call("release", name, **how))
        calls.append(waits.result())
        if calls[-1].code == "OK":
            other.call("release", name, thread="w", kind=kind).ok()
        self.restrict()
        assert all(call.took < 8 for call in calls), (missing, calls)
        if {"subscribe", "unsubscribe"}.issuperset(missing):
            assert calls[0].code == calls[1].code == "OK", (missing, calls)
            assert calls[2].code in ("OK", "LK_ETIMEDOUT"), (missing, calls)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["calls", "queue", "threadless"])
def test_who_may_not_listen(server, make_keeper, kind, way):
    """Nor stop listening."""
    contest = Contest(server, make_keeper, **({"threadless": 1} if way == "threadless" else {}))
    for missing in (["subscribe"], ["unsubscribe"], ["subscribe", "unsubscribe"]):
        for _ in range(2):
            contest.run(kind, int(way != "calls"), *missing)


def test_each_right_missing(server, make_keeper):
    contest = Contest(server, make_keeper)
    for right, kind in zip(rights(), itertools.cycle(KINDS)):
        contest.run(kind, 0, right)


@pytest.mark.parametrize("part", range(8))
def test_each_pair_of_rights_missing(server, make_keeper, part):
    contest = Contest(server, make_keeper)
    pairs = itertools.combinations(rights(), 2)
    for number, (pair, kind) in enumerate(zip(pairs, itertools.cycle(KINDS))):
        if number % 8 == part:
            contest.run(kind, number % 2, *pair)
