#!/usr/bin/env python3
"""The holder's host vanishes without a word (power, cable): its connections stay open for the
server. After how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder = case.holder(600, case.through_proxy())
    waiter = case.worker(hold_s=0)
    time.sleep(1)
    case.proxy.silent = True
    gone_ns = time.monotonic_ns()
    holder.process.kill()
    second = waiter.granted(stage.PATIENCE_S)
    return {**stage.verdict(second, 0, gone_ns),
            "after_s": second and round((second.granted - gone_ns) / 1e9, 2)}


stage.main(__doc__, ask, lambda system: system.server != "folder_of_files")
