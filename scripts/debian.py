#!/usr/bin/env python3
"""Makes the bare root of a Debian release, and shows there that the README's commands work.

usage: debian.py [--release trixie] [--cache DIR] [--build DIR] [--thin | --check]
                 [--user] [--container]

--thin, which is the default: `make` with warnings as errors, `make demo`, and the C suites that are
fast; a few minutes. --check: all of `make check` instead of these. --cache keeps the bare root and
the packages for the next run; without it nothing stays but the logs in DIR of --build.

Root does it all, unless --user is given: then an ordinary user does, and root only installs the
packages. --container takes away what a container usually lacks: the rights to mount and to make
namespaces, a /proc/sys that can be written, and IPv6.

The root has Debian's required packages and `make`. What else it takes, the script for packages
installs from the mirror that this machine uses. It has what is committed, of HEAD. Needs root, and
mmdebstrap or debootstrap (`scripts/install_packages.sh debian`). Each step has a limit. What is
mounted is seen by the step alone, and vanishes with it, as do all its processes. If a step fails,
the logs of its tests are copied to those of this machine.
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
from typing import NamedTuple

import check
import servers
import tally as runners
from tally import ROOT, Tally, say

USER = "developer"
ARCHIVES = "var/cache/apt/archives"
# How apt reaches the mirror from here.
APT = ("Acquire::http", "Acquire::Check-", "Acquire::Retries", "Acquire::Languages")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")

# In its own namespaces: the root's folder, the cache of packages or "", whether it is like a
# container or "", then what to run there.
INSIDE = f"""set -e
root=$1 cache=$2 container=$3
shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
[ -z "$cache" ] || mount --bind "$cache" "$root/{ARCHIVES}"
if [ -n "$container" ]; then
	ip link set lo up
	echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
	mount --bind -o ro "$root/proc/sys" "$root/proc/sys"
fi
exec /usr/sbin/chroot "$root" "$@"
"""
# The capabilities that the usual container engines leave to root.
KEPT = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
        "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap")

PACKAGES_LIMIT_S = 600
# Name, what is run in the root's copy of the tree, its limit in seconds.
STEPS = [
    ("setup", "meson setup --werror build", 60),
    ("make", "make", 400),
    ("static", "make static && build/lockkeeper-static --version", 60),
    ("demo", "make demo", 120),
]
THIN = [
    ("unit", "meson test -C build --suite unit", 300),
    ("api", "meson test -C build api-lock api-fair_lock api-queue api-close api-unload", 300),
]
CHECK_LIMIT_S = 5400


class Way(NamedTuple):
    """What is done in the root, and with whose rights."""
    check: bool
    user: bool
    container: bool
    slow: int = 1  # how many times longer its tests wait (LK_TEST_SLOW)
    level: str = "check"  # of `make check`

    @property
    def home(self) -> str:
        return f"/home/{USER}" if self.user else "/root"

    @property
    def tree(self) -> str:
        """Where the sources are in the root."""
        return f"{self.home}/lockkeeper"


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


def copy_tree(root: pathlib.Path, way: Way) -> None:
    """What is committed."""
    if way.user:
        subprocess.run(["chroot", root, "useradd", "--create-home", USER], check=True, timeout=60)
    place = root / way.tree.lstrip("/")
    place.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True,
                             capture_output=True, timeout=60).stdout
    subprocess.run(["tar", "-C", place, "-x"], input=archive, check=True, timeout=60)
    if way.user:
        subprocess.run(["chroot", root, "chown", "-R", f"{USER}:{USER}", way.tree], check=True,
                       timeout=60)


def rights(way: Way) -> list[str]:
    """The start of a command line that runs the rest with no more rights than that."""
    words: list[str] = []
    if way.container:
        words += ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{cap}" for cap in KEPT)])]
    if way.user:
        words += ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"]
    return words


def inside(root: pathlib.Path, way: Way, words: str) -> list[str]:
    """The command that does so in the root, with none of our environment."""
    path = "/usr/local/bin:/usr/bin:/bin" if way.user else "/usr/sbin:/usr/bin:/sbin:/bin"
    return ["env", "-i", f"PATH={path}", f"HOME={way.home}", "LC_ALL=C.UTF-8",
            *([f"LK_TEST_SLOW={way.slow}"] if way.slow > 1 else []),
            *entered(root, way.container, None), *rights(way),
            "sh", "-c", f"cd {way.tree} && {words}"]


def packages(root: pathlib.Path, way: Way, cache: pathlib.Path | None) -> list[str]:
    """The command that installs them: always as root, and through the machine's proxies."""
    proxies = [f"{name}={value}" for name, value in os.environ.items() if name.lower() in PROXIES]
    return ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
            *proxies, *entered(root, False, cache), "sh",
            f"{way.tree}/scripts/install_packages.sh", "build", "run",
            *(["check"] if way.check else [])]


def entered(root: pathlib.Path, container: bool, cache: pathlib.Path | None) -> list[str]:
    return ["/usr/bin/unshare", "--mount", "--pid", "--fork", "--kill-child",
            *(["--net"] if container else []), "/bin/sh", "-c", INSIDE, "sh", str(root),
            str(cache or ""), "yes" if container else ""]


@contextlib.contextmanager
def folder_for_root() -> Iterator[pathlib.Path]:
    folder = tempfile.mkdtemp(prefix="lk-debian-")
    root = pathlib.Path(folder) / "root"
    root.mkdir()
    try:
        yield root
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True, timeout=600)


def steps(tally: Tally, release: str, way: Way, cache: pathlib.Path | None, show: bool) -> None:
    """One after the other; each needs the one before."""
    archives = cache / f"{release}-packages" if cache else None
    if archives:
        (archives / "partial").mkdir(parents=True, exist_ok=True)
    with folder_for_root() as root:
        if not made(tally, release, root, cache):
            return
        copy_tree(root, way)
        if runners.command(tally, "packages", packages(root, way, archives), PACKAGES_LIMIT_S):
            shown = all(runners.command(tally, name, inside(root, way, words), limit_s)
                        for name, words, limit_s in [*STEPS, *([] if way.check else THIN)])
            if shown and way.check:
                make_check(tally, root, way, show)
        if tally.failed:
            keep_logs(tally, root / way.tree.lstrip("/") / "build")


def make_check(tally: Tally, root: pathlib.Path, way: Way, show: bool) -> None:
    log, before = tally.logs / "make-check.log", tally.failed
    words = f"make check LEVEL={way.level}"
    status = runners.run(inside(root, way, words), log, None, CHECK_LIMIT_S, show)
    check.counted(tally, status, log)
    if tally.failed > before and not show:
        say(runners.tail(log, 60))


def keep_logs(tally: Tally, build: pathlib.Path) -> None:
    """What the tests printed in the root, which is about to go."""
    kept = tally.logs / "of-the-root"
    shutil.rmtree(kept, ignore_errors=True)
    for name in ("logs", "meson-logs"):
        if (build / name).exists():
            shutil.copytree(build / name, kept / name)
    say(f"  the root's own logs: {kept}")


def tried(tally: Tally, release: str, way: Way, cache: pathlib.Path | None = None,
          show: bool = False) -> None:
    """Adds a case for each step, and those of `make check`. Where there can be no such root, that
    is skipped."""
    words = ["make check" if way.check else "thin", "a user" if way.user else "root",
             *(["as in a container"] if way.container else [])]
    say(f"Debian {release}: {', '.join(words)}")
    able = runners.have("mmdebstrap") or runners.have("debootstrap")
    if os.geteuid() != 0 or not able:
        why = "a bare root takes root, and mmdebstrap or debootstrap"
        say(f"  skipped: {why}")
        tally.add(f"Debian {release}", 0, 0, 1, why)
        return
    own = Tally(tally.logs / release)
    steps(own, release, way, cache, show)
    tally.add_all(own, release)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="trixie")
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--user", action="store_true", help="an ordinary user does it")
    parser.add_argument("--container", action="store_true", help="with a container's rights")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--thin", action="store_true", help="the default")
    kind.add_argument("--check", action="store_true", help="all of `make check`")
    arguments = parser.parse_args()
    begun = time.monotonic()
    tally = Tally(arguments.build.resolve() / "logs" / "debian")
    way = Way(arguments.check, arguments.user, arguments.container)
    tried(tally, arguments.release, way, arguments.cache and arguments.cache.resolve(), show=True)
    return check.conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
