"""A small server with commands that the installed Redis has not: strings, expiry, no scripts."""
from __future__ import annotations

import contextlib
import socketserver
import threading
import time

import resp

WRONGTYPE = resp.ErrorReply("WRONGTYPE Operation against a key holding the wrong kind of value")
# Redis 8.4 says it of DELEX without the usual word.
NO_STRING = resp.ErrorReply("ERR Key should be of string type if conditions are specified")
SYNTAX = resp.ErrorReply("ERR syntax error")
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
    """`has`: which of DELEX, DELIFEQ and IFEQ (of SET) it knows. Lists are its other type."""

    def __init__(self, path: str, has: tuple[str, ...]):
        self.path, self.has = path, has
        self.unix_url = f"unix://{path}"
        self.mutex = threading.RLock()
        self.values: dict[bytes, bytes | list] = {}
        self.ends: dict[bytes, int] = {}
        self.listeners: dict[bytes, set] = {}
        self.seen: list[list[str]] = []
        self.denied: set[str] = set()
        self.ahead_ms = 0  # of its clock
        self.hook = lambda words: None  # called before a command runs
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
                with owner.mutex:
                    for members in owner.listeners.values():
                        members.discard(self)

            def answer(self, value):
                with self.lock:
                    self.request.sendall(reply_bytes(value))
        return Handler

    # ---- commands ----

    def run(self, client, words: list[bytes]):
        self.hook(words)
        verb = words[0].decode().upper()
        with self.mutex:
            self.seen.append([word.decode("latin-1") for word in words])
            run = getattr(self, "do_" + verb.lower(), None)
            if verb in ("DELEX", "DELIFEQ") and verb not in self.has:
                run = None
            if verb in ("EVAL", "EVALSHA", "SCRIPT") or verb in self.denied:
                return DENIED
            if run is None:
                return resp.ErrorReply(f"ERR unknown command '{verb}', with args beginning with: ")
            self.expire()
            return run(client, *words[1:])

    def now_ms(self) -> int:
        return int(time.time() * 1000) + self.ahead_ms

    def expire(self) -> None:
        for key in [key for key, end in self.ends.items() if end <= self.now_ms()]:
            del self.values[key], self.ends[key]

    def text(self, key: bytes) -> bytes | None:
        value = self.values.get(key)
        if isinstance(value, list):
            raise WRONGTYPE
        return value

    def do_ping(self, _client, *_words):
        return "PONG"

    def do_client(self, _client, *_words):
        return "OK"

    def do_auth(self, _client, *_words):
        return "OK"

    def do_time(self, _client):
        micros = int(time.time() * 1e6) + self.ahead_ms * 1000
        return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]

    def do_set(self, _client, key, value, *words):
        options, at = {}, 0
        while at < len(words):
            name = words[at].decode().upper()
            takes = name in ("PX", "PXAT", "IFEQ")
            if name not in ("NX", "XX", "GET", "KEEPTTL", "PX", "PXAT", *self.has) or \
                    at + takes >= len(words):
                return SYNTAX
            options[name] = words[at + 1] if takes else True
            at += 1 + takes
        try:
            before = self.text(key) if "GET" in options or "IFEQ" in options \
                else self.values.get(key)
        except resp.ErrorReply as error:
            return error
        told = before if "GET" in options else None
        if ("NX" in options and before is not None) or ("XX" in options and before is None) or \
                ("IFEQ" in options and before != options["IFEQ"]):
            return told
        self.values[key] = value
        if "KEEPTTL" not in options:
            self.ends.pop(key, None)
        if "PX" in options:
            self.ends[key] = self.now_ms() + int(options["PX"])
        if "PXAT" in options:
            self.ends[key] = int(options["PXAT"])
        self.expire()
        return told if "GET" in options else "OK"

    def do_get(self, _client, key):
        try:
            return self.text(key)
        except resp.ErrorReply as error:
            return error

    def do_delifeq(self, _client, key, value):
        try:
            if self.text(key) != value:
                return 0
        except resp.ErrorReply as error:
            return error
        return self.do_del(None, key)

    def do_delex(self, client, key, condition, value):
        assert condition == b"IFEQ"
        answer = self.do_delifeq(client, key, value)
        return NO_STRING if answer is WRONGTYPE else answer

    def do_del(self, _client, key):
        self.ends.pop(key, None)
        return 0 if self.values.pop(key, None) is None else 1

    def do_rpush(self, _client, key, *items):
        self.values[key] = list(items)
        return len(items)

    def do_exists(self, _client, key):
        return int(key in self.values)

    def do_type(self, _client, key):
        value = self.values.get(key)
        return "none" if value is None else "list" if isinstance(value, list) else "string"

    def do_dbsize(self, _client):
        return len(self.values)

    def do_pttl(self, _client, key):
        if key not in self.values:
            return -2
        return self.ends[key] - self.now_ms() if key in self.ends else -1

    def do_pexpire(self, _client, key, ms, *options):
        end = self.now_ms() + int(ms)
        if key not in self.values or (options == (b"GT",) and
                                      end <= self.ends.get(key, 1 << 62)):
            return 0
        self.ends[key] = end
        return 1

    def do_publish(self, _client, channel, payload):
        members = self.listeners.get(channel, set())
        for member in members:
            with contextlib.suppress(OSError):
                member.answer([b"message", channel, payload])
        return len(members)

    def do_subscribe(self, client, channel):
        self.listeners.setdefault(channel, set()).add(client)
        return [b"subscribe", channel, 1]

    def do_unsubscribe(self, client, channel):
        self.listeners.get(channel, set()).discard(client)
        return [b"unsubscribe", channel, 0]

    # ---- what a test asks ----

    def call(self, *words):
        """A command of the test's own; error replies are returned."""
        made = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        with self.mutex:
            self.expire()
            return getattr(self, "do_" + made[0].decode().lower())(None, *made[1:])

    def channels(self) -> list[bytes]:
        with self.mutex:
            return [channel for channel, members in self.listeners.items() if members]

    def verbs(self, key: str) -> list[str]:
        """What was sent about a key, the words behind it left out."""
        with self.mutex:
            return [words[0].upper() for words in self.seen if key in words[1:2]]
