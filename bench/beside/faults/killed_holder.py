#!/usr/bin/env python3
"""The holder is killed: after how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(600)
    killed_ns = time.monotonic_ns()
    holder.process.kill()
    return stage.verdict(waiter.granted(stage.PATIENCE_S), killed_ns, killed_ns)


QUESTION = stage.question(__file__, __doc__, ask, stage.as_installed)

if __name__ == "__main__":
    stage.main(QUESTION)
