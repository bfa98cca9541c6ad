"""Kinds that share a layout exclude each other; a name of another type is refused; multi locks."""
from __future__ import annotations

import pytest

import mixed


def says(keeper, verb: str, kind: str, name: str = "shared", **options):
    return keeper.call(verb, name, kind=kind, **options)


@pytest.mark.parametrize("ours_kind", ["lock", "fenced", "fenced-java", "spin"])
@pytest.mark.parametrize("java_kind", ["lock", "fenced-java", "spin", "fair"])
def test_same_layout_excludes(ours, java, ours_kind, java_kind):
    says(ours, "acquire", ours_kind).ok()
    says(java, "within", java_kind, wait=50, lease=30000).is_code("LK_ETIMEDOUT")
    says(ours, "release", ours_kind).ok()
    says(java, "within", java_kind, wait=2000, lease=30000).ok()
    says(ours, "try", ours_kind).is_code("LK_EBUSY")
    says(java, "release", java_kind).ok()
    says(ours, "try", ours_kind).ok()
    says(ours, "release", ours_kind).ok()


@pytest.mark.parametrize("java_kind, ours_kind", [
    ("read", "lock"), ("write", "lock"), ("write", "fair"), ("write", "fenced"), ("write", "spin"),
    ("lock", "read"), ("lock", "write"), ("lock", "plain"), ("lock", "semaphore"),
    ("lock", "permits"), ("write", "plain")])
def test_javas_lock_under_another_types_name(ours, java, java_kind, ours_kind):
    """Redisson's own read/write lock would be granted over its RLock; ours refuses, and says why.
    """
    says(java, "acquire", java_kind).ok()
    refused = says(ours, "try", ours_kind).is_code("LK_EWRONGTYPE")
    assert "the key is a" in refused["message"] and ", not a" in refused["message"]
    assert says(java, "is_held", java_kind).ok()["result"] == 1
    says(java, "release", java_kind).ok()


@pytest.mark.parametrize("java_kind", ["semaphore", "permits", "latch"])
def test_javas_counter_under_a_locks_name(ours, java, java_kind):
    says(java, "set", java_kind, count=2).ok()
    for kind in ("lock", "fair", "read", "write", "fenced", "spin"):
        says(ours, "try", kind).is_code("LK_EWRONGTYPE")
    what = "count" if java_kind == "latch" else "available"
    assert says(java, what, java_kind).ok()["result"] == 2


def test_multi_locks_in_opposite_order(ours, java, history):
    mixed.take_several(ours, java, history, "a,b,c", (60, 25))


def test_part_of_a_multi_lock(ours, java):
    says(ours, "acquire", "multi", "a,b").ok()
    says(java, "try", "lock", "b").is_code("LK_EBUSY")
    says(ours, "release", "multi", "a,b").ok()
    says(java, "acquire", "lock", "b").ok()
    says(ours, "within", "multi", "a,b", wait=200).is_code("LK_ETIMEDOUT")
    assert says(java, "is_locked", "lock", "a").ok()["result"] == 0, "nothing stays"
    says(java, "release", "lock", "b").ok()
    says(java, "try", "multi", "a,b").ok()
    says(ours, "try", "lock", "a").is_code("LK_EBUSY")
    says(java, "release", "multi", "a,b").ok()
