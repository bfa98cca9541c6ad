#!/usr/bin/env python3
"""One door to the outside: src/base/door.c alone calls the system for time, waiting and sockets."""
from __future__ import annotations

import re

from tree import ROOT, files, finish, name

DOOR = ROOT / "src" / "base" / "door.c"
CALLS = [
    r"clock_gettime", r"clock_nanosleep", r"gettimeofday", r"time",
    r"nanosleep", r"usleep", r"sleep", r"poll", r"ppoll", r"select", r"pselect",
    r"epoll_\w+", r"eventfd\w*", r"timerfd_\w+",
    r"syscall", r"futex\w*", r"getrandom", r"getentropy", r"rand", r"random",
    r"pthread_create", r"pthread_join", r"pthread_detach", r"pthread_key_\w+",
    r"pthread_(?:get|set)specific", r"pthread_cond_\w+", r"sem_\w+", r"sched_getaffinity",
    r"socket", r"socketpair", r"connect", r"accept4?", r"bind", r"listen", r"shutdown",
    r"recv\w*", r"send\w*", r"getsockopt", r"setsockopt",
    r"getaddrinfo", r"freeaddrinfo", r"getnameinfo", r"gethostbyname\w*",
]
# A call, not a member of that name, and not a longer name that ends so.
CALL = re.compile(r"(?<![\w.>])(" + "|".join(CALLS) + r")\s*\(")
UNREAD = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def blank(match: re.Match) -> str:
    """As many lines, and nothing in them."""
    return "\n" * match[0].count("\n")


def calls_of(text: str):
    code = UNREAD.sub(blank, text)
    for match in CALL.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, match[1]


def main() -> None:
    sources = [path for path in files(".c", ".h", under=("src",)) if path != DOOR]
    problems = [f"{name(path)}:{line}: {call}() is called past the door (src/base/door.h)"
                for path in sources for line, call in calls_of(path.read_text())]
    finish(problems, f"{len(sources)} files call the system through {name(DOOR)}")


main()
