"""Where a cell of the matrix is run: servers behind proxies, and what is in Redis, made comparable.

A run is one process with clients: "c" and its like go through the proxies, "o" (the other) does
not. A cell flushes the servers and makes a new process, so that nothing stays for the next one.
"""
from __future__ import annotations

import os
import pathlib
import re
import resource
import shutil
import tempfile
import threading
import time

import resp
from keeper import BUILD, DRIVER, Keeper, is_sanitized
from proxy import Proxy
from requests_seen import name_of
from servers import Server
from waiting import until

SLOW = float(os.environ.get("LK_TEST_SLOW", "1"))
PACE = 1 if SLOW == 1 else 2
COMMAND_MS, LEASE_MS, LONG_MS, RETRY_MS = 300 * PACE, 600 * PACE, 60_000, 2000 * PACE
CLIENT = {"command_timeout_ms": COMMAND_MS, "watchdog_ms": LEASE_MS, "retry_ms": RETRY_MS,
          "backoff_max_ms": 100, "fair_wait_ms": 5000, "term_ms": 1000}
OTHER = {**CLIENT, "watchdog_ms": 30000, "command_timeout_ms": 3000}
FOLLOWS = {"repl-diskless-sync-delay": 0, "repl-ping-replica-period": 1}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(:kept)?(:\d+)?")
TURNS = "lockkeeper_turns:"
SMALL = re.compile(r"-?\d{1,6}")


SANITIZED = is_sanitized(BUILD / "src" / "liblockkeeper.so")
"""A sanitizer has an allocator of its own, which cannot be starved."""


class Stand:
    """Servers, each with a proxy before it, and with a replica if grants are to be acknowledged;
    they outlive the cells."""

    def __init__(self, acked: bool = False):
        self.acked = acked
        self.replicas: list[Server] = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
        self.servers: list[Server] = []
        self.proxies: list[Proxy] = []
        self.direct: list[resp.Connection] = []

    def need(self, count: int) -> None:
        while len(self.servers) < count:
            place = self.folder / f"s{len(self.servers)}"
            place.mkdir(exist_ok=True)  # one that did not start has left it
            server = Server(place, FOLLOWS)
            if self.acked:
                self.replicas.append(replica_of(server.start_anywhere(), place / "replica"))
            else:
                server.config["port"] = 0  # the unix socket alone: many start at once
                server.start()
            self.servers.append(server)
            self.proxies.append(Proxy(server.path, str(place / "proxy.sock")))
            self.direct.append(server.connect())

    def clean(self) -> None:
        for replica in self.replicas:
            replica.resume()
        for proxy in self.proxies:
            proxy.rule, proxy.refuse = None, False
            proxy.cut_all()
        for connection in self.direct:
            for name, value in (("min-replicas-to-write", 0), ("maxmemory", 0)):
                connection.call("CONFIG", "SET", name, value)
            connection.call("FLUSHALL")
        for connection in self.direct if self.acked else []:
            until(lambda one=connection: one.call("WAIT", 1, 1000) == 1, 20, "a replica follows")

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.stop()
        for server in [*self.servers, *self.replicas]:
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def replica_of(server: Server, place: pathlib.Path) -> Server:
    place.mkdir(exist_ok=True)
    return Server(place, {**FOLLOWS, "replicaof": f"127.0.0.1 {server.port}"}).start_anywhere()


FIRST = "first"  # a lock that says nothing but that its client is connected


def is_mark(argv: list[bytes]) -> bool:
    return argv[0].lower() == b"ping" or any(FIRST.encode() in word for word in argv[3:])


class Run:
    """One process with its clients, for one cell."""

    def __init__(self, stand: Stand, operation):
        stand.need(operation.nodes)
        stand.clean()
        self.stand, self.operation = stand, operation
        self.names: dict[str, str] = {}
        self.field = self.ids = ""
        self.codes: set[str] = set()  # that calls have returned
        self.meanwhile = ""  # what the other was told
        self.timers: list[threading.Timer] = []
        self.healing: threading.Timer | None = None
        self.silent = False
        self.over = False  # the call has returned
        self.beginning = threading.Lock()
        self.starved = stand.folder / "starved"
        self.starve(False)
        self.keeper = Keeper(program=self.program())
        self.rule = None        # the fault's
        self.own_rule = None    # the operation's
        self.seen: list[tuple[str, int]] = []
        self.sent: set[str] = set()  # names of all requests, of the other too
        self.counts: dict[str, int] = {}
        self.draining = False
        self.mutex = threading.Lock()
        self.clients = [f"{who}{i or ''}" for who in "co" for i in range(operation.nodes)]
        for who in self.clients:
            i = int(who[1:] or 0)
            url = stand.proxies[i].unix_url if who[0] == "c" else stand.servers[i].unix_url
            options = dict(CLIENT if who[0] == "c" else OTHER)
            threadless = operation.threadless and who[0] == "c"
            if threadless:
                options["threadless"] = 1
            if operation.acked and who[0] == "c":
                options["replica_acks"] = 1
            answer = self.keeper.open(url, who, **options)
            self.names[answer["uuid"]] = who[0]
            first = self.connect if threadless else self.ping
            until(lambda who=who: first(who)["code"] == "OK", 10)
        for who in operation.warm:
            until(lambda who=who: self.warm_up(who), 10)
        self.agreed()

    def warm_up(self, who: str) -> bool:
        """On a busy machine an answer may come after the command limit: then once more."""
        return all(self.call(who, verb, **arguments)["code"] == "OK"
                   for verb, arguments in (("acquire", {"lease": LONG_MS}), ("release", {})))

    def ping(self, who: str):
        return self.keeper.call("ping", c=who)

    def connect(self, who: str):
        """For a client that has no such call."""
        lock = {"c": who, "kind": "lock", "name": FIRST, "queue": 1}
        answer = self.keeper.call("try", **lock)
        self.keeper.call("release", **lock)
        return answer

    def program(self) -> tuple:
        if SANITIZED:
            return (DRIVER,)
        return ("env", f"LD_PRELOAD={BUILD / 'tests' / 'faults' / 'libstarve.so'}",
                f"LOCKKEEPER_STARVE={self.starved}", DRIVER)

    def starve(self, on: bool) -> None:
        """Whether the library gets memory: the process reads it from the file."""
        with open(self.starved, "r+b" if self.starved.exists() else "wb") as file:
            file.write(bytes([on, 0, 0, 0]))

    # ---- calls ----

    def say(self, who: str, verb: str, kind: str | None = None, **arguments):
        arguments = {"kind": kind or self.operation.kind, "name": self.operation.lock, "c": who,
                     **arguments}
        if self.operation.nodes > 1:
            arguments["nodes"] = ",".join(name for name in self.clients if name[0] == who)
            arguments["node_limit"] = COMMAND_MS  # a quarter of the lease would be less
        if arguments["kind"] == "client":
            del arguments["kind"]
        if self.operation.queued and who == "c":
            arguments["queue"] = 1
        return self.keeper.say(verb, **{"thread": who, **arguments})

    def call(self, who: str, verb: str, **arguments):
        answer = self.say(who, verb, **arguments).result(30 * SLOW)
        return self.told(answer)

    def told(self, answer):
        self.field = answer.get("field", self.field)
        self.ids = answer.get("ids", self.ids)
        self.codes.add(answer["code"])
        return answer

    # ---- the proxies ----

    def arm(self, rule=None) -> None:
        self.rule = rule
        self.stand.proxies[0].rule = self.judge
        for proxy in self.stand.proxies[1:]:
            proxy.rule = lambda message: self.own_rule(message) if self.own_rule else None

    def judge(self, message):
        """The rule of the first node's proxy: counts requests by name, asks both rules."""
        nth = 0
        if not message.reply and not (self.draining and is_mark(message.argv)):
            name = name_of(message.argv)
            with self.mutex:
                nth = self.counts[name] = self.counts.get(name, -1) + 1
                self.seen.append((name, nth))
        verdict = self.rule(message, nth) if self.rule else None
        if verdict is None and self.own_rule:
            verdict = self.own_rule(message)
        return verdict

    def away(self) -> None:
        """Nothing answers any more: a rule then cuts what is under way."""
        for proxy in self.stand.proxies:
            proxy.refuse = True

    def back(self) -> None:
        for proxy in self.stand.proxies:
            proxy.refuse = False

    def cut_others(self, but) -> None:
        for proxy in self.stand.proxies:
            for pipe in list(proxy.pipes):
                if pipe is not but:
                    proxy.loop.call_soon_threadsafe(pipe.close)

    def returned(self) -> None:
        with self.beginning:
            self.over = True

    def unless_over(self, begin):
        with self.beginning:
            return None if self.over else begin()

    def later(self, seconds: float, function) -> threading.Timer:
        timer = threading.Timer(seconds, function)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)  # who joins it finds it started
        return timer

    def finish_timers(self) -> None:
        for timer in self.timers:
            timer.join()

    def flush_scripts(self) -> None:
        for server in self.stand.servers[:self.operation.nodes]:
            server.call("SCRIPT", "FLUSH")

    def configure(self, name: str, value) -> None:
        for server in self.stand.servers[:self.operation.nodes]:
            server.set(name, value)

    def silence(self, on: bool) -> None:
        """Whether the replicas acknowledge nothing."""
        self.silent = on
        for replica in self.stand.replicas:
            if on:
                replica.pause()
            else:
                replica.resume()

    def limit_descriptors(self) -> None:
        used = len(os.listdir(f"/proc/{self.keeper.pid}/fd"))
        _, hard = resource.prlimit(self.keeper.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.keeper.pid, resource.RLIMIT_NOFILE, (used, hard))

    def unlimit_descriptors(self) -> None:
        _, hard = resource.prlimit(self.keeper.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.keeper.pid, resource.RLIMIT_NOFILE, (min(hard, 1024), hard))

    # ---- what is in Redis ----

    def state(self) -> tuple[str, ...]:
        """Of each server, its keys with what they hold; numbers that differ by run left out."""
        return tuple(self.state_of(connection)
                     for connection in self.stand.direct[:self.operation.nodes])

    def drain(self) -> None:
        """What a call has left under way is done: a connection answers in order. What an answer
        brings about comes behind the first mark."""
        if self.operation.loses:
            return
        self.draining = True
        for _ in range(2):
            for who in self.clients:
                (self.connect if self.operation.threadless else self.ping)(who)
        self.draining = False

    def agreed(self) -> tuple[str, ...]:
        """The state as soon as all nodes have the same."""
        self.drain()
        wait_for(lambda: len(set(self.state())) == 1, 1.0)
        return self.state()

    def state_of(self, connection: resp.Connection) -> str:
        keys = sorted(connection.call("KEYS", "*"))
        found = (self.key_of(connection, key) for key in keys)
        return ", ".join(sorted(text for text in found if text))

    def key_of(self, connection: resp.Connection, key: bytes) -> str:
        kind, ttl = connection.call("TYPE", key), connection.call("PTTL", key)
        if kind == "none" or ttl == -2:
            return ""
        name = key.decode("latin-1")
        # The record of one request, and who waits since when, of which a copy that strays may note
        # a place that nobody has any more: they must end by themselves.
        if UUID.search(name) or name.startswith(TURNS):
            return "" if ttl >= 0 else f"{self.plain(name)} without a ttl"
        return f"{name}={self.value_of(connection, key, kind)}{'' if ttl >= 0 else ' (no ttl)'}"

    def value_of(self, connection: resp.Connection, key: bytes, kind: str) -> str:
        if kind == "string":
            return self.plain(connection.call("GET", key))
        if kind == "list":
            return f"[{' '.join(map(self.plain, connection.call('LRANGE', key, 0, -1)))}]"
        if kind == "zset":
            members = connection.call("ZRANGE", key, 0, -1)
            return f"<{' '.join(sorted(map(self.plain, members)))}>"
        flat = connection.call("HGETALL", key)
        pairs = zip(flat[::2], flat[1::2])
        return f"{{{' '.join(sorted(f'{self.plain(a)}:{self.plain(b)}' for a, b in pairs))}}}"

    def plain(self, value: bytes | str | None) -> str:
        """An owner by its client's name; ids, tokens and times as "#"."""
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        uuid = UUID.search(text)
        if uuid:
            who = self.names.get(uuid.group()[:36], "?")
            return UUID.sub(lambda found: who + (found[1] or ""), text)
        if SMALL.fullmatch(text) or re.fullmatch(r"[a-z]+", text):
            return text
        return "#"

    def ttl_of(self, who: str) -> list[int]:
        """Of each server, the least ttl of a lock that this client has."""
        names = [name.encode() for name in self.operation.lock.split(",")]
        found = []
        for connection in self.stand.direct[:self.operation.nodes]:
            ttls = [connection.call("PTTL", key) for key in names
                    if re.search(rf"\b{who}\b", self.key_of(connection, key).partition("=")[2])]
            found.append(min(ttls, default=-2))
        return found

    def channels(self) -> list[bytes]:
        return [name for connection in self.stand.direct[:self.operation.nodes]
                for name in connection.call("PUBSUB", "CHANNELS")]

    def end(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.back()
        for proxy in self.stand.proxies:
            proxy.rule = None
        self.keeper.stop()


def wait_for(condition, limit: float):
    """The condition's value as soon as it is true, or the last one after the limit."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.01)
