"""Real servers: started on a unix socket and a free port, stopped, killed, paused, restarted."""
from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import resp
from waiting import until


# Below those that the system gives to connections: a server that starts again needs the same one.
PORTS = range(10000, 32000)
PORTS_OF_A_PROCESS = 200


@functools.cache
def own_ports() -> tuple[socket.socket, Iterator[int]]:
    """Ports that no other process of tests takes, over and over: it holds a socket that stands for
    them, whose name goes with the process."""
    firsts = list(PORTS)[::PORTS_OF_A_PROCESS]
    for first in random.sample(firsts, len(firsts)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0lockkeeper-ports-{first}")
        except OSError:
            claim.close()
        else:
            return claim, itertools.cycle(range(first, first + PORTS_OF_A_PROCESS))
    raise RuntimeError("every port belongs to another process of tests")


def free_port() -> int:
    """A port that was free a moment ago."""
    for port in itertools.islice(own_ports()[1], PORTS_OF_A_PROCESS):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # but who listens has it
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port of this process is free")


class Server:
    """One redis-server. `config`: its options, as {name: value}."""

    program = "redis-server"

    def __init__(self, folder: pathlib.Path, config: dict | None = None, tls: dict | None = None):
        self.folder = folder
        self.path = str(folder / "redis.sock")
        self.port = free_port()
        self.tls = tls
        self.host, self.prefix = "127.0.0.1", ()
        self.config = {
            "dir": folder, "unixsocket": self.path, "save": "", "daemonize": "no",
            "bind": "127.0.0.1", "enable-debug-command": "yes", "loglevel": "notice",
            "logfile": folder / "redis.log", "shutdown-timeout": 0, **(config or {}),
        }
        if tls:
            self.config |= {
                "port": 0, "tls-port": self.port, "tls-cert-file": tls["cert"],
                "tls-key-file": tls["key"], "tls-ca-cert-file": tls["ca"],
                "tls-auth-clients": tls.get("auth", "no"),
            }
        else:
            self.config["port"] = self.port
        self.process: subprocess.Popen | None = None
        self.monitors: list[Monitor] = []
        self.environment: dict[str, str] = {}

    def settle(self, site) -> None:
        """It will run in a network of its own (networks.py), with its unix socket in all."""
        self.host, self.prefix = site.host, site.prefix
        self.config |= {"bind": site.host, "protected-mode": "no"}

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.path}"

    @property
    def password(self) -> str:
        return str(self.config.get("requirepass", ""))

    def start_anywhere(self) -> Server:
        """The first start: the server takes another port if its own is not free any more."""
        for _ in range(5):
            with contextlib.suppress(AssertionError):
                return self.start()
            if "Address already in use" not in (self.folder / "redis.log").read_text():
                break
            self.take_ports()
        return self.start()

    def take_ports(self) -> None:
        self.port = free_port()
        self.config["tls-port" if self.tls else "port"] = self.port

    def start(self) -> Server:
        # Redis 6.2 takes a place and its port as two words only.
        arguments = [word for name, value in self.config.items() for word in
                     (f"--{name}", *(value.split() if name == "replicaof" else [str(value)]))]
        self.process = subprocess.Popen([*self.prefix, self.program, *arguments],
                                        stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                        env=os.environ | self.environment)
        until(self.accepts, 20, "the server accepts connections")
        return self

    def accepts(self) -> bool:
        assert self.process and self.process.poll() is None, \
            (self.folder / "redis.log").read_text()[-2000:]
        try:
            with resp.Connection(self.path) as connection:
                connection.send("PING")
                return not str(connection.read()).startswith("LOADING")
        except (OSError, resp.Closed):
            return False

    def connect(self, timeout: float = 10.0) -> resp.Connection:
        connection = resp.Connection(self.path, timeout)
        if self.password:
            connection.call("AUTH", self.password)
        return connection

    def call(self, *args):
        """One command over a connection of its own."""
        with self.connect() as connection:
            return connection.call(*args)

    def set(self, name: str, value) -> None:
        self.call("CONFIG", "SET", name, value)

    def info(self, name: str) -> str:
        for line in self.call("INFO", "everything").decode().splitlines():
            if line.startswith(name + ":"):
                return line.split(":", 1)[1]
        raise KeyError(name)

    def has_ifeq(self) -> bool:
        """Whether it has SET with IFEQ."""
        try:
            return self.call("SET", "has", "x", "IFEQ", "y") is None
        except resp.ErrorReply:
            return False

    def clients(self, kind: str = "") -> list[str]:
        """CLIENT LIST without the connection that asks; kind: normal, pubsub."""
        words = ["CLIENT", "LIST"] + (["TYPE", kind] if kind else [])
        lines = self.call(*words).decode().splitlines()
        return [line for line in lines if "cmd=client|list" not in line]

    def channels(self) -> list[bytes]:
        """Those of locks: that of tracked keys is listened to as long as its connection is up."""
        channels = self.call("PUBSUB", "CHANNELS")
        return [channel for channel in channels if channel != b"__redis__:invalidate"]

    def holders(self, name: str | bytes) -> dict[bytes, bytes]:
        flat = self.call("HGETALL", name)
        return dict(zip(flat[::2], flat[1::2]))

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        until(lambda: stopped(self.process.pid), 5, "the server is stopped")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        for monitor in self.monitors:
            monitor.stop()
        self.monitors.clear()
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ends it in an orderly way, so that an append-only file is whole."""
        if self.process and self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def restart(self) -> None:
        self.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.start()

    def restart_elsewhere(self) -> None:
        """At another address: all that knew the old one are mistaken now."""
        self.stop()
        self.take_ports()
        self.restart()

    def monitor(self) -> Monitor:
        monitor = Monitor(self.connect(timeout=60))
        self.monitors.append(monitor)
        return monitor


def stopped(pid: int) -> bool:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return stat.rsplit(")", 1)[1].split()[0] == "T"


class Monitor:
    """MONITOR in a thread: the lines that the server shows, scripts' own commands included."""

    def __init__(self, connection: resp.Connection):
        self.connection = connection
        self.lines: list[str] = []
        connection.call("MONITOR")
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        with contextlib.suppress(OSError, resp.Closed, ValueError):
            while True:
                self.lines.append(str(self.connection.read()))

    def commands(self, of_scripts: bool = False) -> list[list[str]]:
        """Commands as lists of words, either clients' or those that scripts made."""
        found = []
        for line in list(self.lines):
            _, source, rest = line.split(" ", 2)[0], line.split("[", 1)[1].split("]")[0], \
                line.split("] ", 1)[1]
            if source.endswith(" lua") == of_scripts:
                found.append(split_quoted(rest))
        return found

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.connection.close()


def split_quoted(text: str) -> list[str]:
    """The words of one line of MONITOR: "a" "b\\"c"."""
    words, word, inside, escaped = [], [], False, False
    for char in text:
        if escaped:
            word.append("\\" + char if char not in '"\\' else char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            if inside:
                words.append("".join(word))
                word = []
            inside = not inside
        elif inside:
            word.append(char)
    return words


class Subscriber:
    """A bare subscriber; collects the messages of one channel."""

    def __init__(self, server: Server, channel: str | bytes):
        self.connection = server.connect(timeout=60)
        self.messages: list[bytes] = []
        self.connection.call("SUBSCRIBE", channel)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        with contextlib.suppress(OSError, resp.Closed, ValueError):
            while True:
                kind, _, payload = self.connection.read()
                if kind == b"message":
                    self.messages.append(payload)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.connection.close()


def channel_of(name: str) -> str:
    """Redisson's channel of a lock."""
    prefix = "redisson_lock__channel:"
    return prefix + (name if "{" in name else "{" + name + "}")
