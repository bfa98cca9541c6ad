"""Names of requests, as they are on the wire: the scripts come from what the build has embedded."""
from __future__ import annotations

import re

from keeper import BUILD

EMBEDDED = re.compile(r'^\t\[LK__SCRIPT_\w+\] = \{"(\w+)", \d+, "([0-9a-f]{40})"', re.MULTILINE)


def embedded() -> list[tuple[str, str, str]]:
    """Name, SHA-1 and text of every script in the library."""
    table = (BUILD / "src" / "scripts.c").read_text()
    found = list(EMBEDDED.finditer(table))
    assert len(found) == table.count("LK__DURABLE_"), "the table has another form"
    ends = [match.start() for match in found[1:]] + [len(table)]
    return [(*match.groups(), table[match.end():end]) for match, end in zip(found, ends)]


SCRIPTS = {sha: name for name, sha, _ in embedded()}
CAN_BE_LATE = {name for name, _, text in embedded() if "LATE" in text}


def name_of(argv: list[bytes]) -> str:
    """The script, with the word that says what it shall do if it begins with one; or the verb."""
    verb = argv[0].decode("latin-1").lower()
    if verb != "evalsha" or len(argv) < 4:
        return " ".join([verb, *(a.decode("latin-1").lower() for a in argv[1:2]
                                 if verb in ("script", "client"))])
    script = SCRIPTS.get(argv[1].decode("latin-1"), "unknown script")
    arguments = argv[3 + int(argv[2]):]
    word = arguments[0].decode("latin-1") if arguments else ""
    return f"{script}:{word}" if re.fullmatch(r"[a-z]{3,8}", word) else script


def script_of(name: str) -> str:
    return name.partition(":")[0]
