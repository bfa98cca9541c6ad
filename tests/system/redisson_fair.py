"""A Java client of the fair lock, by the effects of Redisson 4.7's scripts on the wire."""
from __future__ import annotations

import contextlib
import time
import uuid

from servers import Server, channel_of
from waiting import boottime_ns

PURGE = """
while true do
  local first = redis.call('lindex', KEYS[2], 0)
  if first == false then break end
  local score = redis.call('zscore', KEYS[3], first)
  if score ~= false and tonumber(score) <= now then
    redis.call('zrem', KEYS[3], first); redis.call('lpop', KEYS[2])
  else break end
end
"""

# KEYS: name, queue, scores. ARGV: lease, owner, wait, now. nil: granted.
ACQUIRE = "local now = tonumber(ARGV[4])\n" + PURGE + """
if redis.call('exists', KEYS[1]) == 0 and (redis.call('exists', KEYS[2]) == 0
    or redis.call('lindex', KEYS[2], 0) == ARGV[2]) then
  redis.call('lpop', KEYS[2]); redis.call('zrem', KEYS[3], ARGV[2])
  for _, member in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), member)
  end
  redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('zscore', KEYS[3], ARGV[2]) ~= false then
  return math.max(0, redis.call('pttl', KEYS[1]))
end
local last, ttl = redis.call('lindex', KEYS[2], -1), nil
if last ~= false and last ~= ARGV[2] and redis.call('zscore', KEYS[3], last) ~= false then
  ttl = tonumber(redis.call('zscore', KEYS[3], last)) - now
else
  ttl = redis.call('pttl', KEYS[1])
end
if redis.call('zadd', KEYS[3], ttl + tonumber(ARGV[3]) + now, ARGV[2]) == 1 then
  redis.call('rpush', KEYS[2], ARGV[2])
end
return ttl
"""

# KEYS: name, queue, scores. ARGV: owner, now, lease, channel prefix. 1: freed; 0: still held.
UNLOCK = "local now = tonumber(ARGV[2])\n" + PURGE + """
local function tell()
  local following = redis.call('lindex', KEYS[2], 0)
  if following ~= false then redis.call('publish', ARGV[4] .. ':' .. following, '0') end
  return 1
end
if redis.call('exists', KEYS[1]) == 0 then return tell() end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[3])
  return 0
end
redis.call('del', KEYS[1])
return tell()
"""

# KEYS: queue, scores. ARGV: owner, wait. A wait that elapsed.
GIVE_UP = """
local behind = false
for _, member in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
  if behind then redis.call('zincrby', KEYS[2], -tonumber(ARGV[2]), member) end
  behind = behind or member == ARGV[1]
end
redis.call('zrem', KEYS[2], ARGV[1]); redis.call('lrem', KEYS[1], 0, ARGV[1])
"""


def keys_of(name: str) -> tuple[str, str, str, str]:
    """The lock, its queue, its scores, and the hash of our own waiters."""
    tag = name if "{" in name else "{" + name + "}"
    return (name, f"redisson_lock_queue:{tag}", f"redisson_lock_timeout:{tag}",
            f"lockkeeper_fair:{tag}")


class JavaFairLock:
    """RFairLock of one thread. `slow`: what a JVM takes from a message to its next try, in s."""

    def __init__(self, server: Server, name: str, slow: float = 0.003, lease_ms: int = 30000,
                 wait_ms: int = 300000, clock_ms: int = 0):
        self.keys = keys_of(name)[:3]
        self.slow, self.lease_ms, self.wait_ms, self.clock_ms = slow, lease_ms, wait_ms, clock_ms
        self.field = f"{uuid.uuid4()}:1"
        self.prefix = channel_of(name)
        self.commands, self.messages = server.connect(60), server.connect(60)
        self.tries, self.granted_ns = 0, 0

    def now(self) -> int:
        return int(time.time() * 1000) + self.clock_ms

    def ask(self):
        """None when granted, else what Java waits for a message, in ms."""
        self.tries += 1
        ttl = self.commands.call("EVAL", ACQUIRE, 3, *self.keys, self.lease_ms, self.field,
                                 self.wait_ms, self.now())
        self.granted_ns = boottime_ns()
        return ttl

    def lock(self, limit: float = 30.0) -> None:
        if self.ask() is None:
            return
        end = time.monotonic() + limit
        self.messages.call("SUBSCRIBE", f"{self.prefix}:{self.field}")
        try:
            while (ttl := self.ask()) is not None:
                assert time.monotonic() < end, f"no lock within {limit} s, {self.tries} tries"
                self.wait(min(ttl / 1000, limit) if ttl >= 0 else limit)
        finally:
            self.messages.send("UNSUBSCRIBE", f"{self.prefix}:{self.field}")
            while self.messages.read()[0] != b"unsubscribe":
                pass

    def wait(self, limit: float) -> None:
        self.messages.socket.settimeout(max(0.001, limit))
        with contextlib.suppress(TimeoutError):
            if self.messages.read()[0] == b"message":
                time.sleep(self.slow)
        self.messages.socket.settimeout(60)

    def unlock(self):
        """1 when it freed the lock, 0 when a hold remains, None when it is not the owner."""
        return self.commands.call("EVAL", UNLOCK, 3, *self.keys, self.field, self.now(),
                                  self.lease_ms, self.prefix)

    def give_up(self) -> None:
        self.commands.call("EVAL", GIVE_UP, 2, *self.keys[1:], self.field, self.wait_ms)

    def close(self) -> None:
        self.commands.close()
        self.messages.close()
