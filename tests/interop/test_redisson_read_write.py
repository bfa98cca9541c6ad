"""Readers and writers of C and of Java on one name."""
from __future__ import annotations

import pytest

import mixed
from meeting import SOON_S, begin_wait, soon
from waiting import boottime_ns

NAME = "book"


@pytest.fixture(params=["ours-java", "java-ours"])
def pair(request, ours, java):
    """The two libraries in both roles."""
    return (ours, java) if request.param == "ours-java" else (java, ours)


def read(keeper, verb: str = "acquire", thread: str = "r", **options):
    return keeper.call(verb, NAME, kind="read", thread=thread, **options)


def write(keeper, verb: str = "acquire", thread: str = "w", **options):
    return keeper.call(verb, NAME, kind="write", thread=thread, **options)


def waiter(keeper, kind: str, thread: str = "waiter"):
    return begin_wait(keeper, NAME, thread, kind=kind)


def test_readers_share_and_keep_writers_out(pair):
    first, second = pair
    read(first).ok()
    read(second).ok()
    write(first, "try").is_code("LK_EBUSY")
    write(second, "try").is_code("LK_EBUSY")
    for keeper, locked in ((first, 1), (second, 0)):
        read(keeper, "release").ok()
        assert read(second, "is_locked").ok()["result"] == locked
    write(second, "try").ok()
    write(second, "release").ok()


def test_writer_keeps_everybody_out(pair):
    first, second = pair
    write(first).ok()
    read(second, "try").is_code("LK_EBUSY")
    write(second, "try").is_code("LK_EBUSY")
    assert write(second, "is_locked").ok()["result"] == 1
    assert read(second, "is_locked").ok()["result"] == 0
    write(first, "release").ok()
    read(second, "try").ok()
    read(second, "release").ok()


def test_writer_is_woken_by_the_last_reader(pair):
    """Whichever library it is of; the release of the one before does not let the writer in."""
    first, second = pair
    read(first).ok()
    read(second).ok()
    pending = waiter(first, "write")
    read(first, "release").ok()
    assert not pending.done and read(second, "is_locked").ok()["result"] == 1
    released = read(second, "release").ok()
    soon(pending, released)
    write(first, "release", thread="waiter").ok()


def test_readers_are_woken_by_the_writer(pair):
    first, second = pair
    write(first).ok()
    pending = [waiter(first, "read", "r1"), waiter(second, "read", "r2")]
    pending += [waiter(second, "read", f"more{i}") for i in range(3)]
    released = write(first, "release").ok()
    for one in pending:
        soon(one, released)
    write(first, "try").is_code("LK_EBUSY")


def test_readers_are_admitted_when_our_writer_downgrades(ours, java):
    write(ours).ok()
    read(ours, thread="w").ok()
    pending = [waiter(java, "read", "r1"), waiter(ours, "read", "r2")]
    released = write(ours, "release").ok()
    for one in pending:
        soon(one, released)
    write(java, "try").is_code("LK_EBUSY")
    read(ours, "release", thread="w").ok()


def test_javas_writer_downgrades(ours, java):
    write(java).ok()
    read(java, thread="w").ok()
    read(ours, "try").is_code("LK_EBUSY")
    write(java, "release").ok()
    read(ours, "try").ok()
    read(java, "release", thread="w").ok()
    write(java, "try").is_code("LK_EBUSY")
    read(ours, "release").ok()
    write(java, "try").ok()
    write(java, "release").ok()


def test_dead_reader_beside_a_live_one(make_ours, make_jvm, ours, java):
    """Its own lease ends; the live reader of the other library keeps the writers out until then."""
    doomed, dead_jvm = make_ours(watchdog_ms=1200), make_jvm(watchdog_ms=1200)
    read(doomed).ok()
    read(dead_jvm).ok()
    read(java).ok()
    doomed.kill()
    dead_jvm.kill()
    write(ours, "within", wait=2000).is_code("LK_ETIMEDOUT")
    released = read(java, "release").ok()
    granted = write(ours).ok()
    assert (granted["end_ns"] - released["start_ns"]) / 1e9 < SOON_S
    write(ours, "release").ok()


@pytest.mark.parametrize("short, lasting", [("ours", "java"), ("java", "ours")])
def test_shorter_lease_does_not_end_a_longer_one(ours, java, short, lasting):
    keepers = {"ours": ours, "java": java}
    begun_ns = boottime_ns()
    read(keepers[lasting], "within", wait=1000, lease=1800).ok()
    read(keepers[short], "within", wait=1000, lease=400).ok()
    granted = write(keepers[short], thread="waiter").ok()
    assert granted["end_ns"] - begun_ns >= 1_780_000_000, "before the longer lease was over"
    write(keepers[short], "release", thread="waiter").ok()


def test_watchdogs_of_readers(server, make_ours, jvm):
    """Both renewed beside each other; neither renewal lets go of the other."""
    ours, writer = make_ours(watchdog_ms=1000), make_ours()
    jvm.open(server.url, watchdog_ms=1000)
    read(ours).ok()
    read(jvm).ok()
    write(writer, "within", wait=2200).is_code("LK_ETIMEDOUT")
    read(jvm, "release").ok()
    write(writer, "within", wait=1500).is_code("LK_ETIMEDOUT")
    read(jvm).ok()
    read(ours, "release").ok()
    write(writer, "within", wait=1500).is_code("LK_ETIMEDOUT")
    read(jvm, "release").ok()
    write(writer, "within", wait=1500).ok()
    write(writer, "release").ok()
    jvm.call("close", thread="-")


def test_force_frees_one_side(pair):
    """The read side only while nobody writes, and the other way round."""
    first, second = pair
    read(first).ok()
    assert write(second, "force").ok()["result"] == 0
    pending = waiter(second, "write")
    forced = read(second, "force").ok()
    assert forced["result"] == 1
    soon(pending, forced)
    assert read(first, "force").ok()["result"] == 0
    assert write(first, "force").ok()["result"] == 1
    write(second, "try", thread="another").ok()
    write(second, "release", thread="another").ok()


def test_counts(ours, java):
    read(java).ok()
    read(java).ok()
    assert read(java, "hold_count").ok()["result"] == 2
    read(ours).ok()
    read(ours).ok()
    assert read(java, "hold_count", thread="other").ok()["result"] == 0
    for keeper in (ours, java, ours):
        read(keeper, "release").ok()
        write(java, "try").is_code("LK_EBUSY")
    read(java, "release").ok()
    write(ours, "try").ok()
    write(ours, "release").ok()


def test_history_under_load(ours, java, history):
    mixed.read_and_write(ours, java, history, "hot", (150, 60))
