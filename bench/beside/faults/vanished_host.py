#!/usr/bin/env python3
"""The holder's host vanishes without a word (power, cable): its connections stay open for the
server. After how long does one that waits get in?"""
import time

import stage


def ask(case: stage.Case) -> dict:
    holder, waiter = case.holder_and_waiter(600, case.through_proxy())
    case.proxy.silent = True
    gone_ns = time.monotonic_ns()
    holder.process.kill()
    return stage.verdict(waiter.granted(stage.PATIENCE_S), gone_ns, gone_ns)


def unfit(system: stage.System) -> str | None:
    return stage.without_server(system) or stage.as_installed(system)


QUESTION = stage.question(__file__, __doc__, ask, unfit)

if __name__ == "__main__":
    stage.main(QUESTION)
