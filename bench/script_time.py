#!/usr/bin/env python3
"""How long the server is in the scripts of a free pair, beside Redisson's two and a string lock's.

usage: script_time.py [--pairs N] [--rounds N] [--page]

A private server on a unix socket; pairs in a pipeline of 100; the server's own sum (INFO
commandstats) for the pair, the best of the rounds, which go through all kinds in turn. `calls` is
how many commands the scripts of a pair call, `bytes` how long they are. A second table says what
each rule costs: the same pair with the rule's lines left out. `--page` writes both tables into
docs/performance.md.
"""
from __future__ import annotations

import argparse
import functools
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
PAGE = ROOT / "docs" / "performance.md"
MARKS = "<!-- made by bench/script_time.py -->\n", "<!-- to here -->\n"
OWNER = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
CHANNEL = "redisson_lock__channel:{some}"
THEIRS, STRING = "Redisson's two", "a string lock's two"
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
    given = [1, "some", OWNER, CHANNEL]
    sides = [3, "some", "ends", "writers"]
    fair, queue = ours("fair/queue.lua"), [4, "some", "queue", "scores", "ours"]
    permit = "fourteen bytes"
    return {
        THEIRS: [(THEIR_ACQUIRE, [1, "some", LEASE_MS, OWNER]),
                 (THEIR_RELEASE, [2, "some", CHANNEL, 0, LEASE_MS, OWNER])],
        STRING: [(STRING_ACQUIRE, [1, "some", OWNER, LEASE_MS]),
                 (STRING_RELEASE, [1, "some", OWNER])],
        "lock": [(ours("lock/acquire.lua"), [1, *taken]), (ours("lock/release.lua"), given)],
        "plain": [(ours("plain/acquire.lua"), [1, *taken]), (ours("plain/release.lua"), given)],
        "fenced": [(ours("fenced/acquire.lua"), [2, "some", "token", *taken[1:], "", CHANNEL]),
                   (ours("lock/release.lua"), given)],
        "write": [(ours("rw/write_acquire.lua"), [2, "some", "writers", f"{OWNER}:write",
                                                  LEASE_MS, deadline_us, 0]),
                  (ours("rw/release.lua"), [*sides, f"{OWNER}:write", CHANNEL, 1])],
        "read": [(ours("rw/read_acquire.lua"), [*sides, *taken[1:], "", 0]),
                 (ours("rw/release.lua"), [*sides, OWNER, CHANNEL, 0])],
        "fair": [(fair, [*queue, "acquire", OWNER, CHANNEL, LEASE_MS, LEASE_MS, deadline_us, "ab"]),
                 (fair, [*queue, "release", OWNER, CHANNEL])],
        "permit": [(ours("permits/acquire.lua"), [2, "some", "in use", 1, LEASE_MS, deadline_us,
                                                  permit, CHANNEL, 10, 0]),
                   (ours("permits/release.lua"), [2, "some", "in use", CHANNEL, permit + "\0\0"])],
    }


# The rules that theirs do not have. Of each: its name; which script has it; from where to where it
# stands, and what stands there without it.
ARGUMENTS = ("arguments are checked before anything is written", 0,
             "lease = string.find", "local one", "deadline = deadline + 0\n")
LUA = ("the server's Lua writes whole numbers as such", 0, "local one", "local time", "")
DEADLINE = ("a request does nothing after its deadline", 0, "local time", "local lock", "")
TURN = ("the one that has waited longest is told, not all", 1,
        "local TAKEN", "local hearers", "if true then\n")
RULES = {
    "lock": [ARGUMENTS, LUA, DEADLINE, TURN,
             ("a lock that is refused its time to live goes", 0, "if answer ~= 1", "if not ARGV[4]",
              ""),
             ("no field of a read/write lock is deleted", 1, "if string.byte", "local held", "")],
    "plain": [ARGUMENTS, LUA, DEADLINE, ("waiters are told of a release, the first one first", 1,
                                         "local TAKEN", None, "return 0\n"),
              ("a stranger's long string is not read whole", 1, "redis.pcall('GETRANGE'",
               " == ARGV[1]", "redis.call('GET', KEYS[1])")],
}


def without(pair: list[tuple[str, list]], rule: tuple) -> list[tuple[str, list]]:
    _, place, first, behind, instead = rule
    text, words = pair[place]
    start = text.index(first)
    end = text.index(behind, start) if behind else len(text)
    left = list(pair)
    left[place] = (text[:start] + instead + text[end:], words)
    return left


def spent_us(server: Server) -> int:
    return sum(int(line.split("usec=")[1].split(",")[0])
               for line in server.call("INFO", "commandstats").decode().splitlines()
               if line.startswith("cmdstat_evalsha:"))


def loaded(server: Server, pair: list[tuple[str, list]]) -> list[list]:
    """The commands of a pair, whose scripts the server has."""
    for text, _ in pair:
        server.call("SCRIPT", "LOAD", text)
    return [["EVALSHA", hashlib.sha1(text.encode()).hexdigest(), *words] for text, words in pair]


def measured(server: Server, commands: list[list], pairs: int) -> float:
    """Microseconds a pair."""
    together = b"".join(resp.encode(*command) for command in commands) * PIPELINE
    with server.connect() as connection:
        server.call("CONFIG", "RESETSTAT")
        for _ in range(pairs // PIPELINE):
            connection.socket.sendall(together)
            for _ in range(PIPELINE * len(commands)):
                if isinstance(reply := connection.read(), Exception):
                    raise reply
        spent = spent_us(server) / pairs
    server.call("FLUSHALL")
    return spent


def best(server: Server, pairs_by_name: dict, pairs: int, rounds: int) -> dict:
    commands = {name: loaded(server, pair) for name, pair in pairs_by_name.items()}
    took = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, both in commands.items():
            took[name] = min(took[name], measured(server, both, pairs))
    return took


def calls(server: Server, commands: list[list]) -> int:
    monitor = server.monitor()
    for command in commands:
        server.call(*command)
    server.call("ECHO", "end")
    until(lambda: ["ECHO", "end"] in monitor.commands(), 10)
    seen = monitor.commands(of_scripts=True)
    monitor.stop()
    server.call("FLUSHALL")
    return len(seen)


def tables(server: Server, pairs: int, rounds: int) -> str:
    kinds = pairs_of(time.time_ns() // 1000 + HOUR_US)
    variants = {}
    for kind, rules in RULES.items():
        for rule in rules:
            variants[kind, rule[0]] = without(kinds[kind], rule)
        variants[kind, "all of these"] = functools.reduce(without, rules, kinds[kind])
    took = best(server, kinds | variants, pairs, rounds)
    lines = [f"| a free pair | µs | of {THEIRS} | of {STRING} | calls | bytes |",
             "|---|--:|--:|--:|--:|--:|"]
    for kind, pair in kinds.items():
        size = sum(len(text) for text, _ in pair)
        lines.append(f"| {kind} | {took[kind]:.2f} | {took[kind] / took[THEIRS]:.2f} × | "
                     f"{took[kind] / took[STRING]:.2f} × | {calls(server, loaded(server, pair))} | "
                     f"{size:,} |")
    lines += ["", "| of | what this rule costs | µs |", "|---|---|--:|"]
    lines += [f"| {kind} | {rule} | {took[kind] - took[kind, rule]:.2f} |"
              for kind, rule in variants]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lk-script-") as folder:
        server = Server(pathlib.Path(folder), {"save": "", "appendonly": "no"})
        server.start_anywhere()
        try:
            made = tables(server, options.pairs, options.rounds)
        finally:
            server.stop()
    print(made, end="")
    if options.page:
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(before + MARKS[0] + made + MARKS[1] + rest.split(MARKS[1])[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
