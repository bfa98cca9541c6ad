"""docs/beside.md: a lock of ours beside those of other libraries, from their table."""
from __future__ import annotations

import foreign_table

HEAD = """# Locks of other libraries on the same server

Made from `src/sync/foreign/foreign.def` by `make docs`; do not edit.

Each row is what that version did when it was run on 2026-11-27, with redis-server 7.0.15, beside
`lockkeeper run --plain`; it does not quote its documentation. What was not run says so. Redisson,
redis-py, redsync, node-redlock, python-redis-lock, pottery, sherlock, walrus, redis-lock-py and
Spring are tested in `make interop`, with the versions that [interop.md](interop.md) names; the
other rows may be out of date for other versions.

`NAME` is what the program that uses the library calls the lock; where there are several, it is one
text each time. `<…>` is what the library makes up.

## To share one lock

Give ours the key that the library writes: `lockkeeper run --plain lock:orders …` for the lock
`orders` of python-redis-lock. With `-o key_prefix=lock:` the names are the same. Both then exclude
each other where the column says *yes*. *Ours* is how soon ours had the lock after theirs was
released. *Theirs* is how a waiter of theirs finds out that ours was released.

| library, version | key | both exclude each other | ours | theirs |
|---|---|---|---|---|
"""

BEWARE = """
## What to beware of

| library, version | what it does |
|---|---|
"""

SEEN = """
## What ls, show and break know of them

`lockkeeper ls` lists a lock of another library when key and value can hardly be anything else;
`ls --all` lists what has the value's form alone, which may be data. `show`, `wait` and `break` take
any string by its name, also without a time to live, and the sorted sets and hashes of this table.
`show` says *looks like*: anybody can write such a key. Before `break` deletes what may be data it
says what that is. Where several libraries write the same value under any name, all are named. So a
`0` or `1` with a time to live may be of dramatiq's limiter or a counter of ours: both are named,
until permits in use or a waiter show that it is ours.
`break` also tells the waiters of Spring (`PUB_SUB_LOCK`), python-redis-lock, walrus, redis-lock-py,
redfour and py-redis-semaphore what their library's own release tells them. Where ours held the
lock, `break --notify` names the library.

| library, version | key | type | value | listed by |
|---|---|---|---|---|
"""

ALSO = """
### Keys that you have configured

A library's own option, or a client's (`keyPrefix` of ioredis), may put another prefix before its
keys: BullMQ's `prefix`, Laravel's for the cache and for Redis, `redbeat_key_prefix`, Django's
`KEY_PREFIX`. These forms are known too, from the options and not from a run; `…` is anything. As
always the libraries that write the same are named together: a lock of redbeat with another prefix
looks like redis-py's too, and one of BullMQ's like a plain lock of ours.

| library | key | type | value | listed by |
|---|---|---|---|---|
"""

TAIL = """
A key that a library keeps beside its locks is not a lock, and `break` refuses it. A forced release
does not reach the holder: it goes on until it notices, if its library looks. aioredlock sets the
key again. A number, as dramatiq writes it, is refused too: nobody holds one as a whole.
"""

TYPES = {"PLAIN": "string", "COUNT": "string", "BESIDE": "string", "ZSET": "sorted set",
         "POOL": "sorted set", "HASH": "hash", "FIELD": "hash, field"}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def code(text: str) -> str:
    return f"`{cell(text)}`"


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def title(row: foreign_table.Row) -> str:
    return cell(f"{row.library} {row.versions}")


def key(row: foreign_table.Row) -> str:
    return code(foreign_table.in_words(row.key, "NAME")) if row.key else "none"


def listed_by(row: foreign_table.Row) -> str:
    known = row.value in ("%h32", "%1", "%b22==", "%u:%d")
    number = row.kind == "COUNT"
    sure = row.certainty != "GUESS" and row.kind != "BESIDE"
    return "`ls`" if sure or known or number else "`ls --all`"


def page() -> str:
    rows = foreign_table.rows()
    locks = [row for row in rows if row.kind != "BESIDE"]
    text = HEAD
    for row in locks:
        text += line(title(row), key(row), cell(row.both), cell(row.ours), cell(row.theirs))
    text += BEWARE
    for row in locks:
        if row.beware:
            text += line(title(row), cell(row.beware))
    text += SEEN
    for row in rows:
        if row.kind in TYPES:
            text += line(title(row), key(row), TYPES[row.kind],
                         code(foreign_table.in_words(row.value, "…")), listed_by(row))
    text += ALSO
    for row in foreign_table.also():
        text += line(cell(row.library), code(foreign_table.in_words(row.key, "…")), TYPES[row.kind],
                     code(foreign_table.in_words(row.value, "…")), listed_by(row))
    return text + TAIL
