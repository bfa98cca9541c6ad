"""What is done with a deployment whose master moves, however the client follows it."""
from __future__ import annotations

import contextlib
import os

from keeper import EVENT_LOST
from waiting import until

LOCKS = ("lock", "fair", "fenced", "spin", "plain", "read", "write", "multi")


def use_every_kind(keeper) -> None:
    """Each kind of lock, called both ways, and each counter, once."""
    for kind in LOCKS:
        for queued in (0, 1) if kind != "multi" else (0,):
            keeper.call("acquire", f"{{k}}{kind}", kind=kind, queue=queued).ok()
            keeper.call("release", f"{{k}}{kind}", kind=kind, queue=queued).ok()
    for kind in ("semaphore", "permits"):
        keeper.call("set", kind, kind=kind, count=2).ok()
        ids = keeper.call("acquire", kind, kind=kind, count=1).ok().get("ids", "")
        keeper.call("release", kind, kind=kind, count=1, ids=ids).ok()
    keeper.call("set", "latch", kind="latch", count=1).ok()
    waits = keeper.say("acquire", "latch", thread="latch", kind="latch")
    keeper.call("down", "latch", kind="latch", count=1).ok()
    waits.result()


def acknowledged(master, replicas: int = 2) -> None:
    """Until the replicas have what was written. Another connection's offset is the server's."""
    with master.connect() as connection:
        connection.call("SET", "marker", 1)
        assert connection.call("WAIT", replicas, 5000) == replicas


def without_replication(master) -> None:
    """From now on what is written stays on the master alone; nobody else notices."""
    master.call("ACL", "SETUSER", "default", "-psync", "-sync")
    master.call("CLIENT", "KILL", "TYPE", "replica")


def is_told(keeper, name: str, limit: float = 10) -> None:
    until(lambda: keeper.events_of(EVENT_LOST, name), limit, f"the holder of {name} is told")


def scripts_run(server) -> int:
    """How many scripts clients have had it execute; what it replicates are their commands."""
    total = 0
    with contextlib.suppress(KeyError):
        for line in server.call("INFO", "commandstats").decode().splitlines():
            if line.startswith(("cmdstat_evalsha:", "cmdstat_eval:")):
                total += int(line.split("calls=")[1].split(",")[0])
    return total


def our_clients(server) -> int:
    return sum("name=lockkeeper" in line for line in server.clients())


def descriptors(keeper) -> int:
    return len(os.listdir(f"/proc/{keeper.pid}/fd"))


def threads(keeper) -> int:
    return len(os.listdir(f"/proc/{keeper.pid}/task"))
