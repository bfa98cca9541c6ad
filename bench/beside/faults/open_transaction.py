#!/usr/bin/env python3
"""The holder's program forgets the lock, and lives on (a transaction that stays open, a thread that
hangs): after how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(600)
    forgotten_ns = time.monotonic_ns()
    second = waiter.granted(stage.PATIENCE_S) and waiter.released(2 * stage.SECOND_HOLDS_S)
    return stage.verdict(second, forgotten_ns, stage.learnt_ns(holder))


def unfit(system: stage.System) -> str | None:
    return "its lease of 2 s lets the next one in: faulty.py" if system.faulty else \
        stage.as_installed(system)


QUESTION = stage.question(__file__, __doc__, ask, unfit)

if __name__ == "__main__":
    stage.main(QUESTION)
