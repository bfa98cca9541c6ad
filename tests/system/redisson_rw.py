"""A Java client of the read/write lock, as far as the wire goes: Redisson 4.7's own scripts."""
from __future__ import annotations

import time
import uuid

from servers import Server

READ = """
local mode = redis.call('hget', KEYS[1], 'mode');
if (mode == false) then
redis.call('hset', KEYS[1], 'mode', 'read'); redis.call('hset', KEYS[1], ARGV[2], 1);
redis.call('set', KEYS[2] .. ':1', 1); redis.call('pexpire', KEYS[2] .. ':1', ARGV[1]);
redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
if (mode == 'read') or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then
local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1);
local key = KEYS[2] .. ':' .. ind;
redis.call('set', key, 1); redis.call('pexpire', key, ARGV[1]);
local remainTime = redis.call('pttl', KEYS[1]);
redis.call('pexpire', KEYS[1], math.max(remainTime, ARGV[1])); return nil; end;
return redis.call('pttl', KEYS[1]);"""

READ_UNLOCK = """
local val = redis.call('get', KEYS[5]); if val ~= false then return tonumber(val); end;
local mode = redis.call('hget', KEYS[1], 'mode');
if (mode == false) then redis.call(ARGV[3], KEYS[2], ARGV[1]);
redis.call('set', KEYS[5], 1, 'px', ARGV[4]); return nil; end;
local lockExists = redis.call('hexists', KEYS[1], ARGV[2]);
if (lockExists == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1);
if (counter == 0) then redis.call('hdel', KEYS[1], ARGV[2]); end;
redis.call('del', KEYS[3] .. ':' .. (counter + 1));
if (redis.call('hlen', KEYS[1]) > 1) then
local maxRemainTime = -3;
local keys = redis.call('hkeys', KEYS[1]);
for n, key in ipairs(keys) do
counter = tonumber(redis.call('hget', KEYS[1], key));
if type(counter) == 'number' then
for i = counter, 1, -1 do
local remainTime = redis.call('pttl', KEYS[4] .. ':' .. key .. ':rwlock_timeout:' .. i);
maxRemainTime = math.max(remainTime, maxRemainTime);
end; end; end;
if maxRemainTime > 0 then redis.call('pexpire', KEYS[1], maxRemainTime);
redis.call('set', KEYS[5], 0, 'px', ARGV[4]); return 0; end;
if mode == 'write' then redis.call('set', KEYS[5], 0, 'px', ARGV[4]); return 0; end; end;
redis.call('del', KEYS[1]); redis.call(ARGV[3], KEYS[2], ARGV[1]);
redis.call('set', KEYS[5], 1, 'px', ARGV[4]); return 1;"""

WRITE = """
local mode = redis.call('hget', KEYS[1], 'mode');
if (mode == false) then
redis.call('hset', KEYS[1], 'mode', 'write'); redis.call('hset', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
if (mode == 'write') then
if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
redis.call('hincrby', KEYS[1], ARGV[2], 1);
local currentExpire = redis.call('pttl', KEYS[1]);
redis.call('pexpire', KEYS[1], currentExpire + ARGV[1]); return nil; end; end;
return redis.call('pttl', KEYS[1]);"""

WRITE_UNLOCK = """
local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val); end;
local mode = redis.call('hget', KEYS[1], 'mode');
if (mode == false) then redis.call(ARGV[4], KEYS[2], ARGV[1]);
redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return nil; end;
if (mode == 'write') then
local lockExists = redis.call('hexists', KEYS[1], ARGV[3]);
if (lockExists == 0) then return nil; else
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]);
redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; else
redis.call('hdel', KEYS[1], ARGV[3]);
if (redis.call('hlen', KEYS[1]) == 1) then
redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); else
redis.call('hset', KEYS[1], 'mode', 'read'); end;
redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; end; end;
return nil;"""

READ_RENEW = """
local result = 0;
local counter = redis.call('hget', KEYS[1], ARGV[2]);
if (counter ~= false) then
for i = counter, 1, -1 do
redis.call('pexpire', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. i, ARGV[1]); end;
redis.call('pexpire', KEYS[1], ARGV[1]); result = 1; end;
return result;"""


def channel_of_rw(name: str) -> str:
    return f"redisson_rwlock:{name}" if "{" in name else f"redisson_rwlock:{{{name}}}"


def prefix_of(name: str) -> str:
    return name if "{" in name else f"{{{name}}}"


def timeout_of(name: str, field: str, hold: int = 1) -> bytes:
    return f"{prefix_of(name)}:{field}:rwlock_timeout:{hold}".encode()


class JavaReadWriteLock:
    """RReadWriteLock of one thread. Acquires: None when granted, else the time to live in ms."""

    def __init__(self, server: Server, name: str, lease_ms: int = 30000):
        self.name, self.lease_ms = name, lease_ms
        self.field = f"{uuid.uuid4()}:1"
        self.channel, self.prefix = channel_of_rw(name), prefix_of(name)
        self.timeout = f"{self.prefix}:{self.field}:rwlock_timeout"
        self.commands, self.messages = server.connect(60), server.connect(60)

    def read(self, lease_ms: int | None = None):
        return self.commands.call("EVAL", READ, 2, self.name, self.timeout,
                                  lease_ms or self.lease_ms, self.field, self.field + ":write")

    def write(self, lease_ms: int | None = None):
        return self.commands.call("EVAL", WRITE, 1, self.name, lease_ms or self.lease_ms,
                                  self.field + ":write")

    def wait(self, ask, limit: float = 30.0) -> None:
        """lock(): ask, subscribe, ask again, then at each message or when the lease is over."""
        if ask() is None:
            return
        end = time.monotonic() + limit
        self.messages.call("SUBSCRIBE", self.channel)
        while (ttl := ask()) is not None:
            assert time.monotonic() < end, f"no lock within {limit} s"
            self.messages.socket.settimeout(max(0.001, ttl / 1000 if ttl >= 0 else limit))
            try:
                self.messages.read()
            except TimeoutError:
                pass
        self.messages.socket.settimeout(60)
        self.messages.send("UNSUBSCRIBE", self.channel)
        while self.messages.read()[0] != b"unsubscribe":
            pass

    def latch(self) -> str:
        return f"redisson_unlock_latch:{{{self.name}}}:{uuid.uuid4().hex}"

    def unlock_read(self):
        """1 when it freed the lock, 0 when others read on, None when it is not a reader."""
        latch = self.latch()
        result = self.commands.call("EVAL", READ_UNLOCK, 5, self.name, self.channel, self.timeout,
                                    self.prefix, latch, "0", self.field, "PUBLISH", 16000)
        self.commands.call("DEL", latch)
        return result

    def unlock_write(self):
        latch = self.latch()
        result = self.commands.call("EVAL", WRITE_UNLOCK, 3, self.name, self.channel, latch, "1",
                                    self.lease_ms, self.field + ":write", "PUBLISH", 16000)
        self.commands.call("DEL", latch)
        return result

    def renew_read(self):
        return self.commands.call("EVAL", READ_RENEW, 2, self.name, self.prefix, self.lease_ms,
                                  self.field)

    def close(self) -> None:
        self.commands.close()
        self.messages.close()
