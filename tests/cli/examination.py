"""`lockkeeper doctor --json`: its report, whose exit code and schema are checked."""
from __future__ import annotations

import json

from command import Command

FINDING_KEYS = ["id", "severity", "node", "detail", "meaning", "fix"]
NODE_KEYS = ["url", "server", "version", "role", "round_trip_us", "clock_ahead_us"]
EXIT = {"note": 0, "warning": 4, "error": 5}


def examine(command: Command, *words: str, **environment: str) -> dict:
    done = command("doctor", "--json", *words, **environment)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert list(report) == ["worst", "promise", "nodes", "findings"]
    assert all(list(finding) == FINDING_KEYS for finding in report["findings"])
    assert all(list(node) == NODE_KEYS for node in report["nodes"])
    assert done.returncode == EXIT[report["worst"]]
    return report


def ids(report: dict) -> list[str]:
    """Of all findings but those that each server has."""
    return [finding["id"] for finding in report["findings"]
            if finding["id"] not in ("round-trip", "no-replica")]


def detail(report: dict, name: str) -> str:
    return next(finding["detail"] for finding in report["findings"] if finding["id"] == name)
