"""Each check of the tree finds what it is there for: in a copy of the tree with one thing wrong."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKKEEPER_BUILD", ROOT / "build"))
LONG_FUNCTION = "int lk__long(void);\nint lk__long(void)\n{\n" + "\t;\n" * 80 + "\treturn 0;\n}\n"


NOT_COPIED = shutil.ignore_patterns(".git", "node_modules", "__pycache__", "target", ".*_cache")


def copy_tree(to):
    """All of it but build folders: pages and comments name files anywhere."""
    for path in ROOT.iterdir():
        if path.name == ".git" or (path / "build.ninja").exists():
            continue
        if path.is_dir():
            shutil.copytree(path, to / path.name, ignore=NOT_COPIED)
        else:
            shutil.copy(path, to)


@pytest.fixture
def tree(tmp_path):
    copy_tree(tmp_path)
    return tmp_path


def check(tree, name):
    return subprocess.run(["/usr/bin/python3", tree / f"scripts/check_{name}.py", BUILD],
                          capture_output=True, text=True)


def spoil(tree, file, before, after):
    path = tree / file
    text = path.read_text()
    assert before in text, f"{file} has no {before!r} any more: mend this test"
    path.write_text(text.replace(before, after, 1))


SPOILT = [
    ("layers", "src/base/heap.c", "#include", '#include "conn/conn.h"\n#include', "base may not"),
    ("layers", "src/base/heap.c", "#include", '#include "heap.h"\n#include', "from src/ on"),
    ("layers", "src/base/heap.c", "#include", "#include <conn/conn.h>\n#include", "base may not"),
    ("layers", "src/base/heap.c", "#include", "#define FREE lk_client_free\n#include",
     "src/base/heap.c:2: base may not use lk_client_free, which api defines"),
    ("layers", "src/lock/entry.c", '#include "base',
     '#include "lock/hold.h"\n#include "base',
     "lock/entry may not include lock/hold"),
    ("layers", "src/lock/entry.c", "assert(waiting && waiting->queue);",
     "lk__entry_lose(entry, 0);",
     "lock/entry may not use lk__entry_lose, which lock/hold defines"),
    ("layers", "src/lock/loop.c", "if (loop_read(loop))", "lk__watch_turn(NULL, true);",
     "lock/client may not use lk__watch_turn, which lock/hold defines"),
    ("layers", "cli/main.c", "#include", "#include <hiredis/hiredis.h>\n#include", "cli/main.c"),
    ("layers", "scripts/check_layers.py", "LARGEST_CIRCLE = 3", "LARGEST_CIRCLE = 2",
     "has a circle of 3 files"),
    ("layers", "scripts/check_layers.py", "int] = {}", "int] = {'conn': 9}",
     "conn has none of more"),
    ("door", "src/conn/conn.c", "lk__socket_shutdown(", "shutdown(", "shutdown() is called past"),
    ("door", "src/base/clock.h", "static", "#define NOW() clock_gettime(0, 0)\nstatic", "clock.h"),
    ("sizes", "src/base/heap.c", "static", LONG_FUNCTION + "static", "lk__long has 8"),
    ("sizes", "src/base/heap.c", "static", "/*" + "x" * 100 + "*/\nstatic", "104 columns"),
    ("sizes", "scripts/check_sizes.py", "70, 800, 1200", "70, 500, 1200", "src/sync/attempt.c: "),
    ("sizes", "scripts/check_sizes.py", "70, 800, 1200", "70, 800, 1100", "lock/multi_call.c: 1"),
    ("sizes", "scripts/check_sizes.py", "str] = {", 'str] = {"src/base/heap.c": "lk__heap", ',
     "src/base/heap.c needs no more than 800 lines"),
    ("headers", "include/lockkeeper/cancel.h", "LK_BEGIN_DECLS", "inline f(void) {}", "cancel.h"),
    ("headers", "include/lockkeeper/lock.h", "never a negative", "or a negative", "_is_held "),
    ("headers", "include/lockkeeper/lock.h", "int *held_out", "int held", "lk_lock_is_held_by"),
    ("abi", "include/lockkeeper/cancel.h", "_new(lk_cancel **", "_new(int **",
     "parameter 1 of type 'lk_cancel**' changed"),
    ("abi", "include/lockkeeper/error.h", "LK_API int lk_error_is_fatal(int code);", "",
     "lk_error_is_fatal"),
    ("abi", "include/lockkeeper/error.h", 'X(LK_EBUSY, -4', 'X(LK_EBUSY, -44', "LK_EBUSY"),
    ("abi", "include/lockkeeper/lock.h", "	int64_t max_hold_ms;",
     "	int64_t first;\n	int64_t max_hold_ms;",
     "'int64_t max_hold_ms' offset changed"),
    ("abi", "include/lockkeeper/error.h", "	char message[504];", "	char message[508];",
     "lk_error"),
    ("mutants", "src/sync/late.lua", "now > deadline", "now >= deadline", "late: src/sync/late"),
    ("mutants", "tests/sim/test_sim.c", '{"red", ', '{"rot", ', "minority: no world red"),
    ("docs", "docs/errors.md", "LK_EBUSY", "LK_EIDLE", "errors.md"),
    ("docs", "docs/choosing.md", "**nobody**", "kept", "choosing.md"),
    ("docs", "docs/choosing.svg", "flock(2)", "lockf(3)", "choosing.svg"),
    ("docs", "include/lockkeeper/cancel.h", "Since 0.2.", "", "lk_cancel_new"),
    ("docs", "include/lockkeeper/drain.h", "Since 0.2.", "Since 0.1.",
     "says since 0.1, and src/lockkeeper.map 0.2"),
    ("docs", "include/lockkeeper/stats.h", "Errors: LK_EINVAL (struct_size), LK_EFORKED.", "",
     "lk_client_stats does not say how it fails"),
    ("docs", "include/lockkeeper/event.h", "Since 0.2.\n */\nLK_API int lk_event_wait",
     "*/\nLK_API int lk_event_wait",
     "event.h: lk_event_wait has no comment that says since when"),
    ("docs", "src/lockkeeper.map", "\tlk_lock_extend;\n", "", "debian/liblockkeeper0.2.symbols"),
    ("docs", "docs/threads.md", "`src/lock/loop.c`", "`src/lock/lop.c`",
     "there is no src/lock/lop.c"),
    ("docs", "src/lock/client.h", "see async.h", "see asyncs.h",
     "client.h: there is no asyncs.h"),
    ("docs", "src/lock/entry.c", "(lk__entry_lose())", "(lk__entry_loose())",
     "src/lock/entry.c: there is no lk__entry_loose()"),
    ("docs", "README.md", "(SECURITY.md)", "(SAFETY.md)", "SAFETY.md"),
    ("docs", "README.md", "alone at work", "at work alone", "examples/lock.c"),
    ("scripts", "src/sync/rw/is_locked.lua", "return (mode", "retrun (mode",
     "src/sync/rw/is_locked.lua:10:"),
    ("scripts", "src/sync/plain/keep.lua", "'SET', KEYS[1]", "'SET', ARGV[2]",
     "src/sync/plain/keep.lua: SET on ARGV[2], which is none of KEYS"),
    ("scripts", "src/sync/fenced/check.lua", "{'HSET', KEYS[1]", "{'HSET', ARGV[1]",
     "src/sync/fenced/check.lua: HSET on ARGV[1], which is none of KEYS"),
    ("scripts", "src/sync/rw/release.lua", "-- Keys beside KEYS: ", "-- Also ",
     "src/sync/rw/release.lua: PTTL on key, which is none of KEYS"),
    ("scripts", "src/sync/lock/keep.lua", "-- Works", "-- Keys beside KEYS: some.\n-- Works",
     "src/sync/lock/keep.lua: has no keys beside KEYS"),
    ("scripts", "src/sync/late.lua", "if now", "fi now", "src/sync/late.lua:4:"),
    ("scripts", "src/sync/lock/acquire.lua", "gives lease, time", "gives lease",
     "prologue.lua gives lease, time, not lease"),
    ("scripts", "src/sync/late.lua", "now > deadline", "now > deadlin",
     "accessing undefined variable"),
    ("exports", "src/lockkeeper.map", "\tlk_lock_extend;\n", "", "lk_lock_extend"),
    ("exports", "docs/abi.md", "`lk_event`", "", "lk_event: docs/abi.md does not say"),
    ("exports", "include/lockkeeper/spin_lock.h", "\tsize_t struct_size;\n", "",
     "lk_spin_lock_options: does not begin with struct_size"),
    ("exports", "tests/api/test_nomem.c", "lk_client_stats(", "lk_client_state(",
     "lk_client_stats"),
    ("guarantees", "docs/guarantees.md", "| lk_cancel_reset |", "| lk_cancel_set |",
     "lk_cancel_reset"),
    ("guarantees", "docs/guarantees.md", "test_clocks_of_a_quorum_that_jump_forward`",
     "test_clocks_that_stand`", "test_clocks_that_stand"),
    ("guarantees", "docs/guarantees.md", "| A planned failover | – |", "| A planned failover | ? |",
     "A planned failover: the verdicts"),
    ("guarantees", "docs/guarantees.md", "no (1)", "no (9)", "there is no such note"),
    ("guarantees", "docs/guarantees.md", "- **A failover to a replica that lacks grants.**",
     "- One fact.\n- One\n  fact;\n- **A failover to a replica that lacks grants.**",
     "stands there twice: - One fact"),
    ("format", "src/base/heap.c", "\tif (", "    if(", "heap.c"),
]


@pytest.mark.parametrize("name,file,before,after,says", SPOILT)
def test_spoilt_tree(tree, name, file, before, after, says):
    spoil(tree, file, before, after)
    done = check(tree, name)
    if done.stdout.startswith("not checked: "):
        pytest.skip(done.stdout)
    assert done.returncode == 1
    assert says in done.stdout


@pytest.mark.parametrize("name", sorted({spoilt[0] for spoilt in SPOILT}))
def test_the_copy_as_it_is(tree, name):
    """What a spoilt copy says is about what was spoilt."""
    done = check(tree, name)
    assert done.returncode == 0, done.stdout


def test_what_may_be_added_to_the_interface(tree):
    """docs/abi.md: members at the end of structs that can grow, codes, functions."""
    for file, before, after in (
            ("lock.h", "} lk_release_options;", "\tint64_t more;\n} lk_release_options;"),
            ("event.h", "} lk_event;", "\tint64_t more;\n} lk_event;"),
            ("stats.h", "} lk_stats;", "\tint64_t more;\n} lk_stats;"),
            ("doctor.h", "} lk_doctor_node;", "\tint64_t more;\n} lk_doctor_node;"),
            ("error.h", '"done at the master, but too few replicas or disks have it")',
             '"done at the master") X(LK_EMORE, -99, 0, "more")'),
            ("error.h", "LK_END_DECLS", "LK_API int lk_more(int more);\nLK_END_DECLS")):
        spoil(tree, f"include/lockkeeper/{file}", before, after)
    done = check(tree, "abi")
    assert done.returncode == 0, done.stdout


def test_a_call_upward_through_a_public_header(tree):
    (tree / "src" / "base" / "fail.c").rename(tree / "src" / "api" / "fail.c")
    done = check(tree, "layers")
    assert done.returncode == 1
    assert "conn may not use lk_error_is_fatal, which api defines" in done.stdout
    assert "sync may not use lk_error_is_retryable, which api defines" in done.stdout


def test_a_file_of_no_group(tree):
    (tree / "src" / "lock" / "more.c").write_text("int lk__more;\n")
    done = check(tree, "layers")
    assert done.returncode == 1
    assert "src/lock/more.c: src/lock is no layer" in done.stdout


def test_a_piece_that_no_script_includes(tree):
    (tree / "src" / "sync" / "spare.lua").write_text("-- Gives: more\nlocal more = 1\n")
    done = check(tree, "scripts")
    assert done.returncode == 1
    assert "src/sync/spare.lua: no script includes it" in done.stdout
