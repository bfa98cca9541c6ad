"""What scripts include at build time, the functions that send them, and every way in which an
include or a documented word can be wrong."""
from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMBED = ROOT / "scripts" / "embed_lua.py"

TIME = """-- The server's time.
--
-- Gives: now
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""
LATE = """-- Needs: now, deadline
-- Behind the head.
if now > deadline then
	-- A remark.
	return false
end
"""
PROLOGUE = """-- Needs: deadline
-- Gives: now
--include "time.lua" gives now
--include "late.lua"
"""
PIECES = {"time": TIME, "late": LATE, "prologue": PROLOGUE}
SCRIPT = """-- A script.
--
--   ARGV[1]  deadline
local deadline = tonumber(ARGV[1])
--include "prologue.lua" gives now
return now
"""
SENT = """local deadline = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > deadline then
return false
end
return now
"""
WRITERS = """
static void words_key(struct lk__words *words, const struct lk__target *target)
static void words_derived(struct lk__words *words, const char *prefix, const char *key)
static void words_turn(struct lk__words *words, const struct lk__try *wanted)
static void words_deadline(struct lk__words *words)
"""
CALL = """-- A script.
--
--   KEYS[1]  key: the lock's hash
--   KEYS[2]  prefix:{key}: one that is derived
--   ARGV[1]  field: of the owner,
--            in two lines
--   ARGV[2]  deadline
--   ARGV[3]  from (not read)
--   ARGV[4] … ARGV[6]  turn: several
--
-- Sent by lk__noun_verb(wanted, from).
return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]}
"""
CALLED = """struct lk__request *lk__noun_verb(const struct lk__try *wanted, const char *from)
{
	struct lk__words words = {0};
	words_key(&words, wanted->target);
	words_derived(&words, "prefix", wanted->target);
	size_t key_count = words.count;
	words_value(&words, wanted->field);
	words_deadline(&words);
	words_value(&words, from);
	words_turn(&words, wanted);
	return lk__words_script(&words, LK__SCRIPT_NOUN_VERB, key_count);
}
"""
EACH = """-- A script.
--
--   KEYS[1] … KEYS[n]     key
--   KEYS[n+1] … KEYS[2n]  other:{key}
--   ARGV[1]               keep_ms
--   ARGV[2] … ARGV[2n+1]  field, lease_ms: for each
--
-- Sent by lk__noun_verb(renewals, count, keep_ms).
return #KEYS + #ARGV + ARGV[1]
"""
EACH_CALLED = """struct lk__request *\
lk__noun_verb(const struct lk__renewal *renewals, size_t count, int64_t keep_ms)
{
	struct lk__words words = {0};
	assert(count > 0);
	for (size_t i = 0; i < count; i++) {
		words_key(&words, renewals[i].target);
	}
	for (size_t i = 0; i < count; i++) {
		words_derived(&words, "other", renewals[i].target);
	}
	size_t key_count = words.count;
	words_value(&words, keep_ms);
	for (size_t i = 0; i < count; i++) {
		words_value(&words, renewals[i].field);
		words_value(&words, renewals[i].lease_ms);
	}
	return lk__words_script(&words, LK__SCRIPT_NOUN_VERB, key_count);
}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sync" / "noun").mkdir(parents=True)
    return tmp_path


def embed(folder, script=SCRIPT, **pieces):
    """Writes the files and embeds them."""
    (folder / "sync" / "noun" / "verb.lua").write_text(script)
    for title, text in {**PIECES, **pieces}.items():
        (folder / "sync" / f"{title}.lua").write_text(text)
    (folder / "words.c").write_text(WRITERS)
    inputs = sorted(folder.rglob("*.lua"))
    files = [folder / name
             for name in ("scripts.c", "scripts.h", "calls.h", "calls.inc", "words.c")]
    return subprocess.run([sys.executable, EMBED, *files, *inputs], capture_output=True, text=True)


def test_an_include_stands_for_the_text_of_the_piece(folder):
    done = embed(folder)
    assert done.returncode == 0, done.stderr
    table = (folder / "scripts.c").read_text()
    (title, size, sha1), = re.findall(r'\{"(\w+)", (\d+), "([0-9a-f]{40})"', table)
    lines = re.findall(r'^\t"(.*)\\n"', table, re.MULTILINE)
    assert "".join(line + "\n" for line in lines) == SENT
    assert (title, int(size)) == ("noun_verb", len(SENT))
    assert sha1 == hashlib.sha1(SENT.encode()).hexdigest(), "of what is sent"
    assert "NOUN_VERB" in (folder / "scripts.h").read_text()
    assert "PROLOGUE" not in (folder / "scripts.h").read_text(), "a piece is no script"


def test_an_include_may_be_the_first_line(folder):
    done = embed(folder, "-- A script.\n--include \"time.lua\" gives now\nreturn now\n")
    assert done.returncode == 0, done.stderr
    assert "redis.call('TIME')" in (folder / "scripts.c").read_text()


INCLUDE = '--include "prologue.lua" gives now'
WRONG = {
    "unknown file": (
        SCRIPT.replace("prologue.lua", "prolog.lua"), {},
        'verb.lua:5: no piece is called "prolog.lua"; there are late.lua, prologue.lua, time.lua'),
    "another form": (
        SCRIPT.replace(INCLUDE, "-- include prologue.lua"), {},
        "verb.lua:5: an include has the form"),
    "words behind it": (
        SCRIPT.replace(INCLUDE, INCLUDE + " and more"), {}, "verb.lua:5: an include has the form"),
    "a piece of itself": (
        SCRIPT, {"late": LATE + '--include "late.lua"\n'},
        "late.lua:7: a circle of includes: verb.lua > prologue.lua > late.lua > late.lua"),
    "a longer circle": (
        SCRIPT, {"late": LATE + '--include "prologue.lua" gives now\n'},
        "late.lua:7: a circle of includes: verb.lua > prologue.lua > late.lua > prologue.lua"),
    "not all that it gives is named": (
        SCRIPT.replace(INCLUDE, '--include "prologue.lua"'), {},
        "verb.lua:5: prologue.lua gives now, not nothing"),
    "more is named than it gives": (
        SCRIPT.replace(INCLUDE, INCLUDE + ", then"), {},
        "verb.lua:5: prologue.lua gives now, not now, then"),
    "it gives what it does not declare": (
        SCRIPT, {"time": TIME.replace("local now", "local later")},
        "prologue.lua:3: time.lua does not declare now, which it gives"),
    "it needs what is not there": (
        SCRIPT.replace("local deadline", "local limit"), {},
        "verb.lua:5: prologue.lua needs deadline, which nothing declares before"),
    "it needs what comes later": (
        SCRIPT.replace(INCLUDE, "") .replace("local deadline", INCLUDE + "\nlocal deadline"), {},
        "verb.lua:4: prologue.lua needs deadline, which nothing declares before"),
    "the script declares the name as well": (
        SCRIPT.replace("return", "local now = 1\nreturn"), {},
        "verb.lua:6: declares now, as time.lua does"),
    "the name of a local function clashes": (
        SCRIPT.replace("return", "local function time()\nend\nreturn"), {},
        "verb.lua:6: declares time, as time.lua does"),
    "two pieces declare one name": (
        SCRIPT, {"late": LATE + "local time = 1\n"}, "late.lua:7: declares time, as time.lua does"),
    "twice": (
        SCRIPT.replace("return", '--include "time.lua" gives now\nreturn'), {},
        "time.lua:4: is included twice: it declares time"),
    "an argument that only the piece uses is not documented": (
        SCRIPT, {"late": LATE.replace("false", "ARGV[2]")},
        "verb.lua: ARGV documented [1], used [1, 2]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_include_fails_the_build(folder, case):
    script, pieces, says = WRONG[case]
    done = embed(folder, script, **pieces)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "scripts.c").exists()


@pytest.mark.parametrize(("script", "called"), [(CALL, CALLED), (EACH, EACH_CALLED)])
def test_a_documented_call_becomes_a_function(folder, script, called):
    done = embed(folder, script)
    assert done.returncode == 0, done.stderr
    assert called in (folder / "calls.inc").read_text()
    assert called.partition("\n")[0] + ";" in (folder / "calls.h").read_text()


UNFIT = {
    "one that is left out": (
        CALL.replace("--   ARGV[2]  deadline\n", "").replace("ARGV[2], ", ""),
        "verb.lua:7: ARGV[2] should stand here"),
    "one that is not read is used": (
        CALL.replace("ARGV[2], ", "ARGV[2], ARGV[3], "),
        "ARGV documented [1, 2, 4, 5, 6], used [1, 2, 3, 4, 5, 6]"),
    "one of several that is not used": (
        CALL.replace(", ARGV[5]", ""), "ARGV documented [1, 2, 4, 5, 6], used [1, 2, 4, 6]"),
    "no name": (CALL.replace("field: of", "Of"), "verb.lua:5: a word is documented as NAME: …"),
    "nobody knows it": (
        CALL.replace("wanted, from", "target, from"),
        "verb.lua:5: field: neither a function writes that word"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_wrong_word_fails_the_build(folder, case):
    script, says = UNFIT[case]
    done = embed(folder, script)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
