"""Nodes of a cluster that say what a test tells them to, in front of servers that have the keys.

Each node is a front for a real server of its own, which is no cluster's. The front answers what
belongs to the cluster: CLUSTER SLOTS and MYID, ASKING, and redirects. All else it passes on, so a
lock is really taken, renewed and released, and the keys behind the nodes show who has it.
"""
from __future__ import annotations

import collections
import contextlib
import itertools
import select
import socket
import socketserver
import threading
import time

import resp
from clusters import SLOTS, slot_of
from fake_server import reply_bytes
from waiting import until

SILENCE = object()
"""What a node answers that says nothing."""

KEY_AT = {"EVALSHA": 3, "EVAL": 3, "SSUBSCRIBE": 1, "SUNSUBSCRIBE": 1}
MESSAGES = ([b"message"], [b"smessage"])


def slot_asked(words: list[bytes]) -> int | None:
    """The slot of a command that has one."""
    at = KEY_AT.get(words[0].decode().upper())
    return None if at is None or len(words) <= at else slot_of(words[at].decode("latin-1"))


class Front(socketserver.BaseRequestHandler):
    """One connection of a client, and one to the server behind it."""

    def handle(self):
        self.node, self.asking, self.data = self.server.node, False, b""
        self.subscribes = False
        self.mutex = threading.Lock()
        with contextlib.suppress(OSError, resp.Closed, ValueError), \
                self.node.server.connect(60) as self.back:
            self.node.fronts.add(self)
            self.serve()
        self.node.fronts.discard(self)

    def serve(self):
        while True:
            ready, _, _ = select.select([self.request, self.back.socket], [], [])
            if self.back.socket in ready:
                self.say(self.back.read())
            if self.request not in ready:
                continue
            more = self.request.recv(65536)
            if not more:
                return
            self.data += more
            while (found := resp.parse(self.data)) is not None:
                words, at = found
                self.data = self.data[at:]
                self.take(words)

    def waiting(self) -> bytes:
        """What the client has sent behind the command that is being answered."""
        with contextlib.suppress(BlockingIOError):
            return self.data + self.request.recv(65536, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return self.data

    def take(self, words: list[bytes]):
        asking, self.asking = self.asking, words[0].upper() == b"ASKING"
        self.subscribes |= words[0].upper() == b"SSUBSCRIBE"
        slot, said = slot_asked(words), self.node.answer(words)
        with self.node.cluster.gate if slot is not None else contextlib.nullcontext():
            if said is None and slot is not None and not asking:
                said = self.node.refusal(slot)
            if said is None:
                self.pass_on(words)
            elif said is not SILENCE:
                self.say(said)

    def pass_on(self, words: list[bytes]):
        self.back.send(*words)
        while True:
            value = self.back.read()
            self.say(value)
            if not (isinstance(value, list) and value[:1] in MESSAGES):
                break
        while (found := resp.parse(self.back.data)) is not None:  # select() does not show these
            self.back.data = self.back.data[found[1]:]
            self.say(found[0])

    def say(self, value):
        with self.mutex:
            self.request.sendall(reply_bytes(value))

    def cut(self):
        with contextlib.suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


class Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, node: FakeNode, port: int = 0):
        self.node, self.address_family = node, socket.AF_INET6 if ":" in node.host else \
            socket.AF_INET
        super().__init__((node.host, port), Front)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class FakeNode:
    """`rule(words)` may answer any command; None leaves it to `script()`, and that to the slots.
    `slots`: what CLUSTER SLOTS answers, if not the truth."""

    def __init__(self, cluster: FakeCluster, server, number: int, host: str, name: str):
        self.cluster, self.server, self.host, self.name = cluster, server, host, name
        self.id = f"{number:040x}"
        self.rule = lambda words: None
        self.slots = None
        self.script()
        self.seen: list[list[bytes]] = []
        self.fronts: set[Front] = set()
        self.hole: list[socket.socket] = []
        self.listener = Listener(self)
        self.port = self.listener.server_address[1]

    @property
    def place(self) -> str:
        return f"{self.name}:{self.port}"

    def script(self, *answers) -> None:
        """What is said to the first commands that have a key: to each kind of them, since the
        watchdog may ask behind a grant. From then on, the truth."""
        self.answers, self.answered = answers, collections.Counter()

    def scripted(self, words: list[bytes]):
        kind = words[1] if is_script(words) else words[0]
        with self.cluster.mutex:
            at = self.answered[kind]
            self.answered[kind] += 1
        return self.answers[at] if at < len(self.answers) else None

    def answer(self, words: list[bytes]):
        """What it says of its own, or None."""
        self.seen.append(words)
        said = self.rule(words)
        if said is not None:
            return said
        verb = words[0].decode().upper()
        if verb == "ASKING":
            return "OK"
        if verb == "CLUSTER":
            return self.id.encode() if words[1].upper() == b"MYID" else self.told()
        return None if slot_asked(words) is None else self.scripted(words)

    def refusal(self, slot: int):
        """What it says of a slot that it does not have."""
        owner = self.cluster.owner(slot)
        if owner is None:
            return resp.ErrorReply("CLUSTERDOWN Hash slot not served")
        return None if owner is self else moved(slot, owner)

    def told(self):
        ranges = self.cluster.ranges if self.slots is None else self.slots
        if not isinstance(ranges, list):
            return ranges
        return [[first, last, *([node.name.encode(), node.port, node.id.encode()]
                                for node in nodes)] for first, last, *nodes in ranges]

    def count(self, *words: str) -> int:
        """How many commands it got that begin with these."""
        wanted = [word.upper().encode() for word in words]
        return sum([word.upper() for word in seen[:len(wanted)]] == wanted
                   for seen in list(self.seen))

    def waiting(self, verb: str) -> int:
        """How many such commands have been sent behind those that it is answering."""
        return sum(front.waiting().upper().count(b"\r\n%s\r\n" % verb.encode())
                   for front in list(self.fronts))

    def tell(self, value) -> None:
        """Says it unasked to all who subscribe."""
        for front in list(self.fronts):
            if front.subscribes:
                front.say(value)

    def cut(self) -> None:
        for front in list(self.fronts):
            front.cut()

    def stop(self) -> None:
        """Nobody listens there any more."""
        if self.listener:
            self.listener.shutdown()
            self.listener.server_close()
            self.listener = None
        self.cut()

    def fill(self) -> None:
        """Nobody accepts there any more, and there is no room: who connects hears nothing."""
        self.stop()
        self.hole = [socket.create_server((self.host, self.port), backlog=0)]
        while True:
            self.hole.append(socket.socket())
            self.hole[-1].settimeout(0.1)
            try:
                self.hole[-1].connect((self.host, self.port))
            except TimeoutError:
                return

    def empty(self) -> None:
        """The end of that; whoever is connected begins anew."""
        while self.hole:
            self.hole.pop().close()
        self.cut()
        self.listener = self.listener or Listener(self, self.port)


def moved(slot: int, node: FakeNode) -> resp.ErrorReply:
    return resp.ErrorReply(f"MOVED {slot} {node.place}")


def ask(slot: int, node: FakeNode) -> resp.ErrorReply:
    return resp.ErrorReply(f"ASK {slot} {node.place}")


def is_script(words: list[bytes]) -> bool:
    return words[0].upper() == b"EVALSHA"


class FakeCluster:
    """Masters with equal parts of the slots, in front of the servers. `ranges`: who has which, as
    [first, last, master, replica, …]."""

    def __init__(self, servers: list, masters: int = 3, host: str = "127.0.0.1",
                 name: str | None = None):
        self.mutex = threading.Lock()
        self.gate = threading.Lock()  # for a command that has a key
        self.numbers = itertools.count()
        self.servers, self.host, self.name = servers, host, name or host
        self.nodes: list[FakeNode] = []
        for _ in range(masters):
            self.add()
        ends = [SLOTS * number // masters for number in range(masters + 1)]
        self.ranges: list = [[first, end - 1, node]
                             for first, end, node in zip(ends, ends[1:], self.nodes)]

    def add(self) -> FakeNode:
        """One more, which has no slots yet."""
        count = len(self.nodes)
        self.nodes.append(FakeNode(self, self.servers[count], count + 1, self.host, self.name))
        return self.nodes[-1]

    def owner(self, slot: int) -> FakeNode | None:
        return next((node for first, last, node, *_ in self.ranges if first <= slot <= last), None)

    def name_on(self, node: FakeNode) -> str:
        """A new name in a slot that the node has now."""
        return next(name for name in (f"lock{number}" for number in self.numbers)
                    if self.owner(slot_of(name)) is node)

    def give(self, slot: int, node: FakeNode) -> None:
        self.ranges = [[slot, slot, node],
                       *([first, last, *nodes] for begin, end, *nodes in self.ranges
                         for first, last in ((begin, min(end, slot - 1)),
                                             (max(begin, slot + 1), end)) if first <= last)]

    def holders(self, name: str) -> list[FakeNode]:
        """The nodes behind which the key is."""
        return [node for node in self.nodes if node.server.call("EXISTS", name)]

    def scripts(self) -> int:
        return sum(node.count("EVALSHA") for node in self.nodes)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return "redis-cluster://" + ",".join(f"{host}:{node.port}" for node in self.nodes)

    def move(self, name: str, old: FakeNode, new: FakeNode) -> None:
        """The slot goes, with this key, between two commands."""
        with self.gate:
            old.server.call("MIGRATE", "127.0.0.1", new.server.port, name, 0, 5000)
            self.give(slot_of(name), new)

    def kill(self) -> None:
        for node in self.nodes:
            node.empty()
            node.stop()


def connected(make_keeper, fake: FakeCluster, queue: int = 0, **options):
    """A client that has used each of the nodes, so that what follows counts only what it causes."""
    keeper = make_keeper(fake.url, **{"client_record": "off", **options})
    for node in fake.nodes:
        taken(keeper, fake, fake.name_on(node), node, queue)
    return keeper


def taken(keeper, fake: FakeCluster, name: str, node: FakeNode, queue: int = 0) -> None:
    """It is granted, once, there; and released."""
    keeper.call("within", name, wait=10_000, queue=queue).ok()
    assert fake.holders(name) == [node]
    assert keeper.call("is_held", name, queue=queue).result == 1
    keeper.call("release", name, queue=queue).ok()
    assert fake.holders(name) == []


class Neighbour:
    """Takes and releases a lock that the node has, again and again."""

    def __init__(self, keeper, fake, node):
        self.keeper, self.name = keeper, fake.name_on(node)
        self.longest, self.count, self.failed = 0.0, 0, None
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        until(lambda: self.count > 1, 10, "it goes on")

    def work(self):
        try:
            while not self.ends.is_set():
                began = time.monotonic()
                for verb in ("acquire", "release"):
                    self.keeper.call(verb, self.name, thread="neighbour").ok()
                self.longest = max(self.longest, time.monotonic() - began)
                self.count += 1
        except (AssertionError, OSError, ValueError) as error:
            self.failed = error

    def was_well(self, most: float = 2.0):
        before = self.count
        until(lambda: self.count > before or self.failed, 10, "it goes on")
        self.ends.set()
        self.thread.join(10)
        assert not self.failed, self.failed
        assert self.longest < most, f"it waited for {self.longest} s"
