"""docs/choosing.svg: which lock to take, as a ladder of questions."""
from __future__ import annotations

import html
from typing import NamedTuple

WIDTH, TOP, STEP, BOX = 860, 24, 104, 72
LEFT, QUESTION, RIGHT, ANSWER = 20, 400, 510, 330  # where a column begins, how wide it is
LINE = 17
STYLE = """
  rect { stroke: #57606a; stroke-width: 1.2 }
  .question { fill: #f6f8fa } .answer { fill: #ddf4ff } .page { fill: #ffffff; stroke: none }
  text { font: 14px sans-serif; fill: #1f2328; text-anchor: middle }
  .lock { font-weight: bold } .word { font-size: 12px; fill: #57606a }
  path { stroke: #57606a; stroke-width: 1.4; fill: none }
"""


class Rung(NamedTuple):
    question: list[str]
    lock: str  # if yes
    more: str


LADDER = [
    Rung(["Do all who take it run on one host?"],
         "flock(2)", "the kernel frees it; no server"),
    Rung(["Does it guard rows of one PostgreSQL,", "for one transaction at a time?"],
         "SELECT … FOR UPDATE", "or pg_advisory_xact_lock()"),
    Rung(["Do you run etcd or ZooKeeper already,", "and may a change take a write to its disk?"],
         "etcd's mutex, or Curator's", "its revision is a fence token"),
    Rung(["Is there a Redis or Valkey, or may there be?",
          "Can you bear a second owner if it fails,",
          "or does the storage refuse stale tokens?"],
         "Lockkeeper, one server", "lockkeeper run --fence where it does"),
    Rung(["May there be three of them,", "on machines of their own?"],
         "Lockkeeper, a quorum", "a minority of them may fail"),
    Rung(["Is there a PostgreSQL or a MariaDB,", "without a pool in transaction mode?"],
         "pg_advisory_lock(), GET_LOCK()", "look at the connection before each write"),
]
LAST = ("Then set one of these up first. A unique row,",
        "a document or SETNX by hand is no lock: see below.")


def text(x: float, y: float, words: str, kind: str = "") -> str:
    made = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{made}>{html.escape(words)}</text>'


def box(x: int, y: int, width: int, kind: str, lines: list[tuple[str, str]]) -> list[str]:
    """Its lines are in the middle of it."""
    first = y + BOX / 2 - LINE * (len(lines) - 1) / 2 + 5
    return [f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="6" class="{kind}"/>',
            *(text(x + width / 2, first + LINE * at, words, of)
              for at, (words, of) in enumerate(lines))]


def arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    return f'<path d="M{start[0]} {start[1]} L{end[0]} {end[1]}" marker-end="url(#head)"/>'


def picture() -> str:
    height = TOP + STEP * (len(LADDER) + 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             "<title>Which lock to choose</title>", f"<style>{STYLE}</style>",
             '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
             'markerHeight="8" orient="auto"><path d="M0 0 L7 4 L0 8"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{height}" class="page"/>']
    middle = LEFT + QUESTION // 2
    for at, rung in enumerate(LADDER):
        y = TOP + at * STEP
        parts += box(LEFT, y, QUESTION, "question", [(line, "") for line in rung.question])
        parts += [arrow((LEFT + QUESTION, y + BOX // 2), (RIGHT, y + BOX // 2)),
                  text((LEFT + QUESTION + RIGHT) / 2, y + BOX / 2 - 7, "yes", "word")]
        parts += box(RIGHT, y, ANSWER, "answer", [(rung.lock, "lock"), (rung.more, "")])
        parts += [arrow((middle, y + BOX), (middle, y + STEP)),
                  text(middle + 16, y + BOX + 20, "no", "word")]
    parts += box(LEFT, TOP + len(LADDER) * STEP, QUESTION, "question",
                 [(LAST[0], ""), (LAST[1], "")])
    return "\n".join(parts) + "\n</svg>\n"
