#!/usr/bin/env python3
"""The holder's connection is cut, comes back after 3 s, and the holder works on for 12 s: did
another come in meanwhile, and what does the first learn at its release?"""
import time

import stage

HOLD_S, GONE_S = 12.0, 3.0


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(HOLD_S, case.through_proxy())
    cut_ns = time.monotonic_ns()
    case.proxy.refuses = True
    case.proxy.cut()
    time.sleep(GONE_S)
    case.proxy.refuses = False
    learns = stage.learns(holder, cut_ns, HOLD_S + 20)
    second = waiter.granted(stage.PATIENCE_S)
    return stage.verdict(second, cut_ns, stage.learnt_ns(holder)) | learns


def unfit(system: stage.System) -> str | None:
    return stage.of_a_held_connection(system) or stage.as_installed(system)


QUESTION = stage.question(__file__, __doc__, ask, unfit)

if __name__ == "__main__":
    stage.main(QUESTION)
