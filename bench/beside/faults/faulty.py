#!/usr/bin/env python3
"""The locks of articles: how does each let two in, or shut out all? Their lease is 2 s."""
import subprocess
import time

import stage

LEASE_S = 2.0


def redis_cli(case: stage.Case, *words: str) -> None:
    subprocess.run(["redis-cli", "-p", str(case.server.port), *words], check=True, timeout=10,
                   stdout=subprocess.DEVNULL)


def history(*workers: stage.Worker) -> list[str]:
    """In words, by the first one's grant."""
    holds = sorted((worker.holds()[0], number) for number, worker in enumerate(workers, 1)
                   if worker.holds())
    start = holds[0][0].granted
    words = []
    for hold, number in holds:
        words.append((hold.granted, f"{number} has it"))
        if hold.release:
            words.append((hold.release, f"{number} gives it back"))
    return [f"{(at - start) / 1e9:.1f} s: {word}" for at, word in sorted(words)]


def dies_between(case: stage.Case) -> dict:
    """SETNX, and the process dies before EXPIRE: the key stays as that process left it."""
    redis_cli(case, "SETNX", f"{stage.NAME}-0", "dead")
    waiter = case.worker(hold_s=0)
    return {"verdict": "one owner" if waiter.granted(10 * LEASE_S) else "nobody",
            "history": ["a process dies between SETNX and EXPIRE",
                        f"nobody has it within {10 * LEASE_S:.0f} s"]}


def both(case: stage.Case, first: stage.Worker) -> dict:
    """A second comes when the first's lease is over, and a third waits. Both are within theirs:
    that they work at once is what the first's release does."""
    second = case.worker(0.75 * LEASE_S)
    second.granted(5 * LEASE_S)
    third = case.worker(0.5 * LEASE_S)
    for worker in (first, second, third):
        worker.released(10 * LEASE_S)
    holds = sorted((second.holds() + third.holds()), key=lambda hold: hold.granted)
    pairs = stage.histories.overlaps(holds, time.monotonic_ns())
    return {"verdict": "two owners" if pairs else "one owner",
            "both_s": round(max((ns for *_, ns in pairs), default=0) / 1e9, 2),
            "history": history(first, second, third)}


def stays_too_long(case: stage.Case) -> dict:
    """The first stays longer than its lease, and its DEL takes away the second's key."""
    return both(case, case.holder(1.25 * LEASE_S))


def late_delete(case: stage.Case) -> dict:
    """Between GET and DEL of the first lies the end of its lease: its DEL is late by 1 s."""
    first = case.holder(0.9 * LEASE_S, case.through_proxy())

    def hold_back(data: bytes) -> None:
        if b"DEL" in data:
            time.sleep(0.5 * LEASE_S)
    case.proxy.before_send = hold_back
    made = both(case, first)
    return made | {"history": [*made["history"], "1's DEL was 1.0 s on its way"]}


WAYS = {"setnx-expire": dies_between, "get-then-del": late_delete}


def ask(case: stage.Case) -> dict:
    return WAYS.get(case.system.key, stays_too_long)(case)


def unfit(system: stage.System) -> str | None:
    return None if system.faulty else "only asked of the locks of articles"


QUESTION = stage.question(__file__, __doc__, ask, unfit)

if __name__ == "__main__":
    stage.main(QUESTION)
