"""What some tests need and not every place gives: root, IPv6, and namespaces of one's own.

A bare container, an unprivileged user or a plain chroot lacks the one or the other. Each need is
tried once for a process. Where it is refused, the tests that have it are skipped, and the refusal
is their reason.
"""
from __future__ import annotations

import functools
import os
import socket
import subprocess

import pytest

TRY_LIMIT_S = 60
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def need_ipv6() -> None:
    """Skips the test where nobody can listen at ::1."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as refusal:
        pytest.skip(f"no IPv6 here: {refusal}")


def namespaces(*kinds: str) -> list[str]:
    """The start of a command line that runs the rest in namespaces of these kinds, as `unshare`
    names them, and in one of mounts. What the rest mounts on /proc or below is seen there alone: /
    keeps its propagation, which can only be changed where / is a mount point. A user who is not
    root is root in there."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *rights, "--propagation", "unchanged", "--mount-proc", *kinds]
    refusal = refused(*words)
    if refusal:
        pytest.skip(f"no namespaces here: {refusal}")
    return words


@functools.cache
def refused(*words: str) -> str:
    """Why a program that starts with these words cannot be run; "": it can."""
    try:
        done = subprocess.run([*words, "true"], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=TRY_LIMIT_S)
    except FileNotFoundError:
        return f"there is no {words[0]}"
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"{words[0]} ends with {done.returncode}"
