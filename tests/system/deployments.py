"""Masters with replicas, and sentinels that watch them: started, failed over, ended."""
from __future__ import annotations

import contextlib
import pathlib
import socketserver
import ssl
import subprocess
import threading

import resp
from fake_server import reply_bytes
from servers import Server, free_port
from waiting import until

DOWN_AFTER_MS = 500
MASTER = "mymaster"
PATIENT = f"sentinel down-after-milliseconds {MASTER} 2000"
"""More for sentinels that must not take a server for dead that merely gets no processor time: they
would replace one master after the other, by replicas that they called down at a grant."""


class Replicas:
    """One master and its replicas, on free ports of the loopback; or where site(number) says."""

    def __init__(self, folder: pathlib.Path, count: int = 3, tls: dict | None = None, site=None,
                 **config):
        self.servers = []
        if tls:
            config = {"tls-replication": "yes", **config}
        for number in range(count):
            place = folder / f"data{number}"
            place.mkdir()
            # Replicas synchronize at once, and without a child process.
            self.servers.append(Server(place, {
                "repl-diskless-sync": "yes", "repl-diskless-sync-delay": 0,
                "repl-diskless-load": "swapdb", "repl-ping-replica-period": 1,
                **config}, tls))
            if site:
                self.servers[-1].settle(site(number))
        try:
            for server in self.servers:
                if server is not self.servers[0]:
                    server.config["replicaof"] = self.place(self.servers[0])
                server.start_anywhere()
            self.wait()
        except BaseException:
            Replicas.kill(self)
            raise

    @staticmethod
    def place(server: Server) -> str:
        return f"{server.host} {server.port}"

    def wait(self, count: int | None = None) -> None:
        """Until so many servers are there: a master, and its replicas in step."""
        count = len(self.servers) if count is None else count
        until(lambda: self.in_step() >= count - 1, 40, f"{count - 1} replicas follow")

    def in_step(self) -> int:
        """How many replicas follow. A master calls one online a moment before it sends what is
        written there: so each must have heard something. One that becomes a master, or a replica,
        ends its connections: then it is asked again."""
        online = self.linked()
        with contextlib.suppress(OSError, resp.Closed), self.master().connect() as connection:
            connection.call("PUBLISH", "in step", "")
            return min(online, connection.call("WAIT", online, 1000))
        return 0

    def linked(self) -> int:
        """How many replicas the master calls online."""
        with contextlib.suppress(OSError, resp.Closed):
            return self.master().call("INFO", "replication").decode().count("state=online")
        return 0

    def running(self) -> list[Server]:
        return [server for server in self.servers if server.process.poll() is None]

    @staticmethod
    def is_master(server: Server) -> bool:
        with contextlib.suppress(OSError, resp.Closed):
            with server.connect(timeout=0.5) as connection:
                return connection.call("ROLE")[0] == b"master"
        return False

    def master(self) -> Server:
        return until(lambda: next((s for s in self.running() if self.is_master(s)), None), 20,
                     "there is a master")

    def replicas(self) -> list[Server]:
        master = self.master()
        return [server for server in self.running() if server is not master]

    def promote(self, server: Server) -> None:
        """The old master becomes its replica first, so that there are never two."""
        old = self.master()
        old.call("REPLICAOF", *self.place(server).split())
        server.call("REPLICAOF", "NO", "ONE")
        for other in self.running():
            if other is not server and other is not old:
                other.call("REPLICAOF", *self.place(server).split())

    @property
    def url(self) -> str:
        return "redis-replicas://" + ",".join(f"{s.host}:{s.port}" for s in self.servers)

    def kill(self) -> None:
        for server in self.servers:
            server.kill()


class Sentinel(Server):
    """One redis-sentinel: redis-server with its own commands, and a file that it rewrites."""

    def __init__(self, folder: pathlib.Path, master: Server, quorum: int, more: str = "",
                 tls: dict | None = None, site=None):
        password = [line.split()[1] for line in more.splitlines() if "requirepass" in line]
        super().__init__(folder, {"requirepass": password[0]} if password else None, tls)
        if site:
            self.settle(site)
        ports = [name for name in self.config if name == "port" or name.startswith("tls-")]
        lines = "".join(f"{name} {self.config[name]}\n" for name in ports)
        self.file = folder / "sentinel.conf"
        self.file.write_text(f"""{lines}{"tls-replication yes" if tls else ""}
bind {self.host}
protected-mode no
dir {folder}
unixsocket {self.path}
logfile {folder / 'redis.log'}
sentinel monitor {MASTER} {master.host} {master.port} {quorum}
sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}
sentinel failover-timeout {MASTER} 2000
sentinel parallel-syncs {MASTER} 2
{more}
""")

    def start(self) -> Sentinel:
        self.process = subprocess.Popen([*self.prefix, self.program, str(self.file), "--sentinel"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.STDOUT)
        until(self.accepts, 20, "the sentinel accepts connections")
        return self

    def take_ports(self) -> None:
        old = f"port {self.port}\n"
        super().take_ports()
        self.file.write_text(self.file.read_text().replace(old, f"port {self.port}\n"))

    def names(self) -> int:
        """The port of the master, as it knows it."""
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])


class Watched(Replicas):
    """The same with sentinels, whose sites have the next numbers."""

    def __init__(self, folder: pathlib.Path, count: int = 3, sentinels: int = 3, more: str = "",
                 tls: dict | None = None, site=None, **config):
        super().__init__(folder, count, tls, site=site, **config)
        self.tls = tls
        self.sentinels = []
        try:
            self.watch(folder, sentinels, more, site)
        except BaseException:
            self.kill()
            raise

    def watch(self, folder: pathlib.Path, sentinels: int, more: str, site) -> None:
        for number in range(sentinels):
            place = folder / f"sentinel{number}"
            place.mkdir()
            self.sentinels.append(Sentinel(place, self.servers[0], sentinels // 2 + 1, more,
                                           self.tls, site and site(len(self.servers) + number)))
            self.sentinels[-1].start()
        until(lambda: all(self.knows_all(sentinel) for sentinel in self.sentinels), 30,
              "the sentinels know each other and the replicas")

    def knows_all(self, sentinel: Sentinel) -> bool:
        others = sentinel.call("SENTINEL", "SENTINELS", MASTER)
        replicas = sentinel.call("SENTINEL", "REPLICAS", MASTER)
        healthy = [r for r in replicas if dict(zip(r[::2], r[1::2]))[b"flags"] == b"slave"]
        return len(others) == len(self.sentinels) - 1 and len(healthy) == len(self.servers) - 1

    def failover(self) -> Server:
        """A planned one. Returns the new master, once all sentinels name it."""
        old = self.master()
        self.sentinels[0].call("SENTINEL", "FAILOVER", MASTER)
        return self.switched(old)

    def switched(self, old: Server) -> Server:
        running = [s for s in self.sentinels if s.process.poll() is None]
        until(lambda: all(s.names() != old.port for s in running), 30, "another is the master")
        port = running[0].names()
        return next(server for server in self.servers if server.port == port)

    @property
    def url(self) -> str:
        return ("redis-sentinel://" + ",".join(f"{s.host}:{s.port}" for s in self.sentinels) +
                f"/{MASTER}")

    def kill(self) -> None:
        for sentinel in self.sentinels:
            sentinel.kill()
        super().kill()


class FakeSentinel:
    """Says whatever it is told to: `place` is (host, port), None or an error; `replicas` are the
    fields of each."""

    def __init__(self, place, name: str, tls: dict | None = None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if tls:
            self.context.load_cert_chain(tls["cert"], tls["key"])
        self.place, self.name, self.asked = place, name, 0
        self.replicas: list[dict[str, object]] = []
        self.down_after_ms: int | None = None
        self.listeners = set()
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handler(self):
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                data = b""
                with contextlib.suppress(OSError):
                    if owner.context:
                        self.request = owner.context.wrap_socket(self.request, server_side=True)
                    while more := self.request.recv(65536):
                        data += more
                        while (found := resp.parse(data)) is not None:
                            words, at = found
                            data = data[at:]
                            self.request.sendall(owner.answer([word.upper() for word in words]))
                            if words[0] == b"SUBSCRIBE":
                                owner.listeners.add(self.request)
                owner.listeners.discard(self.request)
        return Handler

    def patience(self) -> list[bytes]:
        if self.down_after_ms is None:
            return []
        return [b"down-after-milliseconds", str(self.down_after_ms).encode()]

    def publish(self, channel: str, text: str) -> None:
        for listener in list(self.listeners):
            listener.sendall(reply_bytes([b"message", channel.encode(), text.encode()]))

    def answer(self, words: list[bytes]) -> bytes:
        if words[0] == b"SUBSCRIBE":
            return b"".join(reply_bytes([b"subscribe", channel, number + 1])
                            for number, channel in enumerate(words[1:]))
        if words[1] == b"MYID":
            return reply_bytes(self.name.encode())
        if words[1] == b"REPLICAS":
            return reply_bytes([[str(word).encode() for field in replica.items() for word in field]
                                for replica in self.replicas])
        if words[1] == b"SENTINELS":
            return reply_bytes([])
        if words[1] == b"MASTER":
            host, port = (str(part).encode() for part in self.place)
            return reply_bytes([b"ip", host, b"port", port, *self.patience()])
        self.asked += 1
        if self.place is None:
            return b"*-1\r\n"
        return reply_bytes([str(part).encode() for part in self.place])


def refused_port() -> int:
    """A port on which nobody listens."""
    return free_port()
