"""What is done with a deployment whose master moves, however the client follows it."""
from __future__ import annotations

import os

import checker
from keeper import EVENT_LOST
from waiting import never, until

LOCKS = ("lock", "fair", "fenced", "spin", "plain", "read", "write", "multi")
EVERY_LOCK = (*LOCKS, "fenced-java", "read-polite", "write-preferred")
RIVALS = {"read": "write", "read-polite": "write-preferred"}
"""Who excludes each kind; the others exclude themselves."""


def use_every_kind(keeper) -> None:
    """Each kind of lock, called both ways, and each counter, once."""
    for kind in LOCKS:
        for queued in (0, 1):
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


def takes_each(keeper, cluster) -> None:
    """A lock of each shard, and gives it back."""
    for index in range(len(cluster.shards)):
        name = cluster.name_on(index)
        keeper.call("within", name, wait=20_000).ok()
        keeper.call("release", name).ok()


def acknowledged(master, replicas: int = 2) -> None:
    """Until the replicas have what was written. Another connection's offset is the server's."""
    with master.connect() as connection:
        connection.call("SET", "marker", 1)
        assert connection.call("WAIT", replicas, 5000) == replicas


def without_replication(master) -> None:
    """From now on what is written stays on the master alone; nobody else notices."""
    master.call("ACL", "SETUSER", "default", "-psync", "-sync")
    master.call("CLIENT", "KILL", "TYPE", "replica")


def is_told(keeper, name: str, limit: float = 10) -> str:
    """Waits for the notice. Which server it names."""
    until(lambda: keeper.events_of(EVENT_LOST, name), limit, f"the holder of {name} is told")
    return keeper.events_of(EVENT_LOST, name)[0]["node"]


def calls_of(server, *commands: str) -> int:
    """How often it has executed these."""
    wanted = tuple(f"cmdstat_{command}:" for command in commands)
    return sum(int(line.split("calls=")[1].split(",")[0])
               for line in server.call("INFO", "commandstats").decode().splitlines()
               if line.startswith(wanted))


def scripts_run(server) -> int:
    """How many scripts clients have had it execute; what it replicates are their commands."""
    return calls_of(server, "evalsha", "eval")


def our_clients(server) -> int:
    return sum("name=lockkeeper" in line for line in server.clients())


def descriptors(keeper) -> int:
    return len(os.listdir(f"/proc/{keeper.pid}/fd"))


def threads(keeper) -> int:
    return len(os.listdir(f"/proc/{keeper.pid}/task"))


class Contest:
    """Locks that one client holds and renews, while another waits for each of them.

    names: {kind: name}. The waits have threads of their own, named as the kinds. The options are
    those of both clients, but where `waiter` has others.
    """

    def __init__(self, make_keeper, url: str, names: dict[str, str], lease_ms: int,
                 waiter: dict | None = None, **options):
        self.names, self.lease_s = names, lease_ms / 1000
        self.holder = make_keeper(url, watchdog_ms=lease_ms, **options)
        self.waiter = make_keeper(url, **{**options, **(waiter or {})})
        self.holder.listen()
        for kind, name in names.items():
            self.holder.call("acquire", name, kind=kind).ok()
            self.waiter.call("try", name, kind=rival_of(kind)).is_code("LK_EBUSY")
        self.waits = {kind: self.waiter.say("within", name, thread=kind, kind=rival_of(kind),
                                            wait=120_000) for kind, name in names.items()}
        until(lambda: self.waiter.stats().waiting == len(names) or self.ended(), 10, "all wait")
        until(lambda: asleep(self.waiter), 10, "all have asked")
        assert not self.ended()

    def ended(self) -> list[tuple]:
        """The waits that are over: granted to another, or failed."""
        return [(kind, wait.answer) for kind, wait in self.waits.items() if wait.done]

    def is_kept(self) -> None:
        """By its holder, for longer than any lease that it has now."""
        never(self.ended, self.lease_s + 0.5, "a wait is over")
        for kind, name in self.names.items():
            assert self.holder.call("is_held", name, kind=kind).result == 1, kind
        assert not self.holder.events_of(EVENT_LOST), self.holder.events_of(EVENT_LOST)
        assert not self.ended(), self.ended()

    def hand_over(self) -> None:
        """Each release is heard, and each waiter gets its lock, long before a lease would end."""
        for kind, name in self.names.items():
            released = self.holder.call("release", name, kind=kind).ok()
            self.has_it(kind, released.end_ns)

    def has_it(self, kind: str, released_ns: int) -> None:
        granted = self.waits[kind].result(20).ok()
        assert granted.end_ns - released_ns < 5 * 10**9, f"{kind}: the release was not heard"
        self.holder.call("try", self.names[kind], kind=kind).is_code("LK_EBUSY")
        self.waiter.call("release", self.names[kind], thread=kind, kind=rival_of(kind)).ok()


def hand_over_all(holder, waiter, kinds, queued: int) -> None:
    """One client has a lock of each kind for longer than their leases, another waits for each: that
    has it soon after its release."""
    names = {kind: f"{{k}}{kind}-{queued}" for kind in kinds}
    waits = {}
    for kind, name in names.items():
        holder.call("acquire", name, kind=kind, queue=queued).ok()
        rival = {"kind": rival_of(kind), "queue": queued}
        tried = waiter.call("try", name, **rival)
        assert tried.code == "LK_EBUSY", (kind, tried, holder.events_of(EVENT_LOST, name))
        waits[kind] = waiter.say("within", name, thread=kind, wait=60_000, **rival)
    until(lambda: holder.stats().renewals >= 4 * len(names), 20, "all are renewed")
    assert not any(wait.done for wait in waits.values())
    for kind, name in names.items():
        released = holder.call("release", name, kind=kind, queue=queued).ok()
        granted = waits[kind].result(20).ok()
        assert granted.end_ns - released.end_ns < 5 * 10**9, kind
        holder.call("try", name, kind=kind, queue=queued).is_code("LK_EBUSY")
        waiter.call("release", name, thread=kind, kind=rival_of(kind), queue=queued).ok()


def use_counters(holder, waiter) -> None:
    """One client has all that there is, another waits and gets it."""
    for kind in ("semaphore", "permits"):
        holder.call("set", kind, kind=kind, count=1).ok()
        ids = holder.call("acquire", kind, kind=kind, count=1).ok().get("ids", "")
        waits = waiter.say("within", kind, thread="w", kind=kind, count=1, wait=20_000)
        until(lambda: waiter.stats().waiting == 1, 10, "it waits")
        holder.call("release", kind, kind=kind, count=1, ids=ids).ok()
        waits.result().ok()
    holder.call("set", "latch", kind="latch", count=1).ok()
    waits = waiter.say("within", "latch", thread="w", kind="latch", wait=20_000)
    holder.call("down", "latch", kind="latch", count=1).ok()
    waits.result().ok()


class Stress:
    """Clients contend for locks until the end, when the checker reads what they were told."""

    def __init__(self, keepers: list, history, **options):
        self.keepers, self.paths = keepers, [history() for _ in keepers]
        self.runs = [keeper.say("stress", thread="s", pairs=1_000_000, lease=1500, history=path,
                                capacity=200_000, run=number, **options)
                     for number, (keeper, path) in enumerate(zip(keepers, self.paths))]

    def goes_on(self, more: int) -> None:
        """Each client acquires more than so many times more."""
        before = [keeper.stats().acquires for keeper in self.keepers]
        until(lambda: all(keeper.stats().acquires > count + more for keeper, count
                          in zip(self.keepers, before)), 20, "all go on")

    def end(self) -> None:
        for keeper in self.keepers:
            keeper.call("stop", thread="-")
        for run in self.runs:
            run.result(40)
        assert checker.check(checker.read(*self.paths), over_allowed=3)


def asleep(keeper) -> bool:
    """Whether nothing is under way: not only for a moment, between two answers."""
    return all(keeper.is_asleep() for _ in range(20))


def rival_of(kind: str) -> str:
    return RIVALS.get(kind, kind)
