"""One library waits for the other, on any deployment."""
from __future__ import annotations

import subprocess

from keeper import BUILD
from waiting import until

SOON_S = 3.0
"""A waiter woken by a message needs milliseconds; by the end of a lease it would need 30 s."""


def command(server, *args: str) -> subprocess.CompletedProcess:
    """Our command, on that server."""
    return subprocess.run([BUILD / "cli" / "lockkeeper", *args, "--url", server.unix_url],
                          capture_output=True, text=True, timeout=60)


VIRTUAL_MACHINE = ("C1 ", "C2 ", "GC ", "Monitor ", "VM ")
"""Threads of Java that compile, collect and keep time, which they do for as long as it is slow."""


def works_for_others(thread: str):
    """Whether a thread of that name has no part in what `thread` waits for.

    Redisson's multi lock tries without a pause while the server, or a replica that is late, makes
    its tries fail. That one of its waiters does so says nothing of the next.
    """
    return lambda name: name.startswith(VIRTUAL_MACHINE) or \
        name.startswith("waiter") and name != thread[:15]


def begin_wait(keeper, name: str, thread: str = "waiter", **options):
    """Returns when it sleeps until it is told.

    That Redisson has subscribed is not enough: it forgets the message of a writer that comes
    between its last try and its sleep (docs/interop.md).
    """
    before = keeper.stats().waiting
    pending = keeper.say("acquire", name, thread=thread, **options)
    until(lambda: pending.done or keeper.stats().waiting > before, 10, f"{thread} waits")
    until(lambda: pending.done or keeper.is_asleep(works_for_others(thread)), 10,
          f"{thread} has asked")
    assert not pending.done, pending.answer
    return pending


def soon(pending, since):
    """The answer of who was woken by `since`."""
    answer = pending.result().ok()
    assert (answer.end_ns - since.start_ns) / 1e9 < SOON_S, "the message was not heard"
    return answer
