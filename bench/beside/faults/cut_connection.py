#!/usr/bin/env python3
"""The holder's connection is cut, comes back after 3 s, and the holder works on for 12 s: did
another come in meanwhile, and what does the first learn at its release?"""
import time

import stage

HOLD_S, GONE_S = 12.0, 3.0


def ask(case: stage.Case) -> dict:
    holder = case.holder(HOLD_S, case.through_proxy())
    waiter = case.worker(hold_s=0)
    time.sleep(1)
    cut_ns = time.monotonic_ns()
    case.proxy.refuses = True
    case.proxy.cut()
    time.sleep(GONE_S)
    case.proxy.refuses = False
    first = holder.released(HOLD_S + 20)
    second = waiter.granted(stage.PATIENCE_S)
    return {**stage.verdict(second, 0, stage.learnt_ns(holder)),
            "after_s": second and round((second.granted - cut_ns) / 1e9, 2),
            "first_is_told": stage.told_after(holder, cut_ns),
            "first_learns": first.outcome if first else "nothing"}


stage.main(__doc__, ask, lambda system: system.server not in ("folder_of_files",)
           and system.program != "homemade")
