#!/usr/bin/env python3
"""The server is killed and starts again with what it has on disk (as it is installed), while the
holder works on for 12 s: did another come in meanwhile, and what does the first learn?"""
import time

import stage

HOLD_S = 12.0


def ask(case: stage.Case) -> dict:
    holder = case.holder(HOLD_S)
    waiter = case.worker(hold_s=0)
    time.sleep(1)
    killed_ns = time.monotonic_ns()
    case.server.kill()
    case.server.start()
    first = holder.released(HOLD_S + 30)
    second = waiter.granted(stage.PATIENCE_S)
    return {**stage.verdict(second, 0, stage.learnt_ns(holder)),
            "after_s": second and round((second.granted - killed_ns) / 1e9, 2),
            "first_is_told": stage.told_after(holder, killed_ns),
            "first_learns": first.outcome if first else "nothing"}


stage.main(__doc__, ask, lambda system: system.server not in ("folder_of_files",)
           and system.program != "homemade")
