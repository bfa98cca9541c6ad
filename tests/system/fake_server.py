"""A small server that answers a handshake, has no keys, and refuses scripts."""
from __future__ import annotations

import contextlib
import socketserver
import threading
import time

import resp

DENIED = resp.ErrorReply("NOPERM this user has no permissions to run this command")


def reply_bytes(value) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, resp.ErrorReply):
        return b"-%s\r\n" % str(value).encode()
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, str):
        return b"+%s\r\n" % value.encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    return b"*%d\r\n" % len(value) + b"".join(reply_bytes(item) for item in value)


class FakeServer:
    def __init__(self, path: str):
        self.path = path
        self.unix_url = f"unix://{path}"
        self.mutex = threading.RLock()
        self.seen: list[list[str]] = []
        self.server = socketserver.ThreadingUnixStreamServer(path, self.handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handler(self):
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                data, self.lock = b"", threading.Lock()
                with contextlib.suppress(OSError, resp.Closed):
                    while more := self.request.recv(65536):
                        data += more
                        while (found := resp.parse(data)) is not None:
                            words, at = found
                            data = data[at:]
                            self.answer(owner.run(self, words))

            def answer(self, value):
                with self.lock:
                    self.request.sendall(reply_bytes(value))
        return Handler

    # ---- commands ----

    def run(self, client, words: list[bytes]):
        verb = words[0].decode().upper()
        with self.mutex:
            self.seen.append([word.decode("latin-1") for word in words])
            run = getattr(self, "do_" + verb.lower(), None)
            if verb in ("EVAL", "EVALSHA", "SCRIPT"):
                return DENIED
            if run is None:
                return resp.ErrorReply(f"ERR unknown command '{verb}', with args beginning with: ")
            return run(client, *words[1:])

    def do_ping(self, _client, *_words):
        return "PONG"

    def do_client(self, _client, *_words):
        return "OK"

    def do_auth(self, _client, *_words):
        return "OK"

    def do_time(self, _client):
        micros = int(time.time() * 1e6)
        return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]

    def do_exists(self, _client, _key):
        return 0

    def do_type(self, _client, _key):
        return "none"

    def do_get(self, _client, _key):
        return None

    def do_pttl(self, _client, _key):
        return -2

    def do_dbsize(self, _client):
        return 0

    def do_subscribe(self, _client, channel):
        return [b"subscribe", channel, 1]

    def do_unsubscribe(self, _client, channel):
        return [b"unsubscribe", channel, 0]
