#!/usr/bin/env python3
"""The holder is stopped for longer than its lease or session (a pause, a host that sleeps), and
goes on: did another come in, and what does the first learn at its release?"""
import signal
import time

import stage

HOLD_S = 50.0


def ask(case: stage.Case) -> dict:
    holder = case.holder(HOLD_S)
    waiter = case.worker(hold_s=8)
    time.sleep(1)
    stopped_ns = time.monotonic_ns()
    holder.process.send_signal(signal.SIGSTOP)
    second = waiter.granted(stage.PATIENCE_S)
    holder.process.send_signal(signal.SIGCONT)
    went_on_ns = time.monotonic_ns()
    first = holder.released(HOLD_S)
    return {**stage.verdict(second, went_on_ns, stage.learnt_ns(holder)),
            "after_s": second and round((second.granted - stopped_ns) / 1e9, 2),
            "first_is_told": stage.told_after(holder, went_on_ns),
            "first_learns": first.outcome if first else "nothing"}


stage.main(__doc__, ask, lambda system: system.server != "folder_of_files")
