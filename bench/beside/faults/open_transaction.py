#!/usr/bin/env python3
"""The holder's program forgets the lock, and lives on (a transaction that stays open, a thread that
hangs): after how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder = case.holder(600)
    waiter = case.worker(hold_s=0)
    begun_ns = time.monotonic_ns()
    second = waiter.granted(stage.PATIENCE_S)
    return {**stage.verdict(second, 0, stage.learnt_ns(holder)),
            "after_s": second and round((second.granted - begun_ns) / 1e9, 2)}


stage.main(__doc__, ask, lambda system: not system.faulty)
