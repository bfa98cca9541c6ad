"""Redisson's own: held past 40 s by the watchdog's default, and free one lease after a kill."""
from __future__ import annotations

import pytest


@pytest.mark.last
@pytest.mark.slow
def test_held_past_40_seconds(long_hold):
    long_hold.thread.join(90)
    assert not long_hold.thread.is_alive()
    assert len(long_hold.fields) == 1, "one holder all the time"
    assert min(long_hold.ttls) > 15000, "renewed at each third of 30 s"
    assert max(long_hold.ttls) <= 30000
    assert 15 < long_hold.freed - long_hold.killed < 31.5
