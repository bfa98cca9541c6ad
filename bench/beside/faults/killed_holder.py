#!/usr/bin/env python3
"""The holder is killed: after how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder = case.holder(hold_s=600)
    waiter = case.worker(hold_s=0)
    time.sleep(1)  # by then it waits
    killed_ns = time.monotonic_ns()
    holder.process.kill()
    second = waiter.granted(stage.PATIENCE_S)
    return {**stage.verdict(second, 0, killed_ns),
            "after_s": second and round((second.granted - killed_ns) / 1e9, 2)}


stage.main(__doc__, ask, lambda system: True)
