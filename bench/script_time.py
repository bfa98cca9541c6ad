#!/usr/bin/env python3
"""How long the server is in the scripts of a free pair, beside Redisson's two and a string lock's.

usage: script_time.py [--pairs N] [--rounds N]

A private server on a unix socket; pairs in a pipeline of 100; the server's own sum (INFO
commandstats) for the pair, the best of the rounds. `calls` is how many commands the scripts of a
pair call, `bytes` how long they are.
"""
from __future__ import annotations

import argparse
import hashlib
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "scripts")]

import embed_lua  # noqa: E402  (behind the path)
import lua_scripts  # noqa: E402
import resp  # noqa: E402
from servers import Server  # noqa: E402
from waiting import until  # noqa: E402

SYNC = ROOT / "src" / "sync"
OWNER = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
CHANNEL = "redisson_lock__channel:{some}"
LEASE_MS = 30_000
PIPELINE = 100
HOUR_US = 3_600_000_000

# What these do is known; the words are ours.
THEIR_ACQUIRE = """if redis.call('exists', KEYS[1]) == 0 or
redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return nil
end
return redis.call('pttl', KEYS[1])
"""
THEIR_RELEASE = """if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
local count = redis.call('hincrby', KEYS[1], ARGV[3], -1)
if count > 0 then
redis.call('pexpire', KEYS[1], ARGV[2])
return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1
"""
STRING_ACQUIRE = """if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0
"""
STRING_RELEASE = """if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""


def ours(name: str) -> str:
    return embed_lua.sent(SYNC / name, lua_scripts.pieces_of(sorted(SYNC.glob("*.lua"))))


def pairs_of(deadline_us: int) -> dict[str, list[tuple[str, list]]]:
    """The two scripts of each kind, with what they are sent with."""
    taken = ["some", OWNER, LEASE_MS, deadline_us]
    return {
        "Redisson's two": [(THEIR_ACQUIRE, [1, "some", LEASE_MS, OWNER]),
                           (THEIR_RELEASE, [2, "some", CHANNEL, 0, LEASE_MS, OWNER])],
        "a string lock's two": [(STRING_ACQUIRE, [1, "some", OWNER, LEASE_MS]),
                                (STRING_RELEASE, [1, "some", OWNER])],
        "lock": [(ours("lock/acquire.lua"), [1, *taken]),
                 (ours("lock/release.lua"), [1, "some", OWNER, CHANNEL])],
        "fenced": [(ours("fenced/acquire.lua"), [2, "some", "token", *taken[1:], "", CHANNEL]),
                   (ours("lock/release.lua"), [1, "some", OWNER, CHANNEL])],
        "plain": [(ours("plain/acquire.lua"), [1, *taken]),
                  (ours("plain/release.lua"), [1, "some", OWNER, CHANNEL])],
        "write": [(ours("rw/write_acquire.lua"), [2, "some", "writers", f"{OWNER}:write",
                                                  LEASE_MS, deadline_us, 0]),
                  (ours("rw/release.lua"), [3, "some", "ends", "writers", f"{OWNER}:write",
                                            CHANNEL, 1])],
    }


def spent_us(server: Server) -> int:
    return sum(int(line.split("usec=")[1].split(",")[0])
               for line in server.call("INFO", "commandstats").decode().splitlines()
               if line.startswith("cmdstat_evalsha:"))


def measured(server: Server, commands: list[list], pairs: int, rounds: int) -> float:
    """Microseconds a pair."""
    together = b"".join(resp.encode(*command) for command in commands) * PIPELINE
    best = float("inf")
    with server.connect() as connection:
        for _ in range(rounds):
            server.call("CONFIG", "RESETSTAT")
            for _ in range(pairs // PIPELINE):
                connection.socket.sendall(together)
                for _ in range(PIPELINE * len(commands)):
                    if isinstance(reply := connection.read(), Exception):
                        raise reply
            best = min(best, spent_us(server) / pairs)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    deadline_us = time.time_ns() // 1000 + HOUR_US
    with tempfile.TemporaryDirectory(prefix="lk-script-") as folder:
        server = Server(pathlib.Path(folder), {"save": "", "appendonly": "no"})
        server.start_anywhere()
        try:
            print(f"{'a free pair':22} {'us':>6} {'calls':>6} {'bytes':>6}")
            for kind, scripts in pairs_of(deadline_us).items():
                for text, _ in scripts:
                    server.call("SCRIPT", "LOAD", text)
                commands = [["EVALSHA", hashlib.sha1(text.encode()).hexdigest(), *words]
                            for text, words in scripts]
                took = measured(server, commands, options.pairs, options.rounds)
                print(f"{kind:22} {took:6.2f} {calls(server, commands):6} "
                      f"{sum(len(text) for text, _ in scripts):6}")
                server.call("FLUSHALL")
        finally:
            server.stop()
    return 0


def calls(server: Server, commands: list[list]) -> int:
    monitor = server.monitor()
    for command in commands:
        server.call(*command)
    server.call("ECHO", "end")
    until(lambda: ["ECHO", "end"] in monitor.commands(), 10)
    seen = monitor.commands(of_scripts=True)
    monitor.stop()
    return len(seen)


if __name__ == "__main__":
    sys.exit(main())
