"""Waiting for a condition with a limit, and the clock that the library uses."""
from __future__ import annotations

import time


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def until(condition, limit: float = 10.0, what: str = ""):
    """Polls until the condition is true and returns its value; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what or condition}")
        time.sleep(0.005)


def never(condition, during: float, what: str = "") -> None:
    """Polls for `during` seconds and fails as soon as the condition is true."""
    end = time.monotonic() + during
    while time.monotonic() < end:
        value = condition()
        assert not value, f"{what or condition}: {value!r}"
        time.sleep(0.01)
