"""docs/choosing.md: which lock to choose, from what bench/beside/ measured and asked.

A sentence that tells what happens is made from its row, and names what it relies on: if the row
says something else after another run, the page cannot be made until somebody has looked at the
sentence.
"""
from __future__ import annotations

import json
import pathlib
import re
import textwrap

import choosing_words
from tree import ROOT

RESULTS = "bench/results/beside.json"
FAULTS = "bench/results/beside-faults.json"
SCRIPTS = "bench/beside/faults"

HEAD = """# Which lock to choose

Made from `bench/results/beside.json` and `bench/results/beside-faults.json` by `make docs`; do not
edit.

**Read this first.** No lock on this page stops a write. Who was stopped for longer than a lease or
session (a pause, a suspended machine) goes on with what it was about to write; its library tells it
at once at best, and consensus does not change that (column *stopped*). Only the storage can refuse
a write, by a fence token or because lock and data are in one transaction. And these are
experiments, each with one server, on one machine, over the loopback: no cluster of etcd, ZooKeeper
or databases was tried. Each script gives up after {patience} s.

## The decision

![Which lock to choose: a ladder of questions](choosing.svg)

You have **a PostgreSQL and a Redis**? Then it is one question: what does the lock guard?

- *Rows of that PostgreSQL, for one transaction*: take `SELECT … FOR UPDATE` on the row, or
  `pg_advisory_xact_lock()` where there is none. Lock and data succeed or fail together, which no
  lock elsewhere can do.
- *Anything else* (a job, a file, another service, work that is longer than a transaction): take
  Lockkeeper on the Redis. A waiter costs no connection, and who loses the lock is told.
- *Anything else, and two at once do lasting harm*: the same, with a fence token that the PostgreSQL
  checks (`lockkeeper run --fence`; `UPDATE … WHERE fence <= $1`), or a quorum of three servers.

That is all it takes:

    BEGIN; SELECT * FROM orders WHERE id = 7 FOR UPDATE; UPDATE orders …; COMMIT;
    LOCKKEEPER_URL=redis://localhost lockkeeper run report -- ./report.sh

"""

NAMED = {  # a question of faults/: its column, and what else there is to know
    "killed_holder": ("killed", "The holder is killed."),
    "vanished_host": ("host vanishes", "Its connection stays open for the server, as behind a "
                      "cable that was pulled. A database keeps it until TCP gives up."),
    "stopped_holder": ("stopped", "The holder is stopped for longer than its lease or session, and "
                       "goes on. *kept*: all have to wait for it."),
    "cut_connection": ("connection cut", "It comes back after 3 s; the holder works on for 12 s."),
    "killed_server": ("server killed", "It starts again with what it has on disk; the holder works "
                      "on for 12 s."),
    "open_transaction": ("forgotten", "The holder lives, and does not give the lock back. Set a "
                         "limit: `max_hold_ms` of ours, `idle_in_transaction_session_timeout` of "
                         "PostgreSQL."),
    "pool": ("pool", "PgBouncer in transaction mode is in between."),
    "reentry": ("taken twice", "Whether the holder may take it again, and each release counts."),
}
SHORT = {"enters, and its first release frees it": "its first release frees it"}
TOLD = ("stopped_holder", "cut_connection", "killed_server")

GUARANTEES = """## What happens when

Each column is an experiment, whose script is named below. One process holds the lock, a second one
waits for it; then comes the fault.

- A time: after so long the second had the lock, and the first no longer worked with it.
- *kept*: the first had it until it gave it back, and that was right.
- **two**: both worked with it, for so long (the second works for 8 s). Where a transaction has the
  lock, what the first one wrote in that database goes with it.
- **nobody**: the second had not got in when the script gave up.

"""

LEARNS = """
## What the first one learns

What its library tells it of its own accord, counted from the fault or from when it goes on, and
what its release then answers. *ok* where another had the lock meanwhile is a lie.

"""

HISTORIES = """
## The locks of articles

These four are in many articles, and none is to be used; `bench/beside/homemade.c` has them.
`bench/beside/faults/faulty.py` makes each fail. Their lease is 2 s.

"""


class Contradicted(Exception):
    """A sentence of this page that its row does not bear out."""


class Results:
    def __init__(self, root: pathlib.Path = ROOT):
        self.figures = json.loads((root / RESULTS).read_text())
        self.faults = json.loads((root / FAULTS).read_text())
        self.systems = self.faults["systems"]

    def answer(self, question: str, system: str) -> dict:
        return next((row for row in self.faults["rows"]
                     if (row["question"], row["system"]) == (question, system)), {})

    def figure(self, system: str, scene: str) -> dict:
        return next((row for row in self.figures["rows"]
                     if (row["system"], row.get("scene")) == (system, scene)), {})

    def without(self, system: str) -> str | None:
        """Why a system has no figures at all."""
        return next((row["skipped"] for row in self.figures["rows"]
                     if row["system"] == system and "scene" not in row), None)


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def wrapped(text: str, further: str = "") -> str:
    before = "\n" if text.startswith("\n") else ""
    return before + textwrap.fill(text.strip(), 100, subsequent_indent=further,
                                  break_long_words=False, break_on_hyphens=False) + "\n"


def seconds(value: float) -> str:
    if value < 0.05:
        return "at once"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


class Notes:
    """Reasons, each told once below its table."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"– ({self.texts.index(text) + 1})"

    def page(self) -> str:
        return "".join(f"\n({at}) {text[0].upper()}{text[1:]}.\n"
                       for at, text in enumerate(self.texts, 1))


def verdict(row: dict, notes: Notes) -> str:
    if why := row.get("unfit") or row.get("skipped"):
        return notes.mark(why if "unfit" in row else f"cannot be had: {why}")
    if row["verdict"] == "two owners":
        return f"**two**, {seconds(row['both_s'])}"
    if row["verdict"] == "nobody":
        return "kept" if row.get("first_learns") == "ok" else "**nobody**"
    if row["verdict"] != "one owner":
        return SHORT.get(row["verdict"], row["verdict"])
    kept = row.get("first_learns") == "ok" or set(row.get("releases_say", ())) == {"ok"}
    return "kept" if kept else seconds(row["after_s"])


def guarantees(results: Results) -> str:
    notes = Notes()
    text = line("", *(word for word, _ in NAMED.values())) + "|---|" + "---|" * len(NAMED) + "\n"
    for key, title in results.systems.items():
        text += line(title, *(verdict(results.answer(name, key), notes) for name in NAMED))
    columns = "".join(wrapped(f"- *{word}*, `{SCRIPTS}/{name}.py`: {more}", "  ")
                      for name, (word, more) in NAMED.items())
    return f"{GUARANTEES}{text}{notes.page()}\n{columns}"


def told(row: dict) -> str:
    """What was told before the fault, with a time below 0, says nothing of it."""
    if "first_learns" not in row:
        return "–"
    words = ", ".join(word.replace("-0.00", "0.00") for word in row["first_is_told"]
                      if not re.search(r"-(?!0\.00)", word)) or "nothing"
    return f"{words}; release: {row['first_learns']}".replace("|", "\\|")


def learns(results: Results) -> str:
    text = line("", *(NAMED[name][0] for name in TOLD))
    text += "|---|" + "---|" * len(TOLD) + "\n"
    for key, title in results.systems.items():
        rows = [results.answer(name, key) for name in TOLD]
        if any("first_learns" in row for row in rows):
            text += line(title, *map(told, rows))
    return LEARNS + text


def histories(results: Results) -> str:
    text = ""
    for row in results.faults["rows"]:
        if "history" in row:
            both = f", for {seconds(row['both_s'])}" if row.get("both_s") else ""
            text += f"**{results.systems[row['system']]}**: {row['verdict']}{both}.\n\n"
            text += "".join(f"    {step}\n" for step in row["history"]) + "\n"
    return HISTORIES + text.rstrip("\n") + "\n"


FIGURES = """
## What it costs

{runs}

*Pair*: an acquire and a release by one thread, median. *8*, *64*: pairs a second of so many
threads, each on a name of its own. *Hot*: grants a second of 8 processes on one name, and the
fewest and most that one of them had: the more these differ, the less fair. *Hand-over*: from a
release to the grant of a process that waited, median. *Held*: 1,000 names; *waiting*: 1,000 threads
of one process for one name; the memory that takes, client + server, and the server's CPU. As
installed, Redis forces no change to disk before it answers; with `appendfsync always` it does, and
so do the others, but for locks that a session, a transaction or the kernel has: those are in memory
alone.

"""


def count(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def hot(row: dict) -> str:
    if "grants_s" not in row:
        return "–"
    two = f", **two owners {row['two_owners']} ×**" if row["two_owners"] else ""
    return f"{count(row['grants_s'])}, {row['fewest']:,}–{row['most']:,}{two}"


def load(row: dict, notes: Notes) -> str:
    if "server_cpu_ms_s" not in row:
        return notes.mark(row["skipped"]) if "skipped" in row else "–"
    memory = f"{count(max(row['client_mib'], 0))} + {count(max(row['server_mib'], 0))} MiB"
    return f"{memory}, {count(max(row['server_cpu_ms_s'], 0))} ms/s"


def others(results: Results) -> str:
    """What other programs took meanwhile."""
    busy = [row["others_cores"] for row in results.figures["rows"]
            if "others_cores" in row and "skipped" not in row]
    return (f"Other programs kept {max(busy):.2g} cores busy in the worst row, "
            f"{sorted(busy)[len(busy) // 2]:.2g} in the middle one.") if busy else ""


def run_told(run: dict, titles: dict[str, str]) -> str:
    about, keys = run["machine"], run["systems"]
    which = "All" if set(keys) == set(titles) else ", ".join(titles[key] for key in keys)
    redis = run["versions"]["redis"].split(" sha=")[0]
    quick = "**a quick run, which only shows that all of it works**; " if run["quick"] else ""
    return (f"{which}: {quick}`{run['command']}` of {run['date']}, {run['seconds'] / 60:.0f} "
            f"minutes, of which each *held* and *waiting* is {run['held_s']} s; {about['cpu']}, "
            f"{about['cores']} cores, {about['system']} {about['kernel']}; {redis}.")


def figures(results: Results) -> str:
    notes = Notes()
    text = line("", "pair, µs", "8, pairs/s", "64, pairs/s", "hot, grants/s", "hand-over, µs",
                "held", "waiting")
    text += "|---|--:|--:|--:|--:|--:|--:|--:|\n"
    for key, title in results.systems.items():
        if why := results.without(key):
            text += line(title, *[notes.mark(f"cannot be had: {why}")] * 7)
            continue
        row = {scene: results.figure(key, scene) for scene in (
            "alone", "apart-8", "apart-64", "hot", "handover", "held", "waiting")}
        text += line(title, count(row["alone"].get("p50_us")), count(row["apart-8"].get("pairs_s")),
                     count(row["apart-64"].get("pairs_s")), hot(row["hot"]),
                     count(row["handover"].get("p50_us")), load(row["held"], notes),
                     load(row["waiting"], notes))
    runs = [run_told(run, results.systems) for run in results.figures["runs"]]
    about = "\n".join(map(wrapped, [*runs, others(results)])).strip()
    return FIGURES.format(runs=about) + text + notes.page()


def shown(sentence: choosing_words.Shown, results: Results) -> str:
    """The sentence, with its script if one shows it. Nothing, if that system could not be had: the
    tables say why."""
    asked, system = sentence.asked, sentence.system
    row = results.answer(asked, system) or results.figure(system, asked)
    if not row or "skipped" in row:
        return ""
    told = {key: row.get(key, "no such answer") for key in sentence.expected}
    if told != sentence.expected:
        raise Contradicted(f"docs/choosing.md: {sentence.text!r} wants {sentence.expected} of "
                           f"{asked}, {system}; there is {row}")
    text = sentence.text.format(**row)
    return f"{text[:-1]} (`{asked}.py`)." if asked in NAMED else text


def advice(results: Results) -> str:
    text = "\n## When to take what\n"
    for title, words in choosing_words.ADVICE:
        told = (word if isinstance(word, str) else shown(word, results) for word in words)
        text += wrapped(f"\n**{title}.** {' '.join(filter(None, told))}")
    return text


MEASURED = """
## How it was measured

`make bench-beside` measures the figures and asks the questions, and installs what that needs;
`make docs` then makes this page. The programs are in `bench/beside/`, and surprises of other
software in `findings/`. MongoDB is not in Debian: its findAndModify was asked of FerretDB, on
PostgreSQL.

"""


def measured(faults: dict) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in faults["servers"].items())
    return MEASURED + wrapped(f"The questions took {faults['seconds'] / 60:.0f} minutes on "
                              f"{faults['date']}. Versions: {versions}.")


def page(results: Results | None = None) -> str:
    results = results or Results()
    return (HEAD.format(patience=f"{results.faults['patience_s']:.0f}") + guarantees(results)
            + learns(results) + histories(results) + advice(results) + figures(results)
            + choosing_words.ABILITIES + choosing_words.MOVING + measured(results.faults))
