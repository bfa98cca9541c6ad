"""The other libraries, as programs: fetched with pinned versions, built, kept in a cache folder.

A peer is built once for each content of its folder (source, versions, locks of versions), under
$XDG_CACHE_HOME/lockkeeper-interop. What cannot be had raises Unavailable with the reason: the tests
that need it fail with that, they are not skipped.
"""
from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "lockkeeper-interop"
LIMIT_S = 240  # for one step of one peer
# A JVM that starts soon and stays small.
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")


class Unavailable(Exception):
    """A peer cannot be had here, and why."""


def boottime_offset_ns() -> int:
    """What to add to CLOCK_MONOTONIC, the only fine clock of a JVM and of Node."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def run(folder: pathlib.Path, *argv: object) -> None:
    """One step; Unavailable with the last that it printed when it failed."""
    words = [str(word) for word in argv]
    if not shutil.which(words[0]):
        raise Unavailable(f"there is no {words[0]} (make packages-interop)")
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
                              text=True)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(words)}: not done within {LIMIT_S} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}: {done.stdout[-2000:]}")


def digest(sources: list[pathlib.Path]) -> str:
    made = hashlib.sha256()
    for path in sorted(path for path in sources if path.is_file()):
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def built(name: str, build, also: tuple[str, ...] = ()) -> pathlib.Path:
    """The folder of a built peer: build(folder) fills a copy of the source where there is none.
    `also`: files of another peer that it needs too."""
    source = HERE / name
    shared = [HERE / path for path in also]
    place = CACHE / f"{name}-{digest([*source.iterdir(), *shared])}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = CACHE / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(source, unfinished)
            for path in shared:
                shutil.copy(path, unfinished)
            build(unfinished)
            unfinished.rename(place)
    return place


def build_java(folder: pathlib.Path) -> None:
    run(folder, "mvn", "-q", "-B", "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}/jars")
    run(folder, "javac", "-d", "classes", "-cp", "jars/*", *sorted(folder.glob("*.java")))


def jvm(folder: pathlib.Path) -> tuple[str, ...]:
    return (*JAVA, f"-Dboottime.offset.ns={boottime_offset_ns()}", "-cp",
            f"{folder}/classes:{folder}/jars/*", "Peer")


@functools.cache
def redisson() -> tuple[str, ...]:
    return jvm(built("redisson", build_java))


@functools.cache
def spring() -> tuple[str, ...]:
    return jvm(built("spring", build_java, also=[f"redisson/{name}.java"
                                                for name in ("Command", "Answer", "Workers")]))


def go_module() -> str:
    """Debian 12 has Go 1.19, which can neither build the newest redsync nor fetch a newer Go."""
    version = subprocess.getoutput("go env GOVERSION")
    minor = re.match(r"go1\.(\d+)", version)
    return "go1.19.mod" if minor and int(minor[1]) < 21 else "go.mod"


def build_redsync(folder: pathlib.Path) -> None:
    run(folder, "go", "build", "-mod=readonly", f"-modfile={go_module()}", "-o", "peer", ".")


@functools.cache
def redsync() -> tuple[str, ...]:
    return (str(built("redsync", build_redsync) / "peer"),)


def build_redlock(folder: pathlib.Path) -> None:
    run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


@functools.cache
def redlock() -> tuple[str, ...]:
    folder = built("redlock", build_redlock)
    return ("node", str(folder / "peer.mjs"), str(boottime_offset_ns()))


def build_redis_py(folder: pathlib.Path) -> None:
    run(folder, sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "packages",
        "-r", "requirements.txt")


@functools.cache
def redis_py() -> tuple[str, ...]:
    return (sys.executable, str(built("redis_py", build_redis_py) / "peer.py"))


def build_beside(folder: pathlib.Path) -> None:
    for place, versions in (("packages", "requirements.txt"),
                            ("packages-alone", "requirements-alone.txt")):
        run(folder, sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place,
            "-r", versions)


@functools.cache
def beside(library: str) -> tuple[str, ...]:
    return (sys.executable, str(built("beside", build_beside) / "peer.py"), library)
