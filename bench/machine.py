"""What a result was measured on and with."""
from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import time


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(),
                      re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def describe(build: pathlib.Path) -> dict:
    comment = output("readelf", "-p", ".comment", str(build / "bench" / "ours-pairs"))
    compiler = re.search(r"\]\s+(.+)", comment)
    return {
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "kernel": platform.release(),
                    "system": platform.system(), "architecture": platform.machine()},
        "versions": {"redis": output("redis-server", "--version"),
                     "lockkeeper": output(str(build / "cli" / "lockkeeper"), "--version"),
                     "hiredis": output("pkg-config", "--modversion", "hiredis"),
                     "compiler": compiler[1] if compiler else "unknown"},
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "server": "private, 127.0.0.1 and unix socket, save \"\", appendonly no",
    }


def busy_ticks() -> int:
    """Of all cores since the start of the machine: user, nice, system, interrupts, stolen."""
    ticks = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, *rest = map(int, ticks)
    return user + nice + system + sum(rest)


def busy_cores(seconds: float) -> float:
    """How many cores are at work meanwhile."""
    before, begun = busy_ticks(), time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - begun
    return (busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / spent


def label() -> str:
    """For file names: says what kind of machine, not which."""
    return f"{os.cpu_count()}-cores-{platform.machine()}"
