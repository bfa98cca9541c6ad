#!/usr/bin/env python3
"""The Lua scripts, with what they include: valid for Lua 5.1, clean for luacheck, known to a server
by our SHA-1; and each key that they touch is one of KEYS, as some servers demand. A script that
cannot keep to that says so in its leading comment: "-- Keys beside KEYS: …".

usage: check_scripts.py BUILD
"""
from __future__ import annotations

import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import lua_scripts
from tree import files, finish, name

SERVER_START_S = 10
CALL = re.compile(r"redis\.p?call\('(\w+)'(?:, ([^,()]*))?")
LATER = re.compile(r"\{'([A-Z]+)', ([^,()]*)")  # a command that is called with unpack()
DELETE = re.compile(r"redis\.p?call\('DEL', ([^()]*)\)")
KEYLESS = {"TIME", "PUBLISH", "PUBSUB"}
DECLARED = re.compile(r"KEYS\[[^]]+\]")
BESIDE = "-- Keys beside KEYS: "


def lint(path: pathlib.Path, lines: list[lua_scripts.Line]) -> list[str]:
    """What the tools say of the expanded text, at the places where it was written."""
    commands = [["luac5.1", "-p", "-"]]
    if shutil.which("luacheck"):
        commands.append(["luacheck", "-q", "--no-color", "--std", "lua51",
                         "--read-globals", "redis", "cjson", "struct",
                         "--globals", "KEYS", "ARGV", "--max-line-length", "100", "-"])
    text = "".join(line.text + "\n" for line in lines)
    problems = []
    for command in commands:
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode:
            said = re.sub(r"stdin:(\d+)", lambda match: place(lines, int(match[1])),
                          done.stdout + done.stderr)
            problems.append(f"{name(path)}: {command[0]}:\n{said}")
    return problems


def keys_bound(text: str) -> set[str]:
    """The names that stand for one of KEYS."""
    found = set(re.findall(r"for \w+, (\w+) in ipairs\(KEYS\)", text))
    for names, values in re.findall(r"local ([\w, ]+) = (.+)", text):
        found |= {each for each, value in zip(names.split(", "), values.split(", "))
                  if DECLARED.fullmatch(value)}
    return found


def undeclared(path: pathlib.Path, lines: list[lua_scripts.Line]) -> list[str]:
    """Commands on a key that is not one of KEYS."""
    text = "\n".join(line.text for line in lines if not line.is_comment())
    bound, problems = keys_bound(text), []
    calls = [call for call in CALL.findall(text) if call[0] not in KEYLESS]
    calls += LATER.findall(text)
    calls += [("DEL", key) for keys in DELETE.findall(text) for key in keys.split(", ")]
    if len(re.findall(r"redis\.p?call\((?!unpack\()", text)) != len(CALL.findall(text)):
        problems.append(f"{name(path)}: has a command that is not a literal")
    for verb, key in calls:
        if not all(part in bound or DECLARED.fullmatch(part) for part in key.split(" or ")):
            problems.append(f"{name(path)}: {verb} on {key}, which is none of KEYS")
    if any(line.text.startswith(BESIDE) for line in lines):
        return [] if problems else [f"{name(path)}: has no keys beside KEYS"]
    return problems


def place(lines: list[lua_scripts.Line], number: int) -> str:
    line = lines[min(number, len(lines)) - 1]
    return f"{name(line.path)}:{line.number}"


def expanded(sources: list[pathlib.Path], problems: list[str]) -> list[str]:
    """Lints each script; their names, as embedded. Each piece must be included somewhere."""
    pieces = lua_scripts.pieces_of(sources)
    used, names = set(), []
    for path in sources:
        if lua_scripts.is_piece(path):
            continue
        names.append(f"{path.parent.name}_{path.stem}")
        try:
            lines = lua_scripts.expand(path, pieces)
        except lua_scripts.ScriptError as error:
            problems.append(str(error))
            continue
        used |= {line.path.name for line in lines}
        problems += lint(path, lines) + undeclared(path, lines)
    problems += [f"{name(path)}: no script includes it" for title, path in pieces.items()
                 if title not in used]
    return names


def embedded(build: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Name → SHA-1 and text, as the C table has them."""
    table = (build / "src/scripts.c").read_text()
    rows = re.findall(r'\{"(\w+)", (\d+), "([0-9a-f]{40})", \w+,\n((?:\t".*"\n?)+)\}', table)
    scripts = {}
    for title, size, sha1, lines in rows:
        text = "".join(re.findall(r'^\t"(.*)"$', lines, re.MULTILINE))
        text = re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)
        assert len(text.encode()) == int(size), title
        scripts[title] = (sha1, text)
    return scripts


def script_load(path: pathlib.Path, text: str) -> str:
    """What the server answers: the SHA-1, or its error."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        body = text.encode()
        link.sendall(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n" % (len(body), body))
        answer = link.makefile("r")
        first = answer.readline().strip()
        return answer.readline().strip() if first.startswith("$") else first


def listens(path: pathlib.Path) -> bool:
    """The socket's file is there a moment before anybody listens on it."""
    with socket.socket(socket.AF_UNIX) as link:
        return path.exists() and link.connect_ex(str(path)) == 0


def loaded(scripts: dict[str, tuple[str, str]]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        path = pathlib.Path(folder) / "socket"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(path),
                                   "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + SERVER_START_S
            while not listens(path):
                if time.monotonic() > end or server.poll() is not None:
                    return ["redis-server does not start"]
                time.sleep(0.01)
            return [f"{title}: the server's SHA-1 is {answer}, ours {sha1}"
                    for title, (sha1, text) in scripts.items()
                    if (answer := script_load(path, text)) != sha1]
        finally:
            server.kill()
            server.wait()


def main() -> None:
    sources = files(".lua", under=("src",))
    problems: list[str] = []
    wanted = sorted(expanded(sources, problems))
    scripts = embedded(pathlib.Path(sys.argv[1]))
    if sorted(scripts) != wanted:
        problems.append(f"embedded: {sorted(scripts)}; in src/: {wanted}")
    problems += loaded(scripts)
    finish(problems, f"{len(scripts)} scripts")


main()
