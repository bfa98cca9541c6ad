"""Clusters of real servers: started, failed over, resharded, ended.

A shard is a master and its replicas. It keeps its number when another node becomes its master. At
the start the shards have equal parts of the slots, in the order of their numbers.
"""
from __future__ import annotations

import binascii
import contextlib
import itertools
import pathlib
import time
from typing import NamedTuple

from servers import Server, free_port, stopped
from waiting import until

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
PATIENT_MS = 15_000
"""A node time-out for clusters in which nobody is killed: a busy machine then fails nobody over."""
SICK = {"fail", "fail?", "handshake", "noaddr"}


def slot_of(key: str) -> int:
    """CRC16 of the part in the first braces, or of all of it when there is none."""
    before, brace, rest = key.partition("{")
    tag, end, _ = rest.partition("}")
    return binascii.crc_hqx((tag if brace and end and tag else key).encode(), 0) % SLOTS


class Row(NamedTuple):
    """What a node says of one node: a line of CLUSTER NODES."""
    id: str
    flags: frozenset[str]
    master: str  # its id; "-" for a master
    epoch: int
    linked: bool
    slots: tuple[tuple[int, int], ...]

    @staticmethod
    def read(line: str) -> Row:
        name, _, flags, master, _, _, epoch, link, *slots = line.split()
        ranges = [(first, last or first) for first, _, last in
                  (words.partition("-") for words in slots if not words.startswith("["))]
        return Row(name, frozenset(flags.split(",")), master, int(epoch), link == "connected",
                   tuple((int(first), int(last)) for first, last in ranges))

    def has(self, slot: int) -> bool:
        return any(first <= slot <= last for first, last in self.slots)


class Node(Server):
    """One server of a cluster. The port of its bus is any that is free."""

    def __init__(self, folder: pathlib.Path, config: dict, tls: dict | None = None):
        self.bus = free_port()
        super().__init__(folder, {
            "cluster-enabled": "yes", "cluster-port": self.bus, "appendonly": "no",
            # A replica stays with its shard, and synchronizes at once, without a child process.
            "cluster-allow-replica-migration": "no", "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": 0, "repl-diskless-load": "swapdb",
            "repl-ping-replica-period": 1,
            **({"tls-cluster": "yes", "tls-replication": "yes"} if tls else {}), **config}, tls)

    def take_ports(self) -> None:
        super().take_ports()
        self.bus = self.config["cluster-port"] = free_port()

    def start(self) -> Node:
        super().start()
        self.id = self.call("CLUSTER", "MYID").decode()
        return self

    def runs(self) -> bool:
        return self.process.poll() is None and not stopped(self.process.pid)

    def view(self) -> dict[str, Row]:
        rows = map(Row.read, self.call("CLUSTER", "NODES").decode().splitlines())
        return {row.id: row for row in rows}

    def is_ok(self) -> bool:
        return b"cluster_state:ok" in self.call("CLUSTER", "INFO")

    def listed(self) -> set[str]:
        """The masters and replicas of its map: a replica is in it when its offset is known."""
        return {node[2].decode() for row in self.call("CLUSTER", "SLOTS") for node in row[2:]}

    def online(self) -> int:
        """How many replicas follow it, in step."""
        return self.call("INFO", "replication").count(b"state=online")


def maps_asked(nodes: list) -> int:
    """How often clients have asked the nodes for their maps."""
    return sum(int(node.info("cmdstat_cluster|slots").split("calls=")[1].split(",")[0])
               for node in nodes)


class Cluster:
    """Masters, each with replicas, on free ports of the loopback; or where site(number) says."""

    def __init__(self, folder: pathlib.Path, masters: int = 3, replicas: int = 1,
                 node_timeout_ms: int = NODE_TIMEOUT_MS, tls: dict | None = None, site=None,
                 **config):
        self.numbers = itertools.count()
        self.patience_s = 60.0
        self.pause_s = 4 * node_timeout_ms / 1000  # between two elections that one node stands in
        self.elected: dict[Node, float] = {}
        self.nodes: list[Node] = []
        self.shards: list[list[Node]] = [[] for _ in range(masters)]
        config = {name.replace("_", "-"): value for name, value in config.items()}
        self.folder, self.tls = folder, tls
        self.config = {"cluster-node-timeout": node_timeout_ms, **config}
        try:
            for number in range(masters * (1 + replicas)):
                place = folder / f"node{number}"
                place.mkdir()
                node = Node(place, self.config, tls)
                if site:
                    node.settle(site(number))
                self.nodes.append(node)
                self.shards[number % masters].append(node.start_anywhere())
            self.form()
        except BaseException:
            self.kill()
            raise

    def form(self) -> None:
        """Brings them together, as redis-cli --cluster create does."""
        for number, node in enumerate(self.nodes, 1):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number)
        for index, shard in enumerate(self.shards):
            shard[0].call("CLUSTER", "ADDSLOTSRANGE", *self.home(index))
        for node in self.nodes[1:]:
            self.nodes[0].call("CLUSTER", "MEET", node.host, node.port, node.bus)
        until(lambda: all(self.is_known(node) for node in self.nodes), 30, "they know each other")
        for master, *replicas in self.shards:
            for replica in replicas:
                replica.call("CLUSTER", "REPLICATE", master.id)
        self.wait()

    # Nodes that come and go.

    def join(self, index: int) -> Node:
        """A new one, which becomes a replica of that shard."""
        place = self.folder / f"node{next(self.numbers)}-new"
        place.mkdir()
        node = Node(place, self.config, self.tls)
        self.nodes.append(node)
        self.shards[index].append(node.start_anywhere())
        node.call("CLUSTER", "MEET", self.nodes[0].host, self.nodes[0].port, self.nodes[0].bus)
        until(lambda: self.is_known(node), 30, "all know the new node")
        node.call("CLUSTER", "REPLICATE", self.master(index).id)
        self.wait()
        return node

    def leave(self, node: Node) -> None:
        """A replica ends, and all forget it."""
        index = self.shard_of(node)
        node.kill()
        self.nodes.remove(node)
        self.shards[index].remove(node)
        for other in self.nodes:
            other.call("CLUSTER", "FORGET", node.id)

    def replace(self, index: int) -> None:
        """Each node of a shard by a new one."""
        old = list(self.shards[index])
        new = [self.join(index) for _ in old]
        self.failover(index, to=new[0])
        for node in old:
            self.leave(node)
        self.wait()

    def is_known(self, node: Node) -> bool:
        views = [other.view() for other in self.nodes]
        return all(node.id in view and not view[node.id].flags & SICK for view in views)

    @property
    def url(self) -> str:
        return "redis-cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    # Who is who, now.

    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.runs()]

    def owner(self, slot: int) -> Node:
        """The master that has the slot. While the nodes disagree: the one of the last epoch."""
        rows = [row for node in self.running() for row in node.view().values() if row.has(slot)]
        last = max(rows, key=lambda row: row.epoch)
        return next(node for node in self.nodes if node.id == last.id)

    def node_of(self, key: str) -> Node:
        return self.owner(slot_of(key))

    def master(self, index: int) -> Node:
        return self.owner(self.home(index)[0])

    def masters(self) -> list[Node]:
        return [self.master(index) for index in range(len(self.shards))]

    def replicas(self, index: int) -> list[Node]:
        master = self.master(index)
        return [node for node in self.shards[index] if node is not master and node.runs()]

    def shard_of(self, node: Node) -> int:
        return next(index for index, shard in enumerate(self.shards) if node in shard)

    # Names.

    def home(self, index: int) -> tuple[int, int]:
        """The first and the last slot that the shard has at the start."""
        count = len(self.shards)
        return index * SLOTS // count, (index + 1) * SLOTS // count - 1

    def home_of(self, slot: int) -> int:
        return next(index for index in range(len(self.shards)) if slot <= self.home(index)[1])

    def name_on(self, index: int, like: str = "lock") -> str:
        """A new name in a slot of that shard, but not in its first one, by which it is known."""
        first, last = self.home(index)
        names = (f"{like}-{number}" for number in self.numbers)
        return next(name for name in names if first < slot_of(name) <= last)

    # Waiting.

    def wait(self) -> None:
        """Waits until all that run agree on the masters of the slots, and replicas are in step. A
        cluster that has not become whole once is not waited for again."""
        limit, self.patience_s = self.patience_s, 1
        self.agree(self.is_whole, limit, "the cluster is whole")
        self.patience_s = limit

    def agree(self, condition, limit: float, what: str) -> None:
        """Fails with what each node believes."""
        try:
            until(condition, limit, what)
        except AssertionError as error:
            views = [f"{node.id}: {node.call('CLUSTER', 'NODES').decode()}"
                     for node in self.running()]
            raise AssertionError("\n".join([str(error), *views])) from None

    def is_whole(self) -> bool:
        running = self.running()
        ids = {node.id for node in running}
        views = [node.view() for node in running]
        owners = {frozenset((row.id, row.epoch, row.slots) for row in view.values() if row.slots)
                  for view in views}
        if len(owners) != 1 or not all(node.is_ok() for node in running):
            return False
        serving = {name for name, _, _ in next(iter(owners))}
        return (serving <= ids and
                all(self.is_well(view, ids, serving) for view in views) and
                all(ids <= node.listed() for node in running) and
                sum(node.online() for node in running if node.id in serving) ==
                len(ids) - len(serving))

    @staticmethod
    def is_well(view: dict[str, Row], ids: set[str], serving: set[str]) -> bool:
        """Whether a node sees all that run, and each as what it is: master of slots, or replica."""
        return all(name in view and view[name].linked and not view[name].flags & SICK and
                   ("master" if name in serving else "slave") in view[name].flags for name in ids)

    def switched(self, old: Node) -> Node:
        """Another has become the master in its place, and everybody knows."""
        index = self.shard_of(old)
        until(lambda: self.master(index) is not old, 60, "another is the master")
        self.wait()
        self.elected[self.master(index)] = time.monotonic()
        return self.master(index)

    def failover(self, index: int, how: str = "", to: Node | None = None) -> Node:
        """A planned one: how = "", "FORCE" or "TAKEOVER". Returns the new master, when it is over.

        The server gives a failover up after 5 s, and says nothing. So it is asked for again. It
        would give up one of a node that has just been elected, and serve nobody meanwhile.
        """
        new = to or self.replicas(index)[0]
        may = self.elected.get(new, -self.pause_s) + self.pause_s if how != "TAKEOVER" else 0
        until(lambda: time.monotonic() > may, self.pause_s + 1, "it may be elected again")
        for _ in range(3):
            new.call("CLUSTER", "FAILOVER", *how.split())
            with contextlib.suppress(AssertionError):
                until(lambda: self.master(index) is new, 6)
                break
        self.wait()
        self.elected[new] = time.monotonic()
        assert self.master(index) is new, f"the failover {how} was given up three times"
        return new

    # A slot moves as a whole: from its owner with Valkey 9, to its new node with Redis 8.4.

    def moves_whole_slots(self) -> bool:
        return self.offers("MIGRATESLOTS") or self.offers("MIGRATION")

    def offers(self, word: str) -> bool:
        return any(line.startswith(word) for line in self.nodes[0].call("CLUSTER", "HELP"))

    def move_whole_slot(self, slot: int, to: Node) -> None:
        if self.offers("MIGRATESLOTS"):
            self.owner(slot).call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot,
                                  "NODE", to.id)
        else:
            to.call("CLUSTER", "MIGRATION", "IMPORT", slot, slot)
        self.all_know(slot, to)

    def all_know(self, slot: int, owner: Node) -> None:
        """And since which epoch, of which there is one for each master. A master that has not heard
        of the last one may choose the same for itself; with two equal ones the nodes may disagree
        for ever, and then the owner needs a higher one."""
        def agreed() -> bool:
            views = [node.view() for node in self.running()]
            epochs = {view[owner.id].epoch for view in views}
            return len(epochs) == 1 and all(
                row.has(slot) == (row.id == owner.id) and
                (row.id == owner.id or row.master != "-" or row.epoch not in epochs)
                for view in views for row in view.values())

        what = f"all know who has slot {slot}"
        for _ in range(3):
            with contextlib.suppress(AssertionError):
                until(agreed, 10, what)
                return
            owner.call("CLUSTER", "BUMPEPOCH")
        self.agree(agreed, 10, what)

    # Or key by key, with servers of any version.

    def move_slot(self, slot: int, to: Node) -> None:
        self.begin_move(slot, to)
        self.move_keys(slot, to)
        self.end_move(slot, to)

    def begin_move(self, slot: int, to: Node) -> None:
        """From now on what is not there is asked for at its new node (ASK)."""
        old = self.owner(slot)
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", old.id)
        old.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

    def move_keys(self, slot: int, to: Node, most: int | None = None) -> list[str]:
        """All its keys, or so many of them. Returns their names."""
        old, moved = self.owner(slot), []
        for _ in range(1000):
            count = 100 if most is None else most - len(moved)
            keys = old.call("CLUSTER", "GETKEYSINSLOT", slot, count)
            if not keys:
                return moved
            # NOKEY: its lease ended between the two commands.
            old.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            moved += [key.decode() for key in keys]
        raise AssertionError(f"the keys of slot {slot} do not end")

    def end_move(self, slot: int, to: Node) -> None:
        """The new node has it, first in its own eyes: somebody always has it."""
        old = self.owner(slot)
        others = [node for node in self.masters() if node not in (to, old) and node.runs()]
        for node in (to, old, *others):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        self.all_know(slot, to)

    def give_slot_back(self, slot: int) -> None:
        """To the shard that had it at the start. A move that is under way is finished first."""
        for node in self.masters():
            for line in node.call("CLUSTER", "NODES").decode().splitlines():
                if "myself" in line and f"[{slot}->-" in line:
                    target = line.split(f"[{slot}->-")[1].split("]")[0]
                    to = next(other for other in self.nodes if other.id == target)
                    self.move_keys(slot, to)
                    self.end_move(slot, to)
        home = self.master(self.home_of(slot))
        if self.owner(slot) is not home:
            self.move_slot(slot, home)
