#!/usr/bin/env python3
"""The holder takes the lock that it has once more, and gives it back once: does it get in, and does
it still have the lock then?"""
import stage

ENTER_S, HOLD_S = 1.5, 3.0  # below the shortest lease here


def ask(case: stage.Case) -> dict:
    holder = case.worker(HOLD_S, "", "twice")
    if not holder.granted(stage.GRANT_LIMIT_S):
        raise stage.Missing("the first did not get the lock")
    waiter = case.worker(0)
    words = stage.until(lambda: [text for text, _ in holder.told() if text not in stage.GOES_ON],
                        ENTER_S)
    if not words:
        return {"verdict": "waits for itself"}
    if words[0] != "entered again":
        return {"verdict": "is refused", "says": words[0]}
    released, granted = holder.released(2 * HOLD_S), waiter.granted(4 * HOLD_S)
    if not released or not granted:
        return {"verdict": "enters, and nobody has it then"}
    early = granted.granted < released.release
    return {"verdict": "enters, and its first release frees it" if early else "counts"}


QUESTION = stage.question(__file__, __doc__, ask, stage.as_installed)

if __name__ == "__main__":
    stage.main(QUESTION)
