"""A Java client of the lock, as far as the wire goes: Redisson 4.7's own scripts and waiting."""
from __future__ import annotations

import time
import uuid

import resp
from servers import Server, channel_of
from waiting import boottime_ns

ACQUIRE = """
if ((redis.call('exists', KEYS[1]) == 0)
or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
return redis.call('pttl', KEYS[1]);"""

UNLOCK = """
local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val); end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]);
redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0;
else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]);
redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;"""


class JavaLock:
    """RLock of one thread. `slow`: what a JVM takes from a message to its next try, in seconds."""

    def __init__(self, server: Server, name: str, slow: float = 0.003, lease_ms: int = 30000):
        self.name, self.slow, self.lease_ms = name, slow, lease_ms
        self.field = f"{uuid.uuid4()}:1"
        self.channel = channel_of(name)
        self.commands, self.messages = server.connect(60), server.connect(60)
        self.tries = 0
        self.granted_ns = self.asked_ns = 0

    def ask(self):
        """None when granted, else the holder's time to live in ms."""
        self.tries += 1
        self.asked_ns = boottime_ns()
        ttl = self.commands.call("EVAL", ACQUIRE, 1, self.name, self.lease_ms, self.field)
        self.granted_ns = boottime_ns()
        return ttl

    def lock(self, limit: float = 30.0) -> None:
        """lock(): ask, subscribe, ask again, then at each message or when the lease is over."""
        if self.ask() is None:
            return
        end = time.monotonic() + limit
        self.messages.call("SUBSCRIBE", self.channel)
        try:
            while (ttl := self.ask()) is not None:
                assert time.monotonic() < end, f"no lock within {limit} s, {self.tries} tries"
                self.wait(ttl / 1000 if ttl >= 0 else limit)
        finally:
            self.leave()

    def wait(self, limit: float) -> None:
        self.messages.socket.settimeout(max(0.001, limit))
        try:
            if self.messages.read()[0] == b"message":
                time.sleep(self.slow)
        except TimeoutError:
            pass
        self.messages.socket.settimeout(60)

    def leave(self) -> None:
        self.messages.send("UNSUBSCRIBE", self.channel)
        while self.messages.read()[0] != b"unsubscribe":
            pass

    def unlock(self):
        """1 when it freed the lock, 0 when a hold remains, None when it is not the owner."""
        latch = f"redisson_unlock_latch:{{{self.name}}}:{uuid.uuid4().hex}"
        result = self.commands.call("EVAL", UNLOCK, 3, self.name, self.channel, latch, "0",
                                    self.lease_ms, self.field, "PUBLISH", 16000)
        self.commands.call("DEL", latch)
        return result

    def close(self) -> None:
        self.commands.close()
        self.messages.close()


def ask_raw(connection: resp.Connection, name: str, field: str, lease_ms: int = 30000):
    return connection.call("EVAL", ACQUIRE, 1, name, lease_ms, field)
