"""A proxy between clients and a server that does to single messages what networks do.

It knows RESP: each request and each reply (matched to its request) is shown to `proxy.rule`, a
function that returns what shall become of it. Messages behind a parked one wait, as on a wire.

    proxy.rule = lambda m: CUT if m.reply and m.what == "acquire" else None
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass, field

import resp
from waiting import until


@dataclass
class Cut:
    """Pass the first `at` bytes, then end the connection on both sides: by FIN, or RST."""
    at: int = 0
    rst: bool = False


@dataclass
class Park:
    """Keep it back: for seconds, or until the event is set (at most 60 s)."""
    seconds: float = 0.0
    event: threading.Event | None = None


@dataclass
class Drip:
    """Pass it a byte at a time, with a pause after each."""
    pause: float = 0.01


@dataclass
class Replace:
    """Pass these bytes instead."""
    data: bytes


SWALLOW = Replace(b"")
"""Nothing of it, nor of what follows in this direction of the connection: a stream has no gaps, and
the answer to a later request would be taken for that to this one."""
CUT_BEFORE = Cut(0)
HOLE = Park(event=threading.Event())
"""Nothing of it, nor of what follows: the connection stays open and says nothing."""
# What a proxy makes of the answers of several servers: each has an id of its own for a connection.
HELLO_OF_SEVERAL = (b"*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$2\r\nid\r\n$-1\r\n"
                    b"$4\r\nmode\r\n$10\r\nstandalone\r\n")


@dataclass
class Message:
    connection: Pipe
    reply: bool
    what: str          # see name_of()
    argv: list[bytes]  # of the request, also for its reply
    data: bytes        # as on the wire
    number: int        # of this connection and direction, from 0
    value: object = None

    @property
    def lock(self) -> bytes:
        return self.argv[3] if len(self.argv) > 3 else b""


def name_of(argv: list[bytes]) -> str:
    """The script by the shape of its arguments; else the command in lower case."""
    verb = argv[0].decode("latin-1").lower()
    if verb not in ("evalsha", "eval") or len(argv) < 4:
        return verb
    keys = int(argv[2])
    args = argv[3 + keys:]
    if any(b":kept:" in arg for arg in args):
        return "keep"
    if any(key.startswith(b"lockkeeper_sc:") for key in argv[4:3 + keys]):
        return verb  # a count
    if argv[3].endswith(b":timeout") and len(args) == keys:
        return "renew"  # permits, with their counts
    if keys == 1 and len(args) == 1:
        return "force"
    if keys == 1 and (len(args) == 3 or len(args) == 7 and args[6] in (b"0", b"1", b"2")):
        return "acquire"  # with seven, of one who listens: its turn
    if keys == 1 and len(args) == 5:
        return "exchange"
    if len(args) == 2 * keys:
        return "renew" if args[1].isdigit() else "release"
    return verb


PUSHES = (b"message", b"subscribe", b"unsubscribe")


@dataclass(eq=False, repr=False)
class Pipe:
    """One client's connection and ours to the server."""
    proxy: Proxy
    client_reader: asyncio.StreamReader
    client: asyncio.StreamWriter
    server_reader: asyncio.StreamReader | None = None
    server: asyncio.StreamWriter | None = None
    asked: deque = field(default_factory=deque)  # requests whose replies are to come
    pubsub: bool = False
    swallowed: set = field(default_factory=set)  # directions, by Message.reply
    requests: int = 0
    replies: int = 0

    def request_of(self, value) -> tuple[str, list[bytes]]:
        """What a value from the server belongs to."""
        if self.pubsub and isinstance(value, list) and value and value[0] in PUSHES:
            return value[0].decode(), [v if isinstance(v, bytes) else b"" for v in value]
        return self.asked.popleft() if self.asked else ("unasked", [b""])

    def message(self, data: bytes, value, reply: bool) -> Message:
        if reply:
            what, argv = self.request_of(value)
            number, self.replies = self.replies, self.replies + 1
            return Message(self, True, what, argv, data, number, value)
        what = name_of(value)
        if what in ("subscribe", "unsubscribe", "psubscribe"):
            self.pubsub = True
        else:
            self.asked.append((what, value))
        number, self.requests = self.requests, self.requests + 1
        return Message(self, False, what, value, data, number, value)

    def close(self, rst: bool = False) -> None:
        for writer in (self.client, self.server):
            if not writer:
                continue
            if rst and writer.get_extra_info("socket").family != socket.AF_UNIX:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            else:
                writer.close()


class Proxy:
    """Listens on a unix socket and a port; everything is passed to `target` (a path)."""

    def __init__(self, target: str, path: str):
        self.target, self.path, self.port = target, path, 0
        self.rule = None           # Message -> Cut | Park | Drip | Replace | None
        self.refuse = False        # accept and close at once
        self.accepted = 0
        self.pipes: set[Pipe] = set()
        self.problems: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.listeners: list[asyncio.Server] = []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.on_loop(self.listen())

    def on_loop(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{self.path}"

    async def listen(self) -> None:
        tcp = await asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1024)
        self.port = tcp.sockets[0].getsockname()[1]
        unix = await asyncio.start_unix_server(self.serve, self.path, backlog=1024)
        self.listeners = [tcp, unix]

    def deafen(self) -> None:
        """Stops listening: new connections are refused. hear() undoes it."""
        async def stop():
            for listener in self.listeners:
                listener.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        self.on_loop(stop())

    def hear(self) -> None:
        self.on_loop(self.listen())

    def cut_all(self, rst: bool = False) -> int:
        """Ends every connection; returns how many there were."""
        async def cut():
            pipes = list(self.pipes)
            for pipe in pipes:
                pipe.close(rst)
            return len(pipes)
        return self.on_loop(cut())

    def forget_all(self) -> int:
        """As a firewall forgets connections: from now on nothing passes over those that there are,
        in either direction, and neither side is told. Returns how many there were."""
        async def forget():
            for pipe in self.pipes:
                pipe.swallowed |= {False, True}
            return len(self.pipes)
        return self.on_loop(forget())

    def stop(self) -> None:
        self.deafen()
        self.cut_all()
        until(lambda: not self.pipes, 5, "the proxy's connections end")
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        pipe = Pipe(self, reader, writer)
        self.pipes.add(pipe)
        tasks = []
        try:
            if self.refuse:
                return
            pipe.server_reader, pipe.server = await asyncio.open_unix_connection(self.target)
            tasks = [asyncio.create_task(self.pump(pipe, pipe.client_reader, False)),
                     asyncio.create_task(self.pump(pipe, pipe.server_reader, True))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            pipe.close()
            self.pipes.discard(pipe)

    async def pump(self, pipe: Pipe, reader: asyncio.StreamReader, reply: bool) -> None:
        """Passes one direction, message by message, until an end or a cut."""
        data = b""
        try:
            while more := await reader.read(65536):
                data += more
                at = 0
                while at < len(data) and (found := resp.parse(data, at)) is not None:
                    value, end = found
                    message = pipe.message(data[at:end], value, reply)
                    at = end
                    if not await self.treat(pipe, message):
                        return
                data = data[at:]
        except (OSError, asyncio.CancelledError):
            pass
        except Exception as problem:  # shown by the fixture: a test must not hide it
            self.problems.append(repr(problem))

    async def treat(self, pipe: Pipe, message: Message) -> bool:
        """Applies the rule to one message; False when the connection is over."""
        rule = self.rule
        verdict = rule(message) if rule else None
        if message.reply in pipe.swallowed:
            verdict = SWALLOW
        writer = pipe.client if message.reply else pipe.server
        data = message.data
        if isinstance(verdict, Park):
            await self.park(verdict)
        elif isinstance(verdict, Replace):
            data = verdict.data
            if not data:
                pipe.swallowed.add(message.reply)
            if not data and not message.reply and pipe.asked:
                pipe.asked.pop()  # it will have no reply
        elif isinstance(verdict, Drip):
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(verdict.pause)
            return True
        elif isinstance(verdict, Cut):
            writer.write(data[:verdict.at])
            with contextlib.suppress(OSError):
                await writer.drain()
            pipe.close(verdict.rst)
            return False
        writer.write(data)
        await writer.drain()
        return True

    async def park(self, verdict: Park) -> None:
        if not verdict.event:
            await asyncio.sleep(verdict.seconds)
            return
        end = self.loop.time() + 60
        while not verdict.event.is_set() and self.loop.time() < end:
            await asyncio.sleep(0.002)


class Once:
    """A rule for the n-th message (from 0) that `matches`; `hit` is set when it came."""

    def __init__(self, matches, verdict, number: int = 0):
        self.matches, self.verdict, self.number = matches, verdict, number
        self.seen = 0
        self.hit = threading.Event()

    def __call__(self, message: Message):
        if not self.matches(message):
            return None
        self.seen += 1
        if self.seen != self.number + 1:
            return None
        self.hit.set()
        return self.verdict


def reply_to(what: str):
    return lambda message: message.reply and message.what == what


def request(what: str):
    return lambda message: not message.reply and message.what == what
