"""The same workload finds the defect of each algorithm from articles, and none in our locks."""
from __future__ import annotations

import pytest

import workload
from workload import BUILD, Target

BROKEN = BUILD / "tests" / "history"
# What has to be found, and where: scene, and begin of a violation. The checker may find more.
DEFECTS = {
    "getset": {"rival's clock ahead": "two owners", "victim's clock behind": "two owners"},
    "setnx-expire": {"killed 1": "stuck", "killed 2": "stuck"},
    "plain-delete": {"stopped": "two owners", "held back 2": "two owners"},
    "get-delete": {"held back 4": "two owners"},
}


def ours(victim: str, rival: str = "", other: str = "", **words) -> Target:
    """A kind of lock, or what the victim, its first and its second rival use of one lock."""
    kinds = (victim, rival or victim, other or rival or victim)
    return Target("-".join([*(kinds if rival else kinds[:1]), *words]),
                  **{role: {"kind": kind, **words}
                     for role, kind in zip(("victim", "rival", "other"), kinds)})


OURS = [ours("lock"), ours("fair"), ours("fenced"), ours("fenced-java"), ours("spin"),
        ours("fenced", "lock", "fenced"), ours("lock", "fenced-java", "lock"), ours("plain"),
        ours("multi"), ours("multi", "lock", "multi"), ours("lock", "multi", "lock"),
        ours("write"), ours("write", "read", "write"), ours("write", "read", "read"),
        ours("read", "write", "read"), ours("read-polite", "write-preferred", "read-polite"),
        ours("multi", "lock", "multi", queue=1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_broken_lock_is_caught(server, name):
    found = workload.run(Target(name, BROKEN / f"broken-{name}"), server)
    for scene, begin in DEFECTS[name].items():
        assert any(text.startswith(begin) for text in found.get(scene, [])), (scene, found)
    print(name, {scene: [text.split(":")[0] for text in texts] for scene, texts in found.items()})


@pytest.mark.slow
@pytest.mark.parametrize("target", OURS, ids=str)
def test_ours_is_not(server, target):
    assert workload.run(target, server) == {}
    left = server.call("KEYS", "*")
    assert not [key for key in left if key.startswith((b"scene", b"undisturbed"))], left
    for_ever = {key for key in left if server.call("PTTL", key) < 0}
    assert all(key.startswith(b"redisson_lock_token:") for key in for_ever), "as Redisson's"
