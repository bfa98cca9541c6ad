"""Each kind of lock beside the same kind of Redisson's, in one JVM and one C process."""
from __future__ import annotations

import json

import pytest

import checker
import mixed
from keeper import EVENT_LOST
from meeting import SOON_S, begin_wait, command
from waiting import boottime_ns, until

HELD_MS = 30000  # the watchdog's lease on both sides: a waiter woken by the ttl would need so long


# What holds for every kind. Spin locks have no channel: their waiters ask again and again.
KINDS = ["lock", "fair", "write", "fenced-java", "spin"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param



def test_clocks_agree(java):
    """What the history checker rests on: the JVM's times are of the same clock."""
    before = boottime_ns()
    told = java.call("clock", thread="-").ok()["value"]
    assert before - 1_000_000 <= told <= boottime_ns() + 1_000_000


def test_exclusion_under_load(ours, java, history, kind):
    # Who spins asks seldom, and nobody makes way: then the lock is to be free now and then.
    pairs = (300, 100, 300) if kind != "spin" else (60, 60, 10000)
    claims = checker.check(mixed.contend(ours, java, history, kind=kind, hold_us=200,
                                         ours_pairs=pairs[0], theirs_pairs=pairs[1],
                                         pause_us=pairs[2]))
    assert len(claims) == 4 * (pairs[0] + pairs[1])
    assert mixed.switches(claims) > 10


@pytest.mark.parametrize("wait", [0, 20])
def test_exclusion_of_waiters_that_give_up(ours, java, history, wait, kind):
    """try and tryLock(wait): both grants and refusals on both sides, never two owners."""
    paths = history(), history()
    runs = [keeper.say("stress", "hot", kind=kind, thread="s", threads=4, pairs=200, wait=wait,
                       hold_us=500, pause_us=200, run=number, history=path)
            for number, (keeper, path) in enumerate(zip((ours, java), paths))]
    answers = [run.result(60) for run in runs]
    assert all(answer["grants"] > 0 for answer in answers), answers
    checker.check(checker.read(paths[0]) + mixed.read_peer(paths[1], run=1))


def test_java_is_woken_by_our_release(ours, java, kind):
    ours.call("acquire", "wake", kind=kind).ok()
    waiter = begin_wait(java, "wake", kind=kind)
    released = ours.call("release", "wake", kind=kind).ok()
    woken = waiter.result().ok()
    assert (woken["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    java.call("release", "wake", kind=kind, thread="waiter").ok()


def test_we_are_woken_by_javas_release(ours, java, kind):
    java.call("acquire", "wake", kind=kind).ok()
    waiter = begin_wait(ours, "wake", kind=kind)
    # Its last try before it sleeps comes behind the subscription: it, too, may find the lock free.
    until(lambda: ours.stats()["busy"] >= 2, 10, "it has tried again")
    released = java.call("release", "wake", kind=kind).ok()
    woken = waiter.result().ok()
    assert (woken["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    assert ours.stats()["messages"] >= 1 or kind == "spin"
    ours.call("release", "wake", kind=kind, thread="waiter").ok()


def test_javas_lease_is_honoured(ours, java, kind):
    taken = java.call("within", "lease", kind=kind, wait=1000, lease=700).ok()
    ours.call("try", "lease", kind=kind).is_code("LK_EBUSY")
    assert 0 < ours.call("ttl", "lease", kind=kind).ok()["value"] <= 700
    granted = ours.call("acquire", "lease", kind=kind).ok()
    assert granted["end_ns"] - taken["start_ns"] >= 690_000_000, "before the lease was over"
    java.call("release", "lease", kind=kind).is_code("LK_ENOTOWNER")
    assert ours.call("is_held", "lease", kind=kind).ok()["result"] == 1
    ours.call("release", "lease", kind=kind).ok()


def test_our_lease_is_honoured(ours, java, kind):
    taken = ours.call("acquire", "lease", kind=kind, lease=700).ok()
    java.call("try", "lease", kind=kind).is_code("LK_EBUSY")
    assert 0 < java.call("ttl", "lease", kind=kind).ok()["value"] <= 700
    granted = java.call("acquire", "lease", kind=kind, thread="waiter").ok()
    assert granted["end_ns"] - taken["start_ns"] >= 690_000_000, "before the lease was over"
    ours.call("release", "lease", kind=kind).is_code("LK_ELOST")
    assert java.call("is_held", "lease", kind=kind, thread="waiter").ok()["result"] == 1
    java.call("release", "lease", kind=kind, thread="waiter").ok()


def test_our_watchdog_is_honoured(make_ours, java, kind):
    """Held twice as long as the lease that the watchdog renews."""
    ours = make_ours(watchdog_ms=1000)
    ours.call("acquire", "kept", kind=kind).ok()
    waiter = java.say("within", "kept", kind=kind, wait=2200)
    assert java.call("is_locked", "kept", kind=kind, thread="look").ok()["result"] == 1
    waiter.result().is_code("LK_ETIMEDOUT")
    ours.call("release", "kept", kind=kind).ok()
    java.call("try", "kept", kind=kind).ok()
    java.call("release", "kept", kind=kind).ok()


def test_javas_watchdog_is_honoured(server, ours, jvm, kind):
    jvm.open(server.url, c="short", watchdog_ms=1000)
    jvm.call("acquire", "kept", kind=kind, c="short").ok()
    ours.call("within", "kept", kind=kind, wait=2200).is_code("LK_ETIMEDOUT")
    jvm.call("release", "kept", kind=kind, c="short").ok()
    ours.call("try", "kept", kind=kind).ok()
    ours.call("release", "kept", kind=kind).ok()
    jvm.call("close", thread="-", c="short")


def test_ls_show_and_break_know_it(java, server, kind):
    """It has the layout of ours; that it is not a client of ours is what can be known."""
    java.call("acquire", "seen", kind=kind).ok()
    (lock,) = json.loads(command(server, "ls", "--json").stdout)
    types = {"write": "read/write lock", "fenced-java": "fenced lock"}
    assert (lock["name"], lock["type"]) == ("seen", types.get(kind, "lock"))
    assert "another client" in command(server, "ls").stdout
    assert command(server, "show", "seen").returncode == 0
    assert command(server, "break", "--yes", "seen").returncode == 0
    assert command(server, "show", "seen").returncode == 3
    assert java.call("is_held", "seen", kind=kind).ok()["result"] == 0


def test_we_force_javas_lock(ours, java, kind):
    java.call("acquire", "forced", kind=kind).ok()
    waiter = begin_wait(java, "forced", kind=kind)
    forced = ours.call("force", "forced", kind=kind).ok()
    assert forced["result"] == 1
    assert (waiter.result().ok()["end_ns"] - forced["start_ns"]) / 1e9 < SOON_S
    java.call("release", "forced", kind=kind).is_code("LK_ENOTOWNER")
    java.call("release", "forced", kind=kind, thread="waiter").ok()
    assert ours.call("force", "forced", kind=kind).ok()["result"] == 0


def test_java_forces_our_lock(make_ours, java, kind):
    """The waiter is woken, and the holder is told by its next renewal."""
    holder, other = make_ours(watchdog_ms=3000), make_ours()
    holder.listen()
    holder.call("acquire", "forced", kind=kind).ok()
    waiter = begin_wait(other, "forced", kind=kind, thread="main")
    forced = java.call("force", "forced", kind=kind).ok()
    assert forced["result"] == 1
    assert (waiter.result().ok()["end_ns"] - forced["start_ns"]) / 1e9 < SOON_S
    until(lambda: holder.events_of(EVENT_LOST, "forced"), 10)
    holder.call("release", "forced", kind=kind).is_code("LK_ELOST")
    other.call("release", "forced", kind=kind).ok()


def test_java_reads_our_lock(ours, java, kind):
    assert java.call("is_locked", "seen", kind=kind).ok()["result"] == 0
    assert java.call("ttl", "seen", kind=kind).ok()["value"] == -2
    ours.call("acquire", "seen", kind=kind).ok()
    ours.call("acquire", "seen", kind=kind).ok()
    assert java.call("is_locked", "seen", kind=kind).ok()["result"] == 1
    assert HELD_MS * 0.5 < java.call("ttl", "seen", kind=kind).ok()["value"] <= HELD_MS
    assert java.call("hold_count", "seen", kind=kind).ok()["result"] == 0
    assert java.call("is_held", "seen", kind=kind).ok()["result"] == 0
    java.call("release", "seen", kind=kind).is_code("LK_ENOTOWNER")
    ours.call("release", "seen", kind=kind).ok()
    assert java.call("is_locked", "seen", kind=kind).ok()["result"] == 1
    ours.call("release", "seen", kind=kind).ok()
    assert java.call("is_locked", "seen", kind=kind).ok()["result"] == 0


def test_we_read_javas_lock(ours, java, kind):
    granted = java.call("acquire", "seen", kind=kind).ok()
    java.call("acquire", "seen", kind=kind).ok()
    # Redisson adds the lease once more when a writer enters again.
    longest_ms = HELD_MS * 2 if kind == "write" else HELD_MS
    assert ours.call("is_locked", "seen", kind=kind).ok()["result"] == 1
    assert HELD_MS * 0.5 < ours.call("ttl", "seen", kind=kind).ok()["value"] <= longest_ms
    assert ours.call("is_held", "seen", kind=kind).ok()["result"] == 0
    assert ours.call("hold_count", "seen", kind=kind).ok()["result"] == 0
    ours.call("release", "seen", kind=kind).is_code("LK_ENOTOWNER")
    field = f"{java.uuid}:{granted['thread']}"
    assert ours.call("is_held_by", "seen", kind=kind, field=field).ok()["result"] == 1
    java.call("release", "seen", kind=kind).ok()
    assert ours.call("is_locked", "seen", kind=kind).ok()["result"] == 1
    java.call("release", "seen", kind=kind).ok()
    assert ours.call("is_locked", "seen", kind=kind).ok()["result"] == 0


def test_killed_jvm_costs_its_lease(ours, make_jvm, kind):
    jvm = make_jvm(watchdog_ms=1500)
    jvm.call("acquire", "dead", kind=kind).ok()
    waiter = begin_wait(ours, "dead", kind=kind, thread="main")
    jvm.kill()
    killed_ns = boottime_ns()
    granted = waiter.result(15).ok()
    assert granted["end_ns"] - killed_ns >= 900_000_000, "before the lease was over"
    assert granted["end_ns"] - killed_ns < (1.5 + SOON_S) * 1e9
    ours.call("release", "dead", kind=kind).ok()


def test_killed_c_process_costs_its_lease(make_ours, java, kind):
    ours = make_ours(watchdog_ms=1500)
    ours.call("acquire", "dead", kind=kind).ok()
    waiter = begin_wait(java, "dead", kind=kind, thread="main")
    ours.kill()
    killed_ns = boottime_ns()
    granted = waiter.result(15).ok()
    assert granted["end_ns"] - killed_ns >= 900_000_000, "before the lease was over"
    assert granted["end_ns"] - killed_ns < (1.5 + SOON_S) * 1e9
    java.call("release", "dead", kind=kind).ok()


@pytest.mark.parametrize("name", ["a{b}c", "with space", "ümläut", "x" * 500])
def test_names(ours, java, name, kind):
    """Both make the same key and the same channel of a name."""
    ours.call("acquire", name, kind=kind).ok()
    waiter = begin_wait(java, name, kind=kind)
    ours.call("release", name, kind=kind).ok()
    waiter.result().ok()
    ours.call("try", name, kind=kind).is_code("LK_EBUSY")
    java.call("release", name, kind=kind, thread="waiter").ok()
