"""Tokens of a fenced lock that Java shares: they rise over all grants of both."""
from __future__ import annotations

import checker
import mixed

KIND = "fenced-java"


def fences(keepers, name: str = "gate", **options) -> list[int]:
    """The tokens of grants that the keepers get in turn."""
    made = []
    for keeper in keepers:
        made.append(keeper.call("within", name, kind=KIND, wait=5000, **options).ok()["fence"])
        keeper.call("release", name, kind=KIND).ok()
    return made


def test_tokens_rise_in_turn(ours, java):
    made = fences([java, ours, ours, java, java, ours, java])
    assert made == sorted(set(made)), made


def test_tokens_rise_under_load(ours, java, history):
    """The checker's own rule: no grant with a token that is not above all earlier ones."""
    records = mixed.contend(ours, java, history, kind=KIND, ours_pairs=150, hold_us=200,
                            pause_us=300)
    claims = checker.check(records)
    assert all(claim.fence > 0 for claim in claims)
    assert mixed.switches(claims) > 10


def test_java_reads_our_token(ours, java):
    fence = ours.call("acquire", "gate", kind=KIND).ok()["fence"]
    assert java.call("token", "gate", kind=KIND).ok()["value"] == fence
    ours.call("release", "gate", kind=KIND).ok()
    assert java.call("acquire", "gate", kind=KIND).ok()["fence"] > fence
    java.call("release", "gate", kind=KIND).ok()


def test_tokens_rise_when_java_lost_its_counter(server, ours, java):
    first = fences([java, ours])
    server.call("DEL", "redisson_lock_token:{gate}")
    then = fences([ours, java, ours])
    assert (first + then) == sorted(set(first + then)), (first, then)


def test_our_reentry_keeps_the_token(ours, java):
    first = ours.call("acquire", "gate", kind=KIND).ok()["fence"]
    assert ours.call("acquire", "gate", kind=KIND).ok()["fence"] == first
    ours.call("release", "gate", kind=KIND).ok()
    java.call("try", "gate", kind=KIND).is_code("LK_EBUSY")
    ours.call("release", "gate", kind=KIND).ok()
    assert java.call("try", "gate", kind=KIND).ok()["fence"] > first
    java.call("release", "gate", kind=KIND).ok()
