"""Closing the clients of a quorum: until what may be held is free, and no longer."""
from __future__ import annotations

import threading

import pytest

from keeper import CLOSE_IF_IDLE
from proxy import Park, request
from test_red import NODES, quorum  # noqa: F401  (a fixture)

LAST = NODES - 1
LIMIT_MS = 20_000
LONG = {"lease": 600_000, "node_limit": LIMIT_MS}


def close(quorum) -> float:  # noqa: F811
    """How long it takes, in seconds."""
    closed = [quorum.keeper.call("close", c=f"n{number}", how=CLOSE_IF_IDLE).ok()
              for number in range(NODES)]
    return (closed[-1].end_ns - closed[0].start_ns) / 1e9


@pytest.mark.parametrize("ends", ["released", "refused"])
def test_an_answer_that_comes_late_is_enough(quorum, ends):  # noqa: F811
    """A majority has decided. The last node grants it behind that, to nobody; no second copy of
    the request was sent, so that there is nothing more to wait for."""
    strangers = (0, 1, 2) if ends == "refused" else ()
    quorum.open(command_timeout_ms=LIMIT_MS).know_all()
    for number in strangers:
        quorum.servers[number].call("HSET", "q", "stranger:1", 1)
    quorum.proxies[LAST].rule = \
        lambda message: Park(0.3) if message.reply and message.what == "acquire" else None
    if ends == "refused":
        quorum.call("try", **LONG).is_code("LK_EBUSY")
    else:
        quorum.call("acquire", **LONG).ok()
        quorum.call("release").ok()
    assert close(quorum) < LIMIT_MS / 2000
    assert quorum.keys() == len(strangers)


class Delayed:
    """The connection ends as an acquire is on its way, which comes when the gate opens. So it is
    sent again, and that copy is answered: at once, or when the other gate opens."""

    def __init__(self, answer: threading.Event):
        self.gate, self.answer = threading.Event(), answer
        self.asked, self.again, self.answered = (threading.Event() for _ in range(3))

    def __call__(self, message):
        if message.reply and message.what == "acquire":
            self.answered.set()
            return Park(event=self.answer)
        if not request("acquire")(message):
            return None
        if self.asked.is_set():
            self.again.set()
            return None
        self.asked.set()
        message.connection.client.close()
        return Park(event=self.gate)


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
def test_a_copy_that_comes_late_is_waited_for(quorum, late):  # noqa: F811
    """The second copy is answered before the release, or behind it; the first is still on its way,
    and takes the lock behind all of that."""
    limit_ms, answer = 4000, threading.Event()
    quorum.open(command_timeout_ms=limit_ms).know_all()
    rule = quorum.proxies[LAST].rule = Delayed(answer)
    quorum.call("acquire", **{**LONG, "node_limit": limit_ms}).ok()
    assert rule.asked.wait(1) and rule.again.wait(1) and rule.answered.wait(1)
    if not late:
        answer.set()
        quorum.keeper.call("ping", c=f"n{LAST}").ok()  # comes behind the answer
    quorum.call("release").ok()
    for seconds, gate in (0.3, answer), (1.0, rule.gate):
        threading.Timer(seconds, gate.set).start()
    assert close(quorum) > 2
    assert quorum.keys() == 0
