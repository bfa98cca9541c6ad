"""RESP2: encoding, an incremental parser, and a plain blocking connection."""
from __future__ import annotations

import socket


class ErrorReply(Exception):
    """An error that the server answered."""


class Closed(Exception):
    """The peer closed the connection."""


def encode(*args: str | bytes | int) -> bytes:
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def parse(data: bytes, at: int = 0):
    """The value that begins at `at` and the place behind it, or None when it is not whole yet."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, line, rest = data[at:at + 1], data[at + 1:end], end + 2
    if kind == b"+":
        return line.decode("latin-1"), rest
    if kind == b"-":
        return ErrorReply(line.decode("latin-1")), rest
    if kind == b":":
        return int(line), rest
    if kind == b"$":
        size = int(line)
        if size < 0:
            return None, rest
        if len(data) < rest + size + 2:
            return None
        return data[rest:rest + size], rest + size + 2
    if kind == b"*":
        values = []
        for _ in range(max(0, int(line))):
            item = parse(data, rest)
            if item is None:
                return None
            value, rest = item
            values.append(value)
        return (None if int(line) < 0 else values), rest
    raise ValueError(f"not RESP2: {data[at:at + 40]!r}")


class Connection:
    """One blocking connection; `address` is the path of a unix socket or (host, port)."""

    def __init__(self, address, timeout: float = 10.0, context=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.data = b""

    def send(self, *args) -> None:
        self.socket.sendall(encode(*args))

    def read(self):
        """The next value; error replies are returned, not raised."""
        while True:
            found = parse(self.data)
            if found is not None:
                self.data = self.data[found[1]:]
                return found[0]
            more = self.socket.recv(65536)
            if not more:
                raise Closed()
            self.data += more

    def call(self, *args):
        self.send(*args)
        value = self.read()
        if isinstance(value, ErrorReply):
            raise value
        return value

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_) -> None:
        self.close()
