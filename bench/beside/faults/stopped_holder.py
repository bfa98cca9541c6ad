#!/usr/bin/env python3
"""The holder is stopped for longer than its lease or session (a pause, a host that sleeps), and
goes on: did another come in, and what does the first learn at its release?"""
import signal
import time

import stage

HOLD_S = stage.PATIENCE_S + 5
FAULTY_HOLD_S = 10.0  # their lease is 2 s


def ask(case: stage.Case) -> dict:
    hold_s = FAULTY_HOLD_S if case.system.faulty else HOLD_S
    holder, waiter = case.holder_and_waiter(hold_s)
    stopped_ns = time.monotonic_ns()
    holder.process.send_signal(signal.SIGSTOP)
    second = waiter.granted(stage.PATIENCE_S)
    went_on_ns = time.monotonic_ns()
    holder.process.send_signal(signal.SIGCONT)
    learns = stage.learns(holder, went_on_ns, HOLD_S)
    second = second and waiter.granted(0)  # with its release, if it has had one
    ended_ns = stage.learnt_ns(holder)
    return stage.verdict(second, stopped_ns, ended_ns, went_on_ns) | learns


QUESTION = stage.question(__file__, __doc__, ask, stage.as_installed)

if __name__ == "__main__":
    stage.main(QUESTION)
