#!/usr/bin/env python3
"""The holder is stopped for longer than its lease or session (a pause, a host that sleeps), and
goes on: did another come in, and what does the first learn at its release?"""
import signal
import time

import stage

HOLD_S = 50.0


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(HOLD_S)
    stopped_ns = time.monotonic_ns()
    holder.process.send_signal(signal.SIGSTOP)
    second = waiter.granted(stage.PATIENCE_S)
    holder.process.send_signal(signal.SIGCONT)
    went_on_ns = time.monotonic_ns()
    learns = stage.learns(holder, went_on_ns, HOLD_S)
    ended_ns = stage.learnt_ns(holder)
    return stage.verdict(second, stopped_ns, ended_ns, went_on_ns) | learns


stage.main(__doc__, ask, lambda system: system.server != "folder_of_files")
