#!/usr/bin/env python3
"""The holder's program forgets the lock, and lives on (a transaction that stays open, a thread that
hangs): after how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(600)
    forgotten_ns = time.monotonic_ns()
    second = waiter.granted(stage.PATIENCE_S)
    return stage.verdict(second, forgotten_ns, stage.learnt_ns(holder))


stage.main(__doc__, ask, lambda system: not system.faulty)
