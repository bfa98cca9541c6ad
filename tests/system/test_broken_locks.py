"""The checker and the faults must bite: known-broken locks are caught, a sound one is not."""
from __future__ import annotations

import pytest

from broken_locks import BROKEN, Contest, SoundLock, parking
from waiting import never, until


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_broken_lock_is_caught(proxy, kind):
    proxy.rule = parking(seed=7)
    contest = Contest(proxy, kind)
    try:
        until(contest.overlaps, 60, f"{kind.__name__} is caught")
    finally:
        proxy.rule = None
        contest.end()


@pytest.mark.slow
def test_sound_lock_is_not(proxy):
    proxy.rule = parking(seed=7)
    contest = Contest(proxy, SoundLock)
    try:
        never(contest.overlaps, 8, "the sound lock violates")
        assert len(contest.claims) > 100
    finally:
        proxy.rule = None
        contest.end()
