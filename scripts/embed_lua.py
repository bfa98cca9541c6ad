#!/usr/bin/env python3
"""Turns the Lua scripts into a C table: text, size, SHA-1, numbers of keys and arguments.

usage: embed_lua.py OUT.c OUT.h CALLS.h CALLS.inc CALLS.c IN.lua...

The inputs are the scripts and the pieces that they include (lua_scripts.py says how). What counts
is the expanded text.

A script that publishes has a second text, for messages that are sharded (SPUBLISH), and a third one
for both kinds of messages.

Each script documents KEYS[i] and ARGV[i] in its leading comment, one a line ("--   ARGV[1]  …"; "…"
after the last index says that more follow). A script that documents an index it does not use,
or uses one that it does not document, fails the build. From these lines come the functions that
send the scripts, CALLS.h and CALLS.inc (lua_calls.py says how); CALLS.c has those that write a
word. "-- Replicas must have what it did." in the
same comment: its answer counts when they do. "-- Replicas must have what it grants.": an integer or
an array is a refusal, which counts at once.
"""
import hashlib
import pathlib
import re
import sys

import lua_calls
import lua_scripts


DURABLE = {"-- Replicas must have what it did.": "LK__DURABLE_WHOLLY",
           "-- Replicas must have what it grants.": "LK__DURABLE_GRANTS"}


def check(path, head, body):
    text = "\n".join(line.text for line in body)
    for table in ("KEYS", "ARGV"):
        told = lua_calls.indexes_of(head, table)
        used = {int(i) for i in re.findall(rf"{table}\[(\d+)\]", text)}
        if told is not None and told != used:
            raise lua_scripts.ScriptError(
                f"{path}: {table} documented {sorted(told)}, used {sorted(used)}")


def durable(path):
    head, _ = lua_scripts.split(lua_scripts.read(path))
    return next((DURABLE[line.text] for line in head if line.text in DURABLE), "LK__DURABLE_NOT")


def strip(body):
    """What the server runs: without comment lines and indentation."""
    return "".join(line.text.strip() + "\n" for line in body if not line.is_comment())


def sent(path, pieces):
    head, body = lua_scripts.split(lua_scripts.expand(path, pieces))
    check(path, head, body)
    return strip(body)


PUBLISH, NUMSUB = "redis.pcall('PUBLISH',", "redis.pcall('PUBSUB', 'NUMSUB',"

# A kind that is refused (ACL) counts as heard by nobody; the answer is the refusal if both are.
PUBLISH_BOTH = """local function publish_both(channel, message)
local plain = redis.pcall('PUBLISH', channel, message)
local sharded = redis.pcall('SPUBLISH', channel, message)
if type(plain) ~= 'number' then
return sharded
end
return type(sharded) == 'number' and plain + sharded or plain
end
"""
NUMSUB_BOTH = """local function numsub_both(...)
local plain = redis.pcall('PUBSUB', 'NUMSUB', ...)
local sharded = redis.pcall('PUBSUB', 'SHARDNUMSUB', ...)
if plain.err or sharded.err then
return plain.err and plain or sharded
end
for i = 2, #plain, 2 do
plain[i] = plain[i] + sharded[i]
end
return plain
end
"""


def changed(text, publish, numsub):
    """The same with other calls; None: it has none of them."""
    made = text.replace(PUBLISH, publish).replace(NUMSUB, numsub)
    if re.search(r"'(PUBLISH|NUMSUB)'", made):
        raise lua_scripts.ScriptError(f"publishes in a way that is not known here:\n{text}")
    return made if made != text else None


def sharded(text):
    return changed(text, PUBLISH.replace("'P", "'SP"), NUMSUB.replace("'NUM", "'SHARDNUM"))


def both(text):
    made = changed(text, "publish_both(", "numsub_both(")
    head = (PUBLISH_BOTH if PUBLISH in text else "") + (NUMSUB_BOTH if NUMSUB in text else "")
    return made and head + made


def row(ident, text, durable_as):
    sha1 = hashlib.sha1(text.encode()).hexdigest()
    return (f'\t[LK__SCRIPT_{ident.upper()}] = {{"{ident}", {len(text.encode())}, "{sha1}", '
            f'{durable_as},\n{c_text(text)}}},')


def c_text(text):
    rows = []
    for line in text.splitlines():
        rows.append('\t"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"')
    return "\n".join(rows)


def main():
    out_c, out_h, calls_h, calls_inc, calls_c, *inputs = sys.argv[1:]
    tables, names, calls = {"": [], "_sharded": [], "_both": []}, [], []
    paths = [pathlib.Path(name) for name in inputs]
    pieces = lua_scripts.pieces_of(paths)
    for path in paths:
        if lua_scripts.is_piece(path):
            continue
        text = sent(path, pieces)
        ident = f"{path.parent.name}_{path.stem}"
        names.append(ident)
        calls.append(lua_calls.call_of(ident, lua_scripts.split(lua_scripts.read(path))[0]))
        for kind, made in (("", text), ("_sharded", sharded(text)), ("_both", both(text))):
            if made:
                tables[kind].append(row(ident, made, durable(path)))
    write_tables(out_c, out_h, tables, names)
    by_build = [call for call in calls if call]
    pathlib.Path(calls_h).write_text(lua_calls.header(by_build))
    pathlib.Path(calls_inc).write_text(
        lua_calls.code(by_build, lua_calls.writers_of(pathlib.Path(calls_c))))


def write_tables(out_c, out_h, tables, names):
    enum = "".join(f"\tLK__SCRIPT_{n.upper()},\n" for n in names)
    pathlib.Path(out_h).write_text(
        "/* Made by scripts/embed_lua.py from the .lua files; do not edit. */\n"
        "#ifndef LK__SCRIPTS_H\n#define LK__SCRIPTS_H\n\n#include <stddef.h>\n\n"
        f"enum lk__script_id {{\n{enum}\tLK__SCRIPT_COUNT\n}};\n\n"
        "/* Which answers count only when replicas have what they tell of. */\n"
        "enum lk__durable { LK__DURABLE_NOT, LK__DURABLE_GRANTS, LK__DURABLE_WHOLLY };\n\n"
        "struct lk__script {\n\tconst char *name;\n\tsize_t size;\n\tconst char *sha1;\n"
        "\tenum lk__durable durable;\n\tconst char *text;\n};\n\n"
        "extern const struct lk__script lk__scripts[LK__SCRIPT_COUNT];\n\n"
        "/* For other kinds of messages: those that publish; the rest have no text. */\n"
        "extern const struct lk__script lk__scripts_sharded[LK__SCRIPT_COUNT];\n"
        "extern const struct lk__script lk__scripts_both[LK__SCRIPT_COUNT];\n\n#endif\n")
    pathlib.Path(out_c).write_text(
        '/* Made by scripts/embed_lua.py from the .lua files; do not edit. */\n'
        '#include "scripts.h"\n\n'
        "/* A script is one string, however long. */\n"
        '#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n' +
        "\n".join(f"const struct lk__script lk__scripts{kind}[LK__SCRIPT_COUNT] = {{\n" +
                  "\n".join(rows) + "\n};\n" for kind, rows in tables.items()))


if __name__ == "__main__":
    try:
        main()
    except lua_scripts.ScriptError as error:
        sys.exit(str(error))
