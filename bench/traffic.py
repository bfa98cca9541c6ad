"""What clients send and hear: a proxy before the server that counts."""
from __future__ import annotations

import contextlib
import selectors
import socket
import threading

PIECE = 65536


def commands_in(sent: bytes) -> int:
    """How many commands a client has sent: arrays of bulk strings."""
    count, at = 0, 0
    while at < len(sent):
        end = sent.index(b"\r\n", at)
        words, at = int(sent[at + 1:end]), end + 2
        for _ in range(words):
            end = sent.index(b"\r\n", at)
            at = end + 2 + int(sent[at + 1:end]) + 2
        count += 1
    return count


class Proxy:
    """Passes everything on, each connection in a thread of its own, until both sides have ended."""

    def __init__(self, port: int):
        self.server = ("127.0.0.1", port)
        self.door = socket.create_server(("127.0.0.1", 0))
        self.threads: list[threading.Thread] = []
        self.connections = self.commands = self.bytes_out = self.bytes_in = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self.door.accept()
                thread = threading.Thread(target=self.serve, args=(client,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def serve(self, client: socket.socket) -> None:
        sent, heard = bytearray(), bytearray()
        with client, socket.create_connection(self.server) as server, \
                contextlib.suppress(OSError):  # reset: it has ended too
            carry(client, server, sent, heard)
        with self.lock:
            self.connections += 1
            self.bytes_out += len(sent)
            self.bytes_in += len(heard)
            self.commands += commands_in(bytes(sent))

    def end(self) -> None:
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        for thread in self.threads:
            thread.join(10)


def carry(client: socket.socket, server: socket.socket, sent: bytearray, heard: bytearray) -> None:
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, (server, sent))
        ready.register(server, selectors.EVENT_READ, (client, heard))
        while True:
            for key, _ in ready.select():
                to, kept = key.data
                data = key.fileobj.recv(PIECE)
                if not data:
                    return
                kept += data
                to.sendall(data)


def counted(ports: list[int], rounds: int, run) -> dict[str, float]:
    """The traffic of one of `rounds` rounds that `run(proxies)` makes: the port of each's proxy."""
    proxies = {port: Proxy(port) for port in ports}
    try:
        run({port: proxy.door.getsockname()[1] for port, proxy in proxies.items()})
    finally:
        for proxy in proxies.values():
            proxy.end()
    return {name: sum(getattr(proxy, name) for proxy in proxies.values()) / rounds
            for name in ("connections", "commands", "bytes_out", "bytes_in")}
