"""A user whom the server refuses a command in the middle of a script: no key stays for ever.

Each script runs once for each command that docs/acl lists, without that one. What is there behind
it has a time to live, except what has none by the layout: Redisson's queue of the fair lock.
"""
from __future__ import annotations

import re

import lua
import resp
from keeper import ROOT

LEASE, LONG = 30000, 60000
LOCK, CHANNEL, OWNER, OTHER, NOBODY = "k", "channel", "me:1", "other:2", "me:kept:1"
TURNS, WRITERS = "lockkeeper_turns:{k}", "lockkeeper_writers:{k}"
TIMEOUT = "{k}:me:1:rwlock_timeout:1"
FAIR = [LOCK, "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "lockkeeper_fair:{k}"]
FENCE = [LOCK, "lockkeeper_fence:{k}"]
COUNT, IN_USE = LOCK, "{k}:timeout"
RECORDS = ["{k}:record", "{k}:record-before"]
TURN = ["me:turn", "1000", "9000"]
BY_THE_LAYOUT = (b"redisson_lock_queue:", b"redisson_lock_timeout:")

HELD = [("HSET", LOCK, OTHER, 1), ("PEXPIRE", LOCK, LONG)]
OWN = [("HSET", LOCK, OWNER, 1), ("PEXPIRE", LOCK, LONG)]
WAITED = [("ZADD", TURNS, 1, "other:turn"), ("PEXPIRE", TURNS, LONG)]
PLAIN_HELD = [("SET", LOCK, OTHER, "PX", LONG)]
PLAIN_OWN = [("SET", LOCK, OWNER, "PX", LONG)]
WRITTEN = [("HSET", LOCK, "mode", "write", OTHER + ":write", 1), ("PEXPIRE", LOCK, LONG)]
WRITES = [("HSET", LOCK, "mode", "write", OWNER + ":write", 1), ("PEXPIRE", LOCK, LONG)]
READ = [("HSET", LOCK, "mode", "read", OTHER, 1), ("PEXPIRE", LOCK, LONG),
        ("SET", "{k}:other:2:rwlock_timeout:1", 1, "PX", LONG)]
READS = [*READ, ("HSET", LOCK, OWNER, 1), ("SET", TIMEOUT, 1, "PX", LONG)]
QUEUED = [("RPUSH", FAIR[1], OTHER), ("ZADD", FAIR[2], 10 ** 14, OTHER),
          ("HSET", FAIR[3], OTHER, "30000 30000 ab"), ("PEXPIRE", FAIR[3], 100)]
COUNTED = [("SET", COUNT, 2, "PX", LONG)]
DEADLINE = object()  # a minute from now, by the server's clock

RUNS = {
    "lock, free": ("lock/acquire", [], [LOCK], [OWNER, LEASE, DEADLINE]),
    "lock, waited for": ("lock/acquire", [], [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "0"]),
    "lock, held": ("lock/acquire", HELD, [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "0"]),
    "lock, left to others": ("lock/acquire", WAITED, [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "1"]),
    "lock, left to nobody": ("lock/acquire", [], [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "1"]),
    "lock, exchanged": ("lock/exchange", [*OWN, *WAITED], [LOCK],
                        ["me:3", LEASE, DEADLINE, OWNER, CHANNEL]),
    "lock, released": ("lock/release", [*OWN, *WAITED], [LOCK], [OWNER, CHANNEL]),
    "lock, kept": ("lock/keep", OWN, [LOCK], [LEASE, OWNER, CHANNEL, NOBODY]),
    "a place left": ("turns/leave", WAITED, [LOCK], ["other:turn", CHANNEL]),
    "fenced, free": ("fenced/acquire", [], FENCE, [OWNER, LEASE, DEADLINE, "", CHANNEL]),
    "fenced, held": ("fenced/acquire", HELD, FENCE,
                     [OWNER, LEASE, DEADLINE, "", CHANNEL, *TURN, "0"]),
    "fenced, left to others": ("fenced/acquire", WAITED, FENCE,
                               [OWNER, LEASE, DEADLINE, "", CHANNEL, *TURN, "1"]),
    "fenced, exchanged": ("fenced/acquire", OWN, FENCE, ["me:3", LEASE, DEADLINE, OWNER, CHANNEL]),
    "a token, the first": ("fenced/check", [], ["{k}:newest"], [7, LEASE]),
    "a token, written with": ("fenced/check", [], ["{k}:newest"], [7, LEASE, "text", "me", 1]),
    "a token, newer": ("fenced/check", [("HSET", "{k}:newest", "token", 6),
                                        ("PEXPIRE", "{k}:newest", LONG)],
                       ["{k}:newest"], [7, LEASE, "text", "me", 1]),
    "plain, free": ("plain/acquire", [], [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "0"]),
    "plain, held": ("plain/acquire", PLAIN_HELD, [LOCK], [OWNER, LEASE, DEADLINE, *TURN, "0"]),
    "plain, left to others": ("plain/acquire", WAITED, [LOCK],
                              [OWNER, LEASE, DEADLINE, *TURN, "1"]),
    "plain, exchanged": ("plain/exchange", PLAIN_OWN, [LOCK],
                         ["me:3", LEASE, DEADLINE, OWNER, CHANNEL, "push", "{k}:list", "1", 500]),
    "plain, released": ("plain/release", PLAIN_OWN, [LOCK],
                        [OWNER, CHANNEL, "push", "{k}:list", "1", LONG]),
    "plain, forced": ("plain/force_release", PLAIN_HELD, [LOCK],
                      [CHANNEL, "push", "{k}:list", "1", LONG]),
    "plain, kept": ("plain/keep", PLAIN_OWN, [LOCK], [LEASE, OWNER, CHANNEL, NOBODY]),
    "several": ("multi/acquire", [], [LOCK, "{k}2"], [OWNER, LEASE, DEADLINE]),
    "several, kept": ("multi/keep", OWN, [LOCK], [LEASE, OWNER, CHANNEL, NOBODY]),
    "several, released": ("multi/release", [*OWN, *WAITED], [LOCK], [OWNER, CHANNEL]),
    "read, free": ("rw/read_acquire", [], [LOCK, TIMEOUT, WRITERS],
                   [OWNER, LEASE, DEADLINE, "", "1"]),
    "read, beside others": ("rw/read_acquire", READ, [LOCK, TIMEOUT, WRITERS],
                            [OWNER, LEASE, DEADLINE, "", "1"]),
    "read, kept": ("rw/keep", READS, [LOCK, TIMEOUT, "{k}:" + NOBODY],
                   [LEASE, OWNER, CHANNEL, NOBODY, "0"]),
    "read, released": ("rw/release", READS, [LOCK, TIMEOUT, WRITERS], [OWNER, CHANNEL, "0"]),
    "write, free": ("rw/write_acquire", [], [LOCK, WRITERS],
                    [OWNER + ":write", LEASE, DEADLINE, 3000]),
    "write, held": ("rw/write_acquire", WRITTEN, [LOCK, WRITERS],
                    [OWNER + ":write", LEASE, DEADLINE, 3000]),
    "write, kept": ("rw/keep", WRITES, [LOCK, "{k}:none", "{k}:none"],
                    [LEASE, OWNER + ":write", CHANNEL, NOBODY + ":write", "1"]),
    "fair, free": ("fair/queue", [], FAIR,
                   ["acquire", OWNER, CHANNEL, LEASE, 3000, DEADLINE, "ab"]),
    "fair, held": ("fair/queue", HELD, FAIR,
                   ["acquire", OWNER, CHANNEL, LEASE, 3000, DEADLINE, "ab"]),
    "fair, behind others": ("fair/queue", [*HELD, *QUEUED], FAIR,
                            ["acquire", OWNER, CHANNEL, LEASE, 3000, DEADLINE, "ab"]),
    "fair, handed over": ("fair/queue", [*OWN, *QUEUED], FAIR, ["release", OWNER, CHANNEL]),
    "fair, kept": ("fair/keep", OWN, FAIR[:2], [LEASE, OWNER, CHANNEL, NOBODY]),
    "permits, the first": ("permits/acquire", [], [COUNT, IN_USE],
                           [1, LEASE, DEADLINE, "12345678901234", CHANNEL, 2, LONG]),
    "permits": ("permits/acquire", COUNTED, [COUNT, IN_USE],
                [2, LEASE, DEADLINE, "12345678901234", CHANNEL, 2, LONG]),
    "permits, set": ("permits/set", [], [COUNT, *RECORDS, IN_USE],
                     [DEADLINE, CHANNEL, 2, "all", LONG]),
    "semaphore": ("semaphore/acquire", [], [COUNT, *RECORDS], [1, DEADLINE, 2, LONG]),
    "semaphore, set": ("semaphore/set", [], [COUNT, *RECORDS], [DEADLINE, CHANNEL, 2, LONG, 0]),
    "semaphore, added to": ("semaphore/add", [], [COUNT, *RECORDS],
                            [DEADLINE, CHANNEL, 1, "0", 0, LONG]),
    "latch, set": ("latch/set", [], [COUNT, *RECORDS], [DEADLINE, CHANNEL, 2, LONG]),
}


def commands() -> list[str]:
    """Those that a list of docs/acl allows, one of another library's waiters, and none."""
    rules = (ROOT / "docs" / "acl" / "locks.acl").read_text()
    allowed = re.findall(r"\+([a-z]+)(?= |$)", rules)
    return ["nothing", "lpush", *(word for word in allowed if word not in ("evalsha", "auth"))]


class Cut:
    """A server, and a user there who lacks one command."""

    def __init__(self, server):
        self.admin, self.user = server.connect(), server.connect()
        self.admin.call("ACL", "SETUSER", "cut", "on", "nopass", "~*", "&*", "+@all")
        self.user.call("AUTH", "cut", "any")

    def deadline(self) -> int:
        seconds, micros = self.admin.call("TIME")
        return (int(seconds) + 60) * 10 ** 6 + int(micros)

    def run(self, command, script, before, keys, arguments) -> list[bytes]:
        """What stays behind for ever."""
        self.admin.call("FLUSHALL")
        for words in before:
            self.admin.call(*words)
        rules = ["+@all"] if command == "nothing" else ["+@all", "-" + command]
        self.admin.call("ACL", "SETUSER", "cut", *rules)
        words = [self.deadline() if word is DEADLINE else word for word in arguments]
        self.user.send("EVAL", lua.text_of(*script.split("/")), len(keys), *keys, *words)
        answer = self.user.read()
        if command == "nothing":
            assert not isinstance(answer, resp.ErrorReply), answer
        return [key for key in self.admin.call("KEYS", "*")
                if self.admin.call("PTTL", key) == -1 and not key.startswith(BY_THE_LAYOUT)]


def test_no_key_stays_for_ever(server):
    cut, found = Cut(server), {}
    for name, what in RUNS.items():
        for command in commands():
            stays = cut.run(command, *what)
            if stays:
                found[name, command] = stays
    assert not found, "\n".join(map(str, found.items()))
