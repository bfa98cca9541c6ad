#!/usr/bin/env python3
"""Breaks the library on purpose, one defect at a time, and shows that the tests notice.

usage: mutants.py [NAME…]       all when none is named; about four minutes

Works on a copy of the tree in a temporary folder. A mutant that no longer applies is reported: it
has to follow the code. Ends with 0 when every mutant was caught.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
LIMIT = 180  # seconds for the tests of one mutant


@dataclass
class Mutant:
    name: str
    edits: list[tuple[str, str, str]]  # file, text, its replacement
    tests: str                         # files of this folder
    choice: str = ""                   # pytest -k


ACQUIRE, RELEASE, RENEW = (f"src/sync/lock/{name}.lua" for name in ("acquire", "release", "renew"))

MUTANTS = [
    Mutant("a grant is not checked when it arrives", [
        ("src/sync/script.c", "now_ns >= lk__lease_end_ns(request->sent_ns, lease_ms)", "0"),
        ("src/lock/acquire.c", "lk__now_ns() < lk__hold_deadline(hold)", "1")],
        "test_pauses.py", "way or later or random"),
    Mutant("the lease is counted from the reply", [
        ("src/sync/script.c", "event->sent_ns = request->sent_ns;", "event->sent_ns = now_ns;")],
        "test_pauses.py test_lost_replies.py", "way or later or random or parked or holder"),
    Mutant("a release frees whoever has it", [
        (RELEASE, "redis.call('HDEL', KEYS[1], ARGV[1]) == 1",
         "redis.call('DEL', KEYS[1]) == 1 and ARGV[1] ~= ''")],
        "test_lost_replies.py", "release_cut"),
    Mutant("a late request is not refused", [
        ("src/sync/late.lua", "if now > deadline then", "if now > deadline * 2 then")],
        "test_lost_replies.py", "late or zombie"),
    Mutant("a renewal renews a stranger's lock", [
        (RENEW, "redis.pcall('HEXISTS', KEYS[i], owner) == 1",
         "redis.call('EXISTS', KEYS[i]) == 1 or owner == ''")],
        "test_server_faults.py", "erased"),
    Mutant("an acquire that is sent twice counts twice", [
        (ACQUIRE, "\tredis.call('HSET', KEYS[1], ARGV[1], 1)\nend",
         "\tredis.call('HSET', KEYS[1], ARGV[1], 0)\nend\n"
         "redis.call('HINCRBY', KEYS[1], ARGV[1], 1)")],
        "test_lost_replies.py", "acquire_cut"),
    Mutant("nothing is compensated", [
        ("src/lock/compensation.c", "compensation_due(client, lk__now_ns(), &next_ns)",
         "compensation_due(client, 0, &next_ns)")],
        "test_lost_replies.py", "told or back"),
    Mutant("no try after a new subscription", [
        ("src/conn/channels.c", "channel->generation++;", "channel->generation += 0;")],
        "test_lost_replies.py", "message_lost"),
    Mutant("grants in doubt are not verified", [
        ("src/lock/renewal.c", "bool doubt = lk__entry_in_doubt(entry);",
         "bool doubt = false;")],
        "test_server_faults.py", "without_data"),
    Mutant("the last waiter stays subscribed", [
        ("src/conn/channels.c", "channel_want(conn, channel, false);", "channel->wanted = false;")],
        "test_scenarios.py", "turn or leaves_nothing or unsubscribes"),
    Mutant("who leaves takes its turn along", [
        ("src/sync/turns/leave.lua", "redis.call('EXISTS', KEYS[1]) == 1", "true")],
        "test_turns.py", "passes"),
    Mutant("the host name is not verified", [
        ("src/net/tls.c", "X509_VERIFY_PARAM_set1_host(rules, host, 0) != 1", "0")],
        "test_tls.py", "refused or name_option"),
    Mutant("a release needs memory", [
        (RELEASE, "local held = redis.call('HDEL'",
         "redis.call('HINCRBY', KEYS[1], ARGV[1], 0)\nlocal held = redis.call('HDEL'")],
        "test_server_faults.py", "memory"),
    Mutant("a release sent again that finds nothing is no release", [
        ("src/lock/release.c", "return request->sends < 2 ||", "return request->sends ||")],
        "test_lost_replies.py", "release_cut"),
    Mutant("no hold-off for others", [
        ("src/sync/term.h",
         "return others > 0 && hold_off_ns > 0 ? now_ns + hold_off_ns : 0;",
         "(void)others, (void)hold_off_ns, (void)now_ns;\n\treturn 0;")],
        "test_starvation.py"),
    Mutant("terms without an end", [
        ("src/sync/term.h", "passing->term_ns / 10 * 9", "passing->term_ns * 1000"),
        ("src/sync/term.h", "term->handovers >= LK__TERM_HANDOVERS_MAX",
         "term->handovers >= 100000000")],
        "test_starvation.py"),
    Mutant("a refused PEXPIRE leaves a lock without a time to live", [
        (ACQUIRE, "\tredis.call('HDEL', KEYS[1], ARGV[1])\n\treturn answer", "\treturn answer")],
        "test_server_faults.py", "missing_for_acquire"),
    Mutant("renewals go over the callers' connection", [
        ("src/lock/renewal.c", "lk__conn_submit(lk__node_work(batch->node), request);",
         "lk__conn_submit(&batch->node->scripts[0], request);")],
        "test_pauses.py", "reader_is_stopped"),
    Mutant("another message than Redisson's", [
        (RELEASE, "PUBLISH', ARGV[2], '0'", "PUBLISH', ARGV[2], '1'")],
        "test_lock_wire.py", "in_redis or pair"),
    Mutant("no limit for an answer", [
        ("src/conn/conn.c", "now_ns >= lk__conn_limit_ns(conn)",
         "lk__conn_limit_ns(conn) < 0")],
        "test_lost_replies.py test_hostile.py", "never_comes or slow_drip"),
    Mutant("a fair queue is served last come first", [
        ("src/sync/fair/queue.lua", "redis.call('RPUSH', queue, own)",
         "redis.call('LPUSH', queue, own)")],
        "../history/test_kinds.py", "in_order"),
    Mutant("a hand-over that is past is a grant", [
        ("src/sync/attempt.c", "handed_us < attempt->busy_server_us)\n\t\treturn 0;",
         "handed_us < attempt->busy_server_us)\n\t\thanded_us = attempt->busy_server_us;")],
        "test_fair.py", "past"),
    Mutant("a latch counts twice what is sent again", [
        ("src/sync/change.lua", "local done = redis.call('GET', KEYS[2])",
         "local done = false")],
        "../history/test_latch.py", "sent_again"),
    Mutant("one permit more than there are", [
        ("src/sync/permits/acquire.lua", "needed == 0 or free >= needed",
         "needed == 0 or free + 1 >= needed")],
        "../history/test_kinds.py", "permits_out"),
    Mutant("readers do not mind a writer", [
        ("src/sync/rw/read_acquire.lua", "if mode == 'write' then",
         "if mode == 'neither' then")],
        "../history/test_kinds.py", "write-read"),
    Mutant("a plain lock is released whoever has it", [
        ("src/sync/plain/release.lua",
         "redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1]) == ARGV[1]",
         "redis.pcall('EXISTS', KEYS[1]) == 1 and ARGV[1] ~= ''")],
        "test_plain_wire.py", "compares or renewed"),
]

UNCHANGED = Mutant("none", [], "test_lost_replies.py test_lock_wire.py test_tls.py",
                   "release_cut or pair or refused")


def apply(tree: pathlib.Path, mutant: Mutant) -> bool:
    for file, text, replacement in mutant.edits:
        source = (tree / file).read_text()
        if source.count(text) != 1:
            return False
        (tree / file).write_text(source.replace(text, replacement))
    return True


def restore(tree: pathlib.Path, mutant: Mutant) -> None:
    for file, _, _ in mutant.edits:
        shutil.copy(ROOT / file, tree / file)


def build(tree: pathlib.Path) -> str:
    """Empty, or what the compiler said."""
    if not (tree / "build").exists():
        subprocess.run(["meson", "setup", "build", "-Dwerror=false"], cwd=tree, check=True,
                       capture_output=True)
    ninja = subprocess.run(["ninja", "-C", "build", "-j2", "tests/system/system-driver"],
                           cwd=tree, capture_output=True, text=True)
    return ninja.stdout[-2000:] if ninja.returncode else ""


def verdict(tree: pathlib.Path, mutant: Mutant) -> str:
    if not apply(tree, mutant):
        return "does not apply"
    if trouble := build(tree):
        return f"does not build: {trouble}"
    command = [PYTHON, "-m", "pytest", "-x", "--tb=no", *mutant.tests.split()]
    command += ["-k", mutant.choice] if mutant.choice else []
    environment = {**os.environ, "LOCKKEEPER_BUILD": str(tree / "build")}
    try:
        tests = subprocess.run(command, cwd=tree / "tests" / "system", env=environment,
                               capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no verdict within {LIMIT} s"
    return {0: "MISSED", 1: "caught"}.get(tests.returncode, f"pytest ended: {tests.returncode}")


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    caught = 0
    with tempfile.TemporaryDirectory(prefix="lk-mutants-") as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", "build*"))
        if trouble := build(tree):
            print(f"the tree itself does not build: {trouble}")
            return 1
        if (said := verdict(tree, UNCHANGED)) != "MISSED":
            print(f"the tests already fail without a mutant: {said}")
            return 1
        for mutant in chosen:
            begun = time.monotonic()
            said = verdict(tree, mutant)
            restore(tree, mutant)
            caught += said == "caught"
            print(f"{said:8} {time.monotonic() - begun:4.0f} s  {mutant.name}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
