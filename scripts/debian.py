#!/usr/bin/env python3
"""Makes the bare root of a Debian release, and shows there that the README's commands work.

usage: debian.py [--release trixie] [--cache DIR] [--build DIR] [--thin | --check]

--thin, which is the default: `make` with warnings as errors, `make demo`, and the C suites that are
fast; a few minutes. --check: all of `make check` as well. --cache keeps the bare root and the
packages for the next run; without it nothing stays but the logs in DIR of --build.

The root has Debian's required packages and `make`. What else it takes, the Makefile installs from
the mirror that this machine uses. It has what is committed, of HEAD. Needs root, and mmdebstrap or
debootstrap (`scripts/install_packages.sh debian`). Each step has a limit. What is mounted is seen
by the step alone, and vanishes with it, as do all its processes.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import check
import servers
import tally as runners
from tally import ROOT, Tally, say

RELEASE = "trixie"
TREE = "/root/lockkeeper"  # where the sources are in the root
ARCHIVES = "var/cache/apt/archives"
# How apt reaches the mirror from here.
APT = ("Acquire::http", "Acquire::Check-", "Acquire::Retries", "Acquire::Languages")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")

# In its own namespaces: the root's folder, the cache of packages or "", then what to do there.
INSIDE = """set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
[ -z "$2" ] || mount --bind "$2" "$1/%s"
exec chroot "$1" sh -c "cd %s && $3"
""" % (ARCHIVES, TREE)

# Name, what is run in the root's copy of the tree, its limit in seconds.
STEPS = [
    ("packages", "sh scripts/install_packages.sh build run", 300),
    ("setup", "meson setup --werror build", 60),
    ("make", "make", 400),
    ("static", "make static && build/lockkeeper-static --version", 60),
    ("demo", "make demo", 120),
]
THIN = [
    ("unit", "meson test -C build --suite unit", 300),
    ("api", "meson test -C build api-lock api-fair_lock api-queue api-close api-unload", 300),
]
CHECK = [("check", "make check", 5400)]


def bootstrap(release: str, root: pathlib.Path, options: pathlib.Path) -> list[str]:
    """The command that makes the root."""
    words = ["--variant=minbase", "--include=make"]
    if runners.have("mmdebstrap"):
        return ["mmdebstrap", *words, f"--aptopt={options}", release, str(root), servers.mirror()]
    return ["debootstrap", *words, f"--keyring={servers.KEYRING}", release, str(root),
            servers.mirror()]


def apt_options() -> str:
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    return "".join(f"{line}\n" for line in dump.splitlines() if line.startswith(APT))


def made(tally: Tally, release: str, root: pathlib.Path, cache: pathlib.Path | None) -> bool:
    """The bare root: from the cache, or made and left there."""
    kept = cache / f"{release}.tar" if cache else None
    if kept and kept.exists():
        return runners.command(tally, "root", ["tar", "-C", str(root), "-xf", str(kept)], 60)
    options = root.parent / "apt.conf"
    options.write_text(apt_options())
    if not runners.command(tally, "root", bootstrap(release, root, options), 300):
        return False
    for source, target in ((options, "etc/apt/apt.conf.d/90machine"),
                           (pathlib.Path("/etc/resolv.conf"), "etc/resolv.conf"),
                           (pathlib.Path("/etc/hosts"), "etc/hosts")):
        shutil.copyfile(source, root / target)
    # Nobody needs what is in there after a power cut.
    (root / "etc/dpkg/dpkg.cfg.d/90fast").write_text("force-unsafe-io\n")
    if kept:
        making = kept.with_suffix(".making")
        subprocess.run(["tar", "-C", root, "-cf", making, "."], check=True, timeout=60)
        making.rename(kept)
    return True


def copy_tree(root: pathlib.Path) -> None:
    """What is committed."""
    place = root / TREE.lstrip("/")
    place.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True,
                             capture_output=True, timeout=60).stdout
    subprocess.run(["tar", "-C", place, "-x"], input=archive, check=True, timeout=60)


def inside(root: pathlib.Path, cache: pathlib.Path | None, words: str) -> list[str]:
    """The command that does so in the root, with none of our environment but the proxies."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                   **{name: value for name, value in os.environ.items()
                      if name.lower() in PROXIES}}
    return ["env", "-i", *(f"{name}={value}" for name, value in environment.items()),
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh",
            str(root), str(cache) if cache else "", words]


@contextlib.contextmanager
def folder_for_root() -> Iterator[pathlib.Path]:
    folder = tempfile.mkdtemp(prefix="lk-debian-")
    root = pathlib.Path(folder) / "root"
    root.mkdir()
    try:
        yield root
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True, timeout=120)


def steps(tally: Tally, release: str, cache: pathlib.Path | None, thin: bool) -> None:
    """One after the other; each needs the one before."""
    archives = cache / f"{release}-packages" if cache else None
    if archives:
        (archives / "partial").mkdir(parents=True, exist_ok=True)
    with folder_for_root() as root:
        if not made(tally, release, root, cache):
            return
        copy_tree(root)
        for name, words, limit_s in [*STEPS, *(THIN if thin else CHECK)]:
            if not runners.command(tally, name, inside(root, archives, words), limit_s):
                return


def tried(tally: Tally, release: str = RELEASE, thin: bool = True,
          cache: pathlib.Path | None = None) -> None:
    """Adds a case for each step. Where there can be no such root, that one is skipped."""
    say(f"Debian {release}: {'thin' if thin else 'make check'}")
    able = runners.have("mmdebstrap") or runners.have("debootstrap")
    if os.geteuid() != 0 or not able:
        say("  skipped: it takes root, and mmdebstrap or debootstrap")
        tally.add(f"Debian {release}", 0, 0, 1)
        return
    own = Tally(tally.logs / release)
    steps(own, release, cache, thin)
    tally.add_all(own, release)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--thin", action="store_true", help="the default")
    kind.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    begun = time.monotonic()
    tally = Tally(arguments.build.resolve() / "logs" / "debian")
    cache = arguments.cache.resolve() if arguments.cache else None
    tried(tally, arguments.release, not arguments.check, cache)
    return check.conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
