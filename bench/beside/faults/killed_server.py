#!/usr/bin/env python3
"""The server is killed and starts again with what it has on disk (as it is installed), while the
holder works on for 12 s: did another come in meanwhile, and what does the first learn?"""
import time

import stage

HOLD_S = 12.0


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(HOLD_S)
    killed_ns = time.monotonic_ns()
    case.server.kill()
    case.server.start()
    learns = stage.learns(holder, killed_ns, HOLD_S + 30)
    second = waiter.granted(stage.PATIENCE_S)
    return stage.verdict(second, killed_ns, stage.learnt_ns(holder)) | learns


QUESTION = stage.question(__file__, __doc__, ask, stage.of_a_held_connection)

if __name__ == "__main__":
    stage.main(QUESTION)
