"""The read/write lock under faults: processes that die, connections that end, Java beside it."""
from __future__ import annotations

import random
import threading
import time

import pytest

import checker
from proxy import CUT_BEFORE, Cut, Once, Park
from redisson_rw import JavaReadWriteLock, timeout_of
from servers import Subscriber
from waiting import boottime_ns, never, until

WRITERS = "lockkeeper_writers:{%s}"


def sides(server, name) -> dict[str, str]:
    return {field.decode(): value.decode() for field, value in server.holders(name).items()}


# ---- histories ----

def bad_wire(generator: random.Random, hits: list):
    def rule(message):
        dice = generator.random()
        if dice > 0.01:
            return None
        hits.append(message.what)
        if dice < 0.003:
            return Cut(generator.randrange(len(message.data) + 1), generator.random() < 0.5)
        return Park(generator.uniform(0, 0.3))
    return rule


def start(keepers, history, kinds: list[dict]) -> tuple[list, list]:
    """Each process runs each kind; the runs, and the paths of their histories."""
    runs, paths = [], []
    for number, keeper in enumerate(keepers):
        for place, kind in enumerate(kinds):
            paths.append(history())
            runs.append(keeper.say("stress", thread=f"s{place}", name="rw", pairs=1_000_000,
                                   run=number * 10 + place, history=paths[-1], capacity=400_000,
                                   **kind))
    return runs, paths


def finish(keepers, runs) -> list:
    for keeper in keepers:
        keeper.call("stop", thread="-")
    return [run.result(40) for run in runs]


def granted(records, mode) -> int:
    return sum(record.phase == checker.GRANTED and record.mode == mode for record in records)


def fifty_of_each(paths) -> bool:
    records = checker.read(*paths)
    return all(granted(records, mode) > 50 for mode in (checker.SHARED, checker.EXCLUSIVE))


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["good", "bad"])
def test_a_writer_is_never_beside_others(server, proxy, make_keeper, history, wire):
    """Three processes, readers and writers with leases and without, by what they believed."""
    hits: list = []
    keepers = [make_keeper(proxy.unix_url, command_timeout_ms=300, watchdog_ms=500)
               for _ in range(3)]
    kinds = [
        {"kind": "read", "threads": 4, "hold_us": 500, "pause_us": 20000},
        {"kind": "read", "threads": 2, "lease": 200, "hold_us": 3000, "pause_us": 20000},
        {"kind": "write", "threads": 2, "hold_us": 300},
        {"kind": "write", "threads": 2, "lease": 200, "wait": 100, "hold_us": 300},
        {"kind": "write", "threads": 1, "cancel_us": 5000, "hold_us": 300},
    ]
    runs, paths = start(keepers, history, kinds)
    if wire == "bad":
        proxy.rule = bad_wire(random.Random(7), hits)
    time.sleep(6)
    until(lambda: fifty_of_each(paths), 20, "fifty grants of each side")
    proxy.rule = None
    finish(keepers, runs)
    checker.check(checker.read(*paths), over_allowed=3)
    print(f"{len(hits)} messages hit")
    assert (len(hits) > 20) == (wire == "bad")
    until(lambda: server.call("DBSIZE") == 0, 10, "nothing stays")


@pytest.mark.slow
def test_history_with_java(server, make_keeper, history):
    """Ours and Redisson's scripts on one name, both sides, by their claims."""
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    runs, paths = start(keepers, history, [
        {"kind": "read", "threads": 3, "hold_us": 500, "pause_us": 3000},
        {"kind": "write", "threads": 2, "hold_us": 300, "pause_us": 1000}])
    claims, turns, failures = [], 40, []

    def java_turns(number: int) -> None:
        java = JavaReadWriteLock(server, "rw")
        try:
            for turn in range(turns):
                write = (number + turn) % 2
                java.wait(java.write if write else java.read)
                granted_ns = boottime_ns()
                time.sleep(0.0005)
                claims.append(checker.Claim(0, f"java{number}", granted_ns, boottime_ns(),
                                            mode=checker.EXCLUSIVE if write else checker.SHARED))
                freed = java.unlock_write() if write else java.unlock_read()
                assert freed in ((1,) if write else (0, 1)), freed
        except BaseException as failure:
            failures.append(failure)
        java.close()
    threads = [threading.Thread(target=java_turns, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    answers = finish(keepers, runs)
    assert not failures and len(claims) == 3 * turns, failures
    for answer in answers:
        assert answer["acquire_OK"] == answer["release_OK"] > 0, dict(answer)
    found = checker.overlaps(checker.check(checker.read(*paths)) + claims)
    assert not found, [f"{a} | {b}" for a, b in found[:5]]
    assert server.call("DBSIZE") == 0


# ---- the dead ----

@pytest.mark.parametrize("dead,waiting", [("read", "write"), ("write", "read"),
                                          ("write", "write")])
def test_a_dead_holder_keeps_it_for_its_lease_at_most(server, make_keeper, dead, waiting):
    victim = make_keeper(server.unix_url, watchdog_ms=1500)
    keeper = make_keeper(server.unix_url)
    victim.call("acquire", "dead", kind=dead).ok()
    waits = keeper.say("acquire", "dead", kind=waiting)
    until(lambda: server.channels(), 5)
    victim.kill()
    assert waits.result(10).ok().took < 6
    keeper.call("release", "dead", kind=waiting).ok()
    until(lambda: server.call("DBSIZE") == 0, 5)


def test_a_dead_reader_among_living_ones(server, make_keeper):
    """Its field stays in the hash, and keeps nobody out once the living have left."""
    victim = make_keeper(server.unix_url, watchdog_ms=600)
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    victim.call("acquire", "among", kind="read").ok()
    (field,) = set(sides(server, "among")) - {"mode"}
    keeper.call("acquire", "among", kind="read").ok()
    victim.kill()
    until(lambda: not server.call("EXISTS", timeout_of("among", field)), 5, "nobody renews it")
    never(lambda: server.call("EXISTS", timeout_of("among", field)), 0.7, "it is renewed")
    assert keeper.call("is_held", "among", kind="read").result == 1
    waits = keeper.say("acquire", "among", kind="write", thread="w")
    until(lambda: server.channels(), 5)
    keeper.call("release", "among", kind="read").ok()
    waits.result(10).ok()
    keeper.call("release", "among", kind="write", thread="w").ok()
    assert server.call("DBSIZE") == 0


def test_a_dead_preferred_writer_holds_up_readers_for_seconds_at_most(server, make_keeper):
    victim, keeper = make_keeper(server.unix_url), make_keeper(server.unix_url)
    keeper.call("acquire", "late", kind="read-polite").ok()
    victim.say("acquire", "late", kind="write-preferred")
    until(lambda: server.call("EXISTS", WRITERS % "late"), 5)
    keeper.call("try", "late", kind="read-polite", thread="b").is_code("LK_EBUSY")
    keeper.call("try", "late", kind="read", thread="c").ok()
    never(lambda: keeper.call("try", "late", kind="read-polite", thread="b").code == "OK", 4,
          "a living writer is forgotten")
    victim.kill()
    assert keeper.call("acquire", "late", kind="read-polite", thread="b").ok().took < 8
    until(lambda: not server.call("EXISTS", WRITERS % "late"), 8, "the dead one is forgotten")
    for kind, thread in ("read-polite", "main"), ("read-polite", "b"), ("read", "c"):
        keeper.call("release", "late", kind=kind, thread=thread).ok()
    assert server.call("DBSIZE") == 0


def test_a_preferred_writer_leaves_and_readers_are_woken(server, make_keeper):
    writer, keeper = make_keeper(server.unix_url), make_keeper(server.unix_url)
    keeper.call("acquire", "left", kind="read-polite").ok()
    bare = Subscriber(server, "redisson_rwlock:{left}")
    waits = writer.say("acquire", "left", kind="write-preferred", cancel="token")
    until(lambda: server.call("EXISTS", WRITERS % "left"), 5)
    reads = keeper.say("acquire", "left", kind="read-polite", thread="b")
    until(lambda: keeper.stats().waiting == 1, 5)
    writer.cancel("token")
    waits.result(5).is_code("LK_ECANCELLED")
    until(lambda: [int(said) for said in bare.messages] == [1], 5, "its release says so")
    reads.result(5).ok()
    assert not server.call("EXISTS", WRITERS % "left")
    for thread in "main", "b":
        keeper.call("release", "left", kind="read-polite", thread=thread).ok()
    bare.stop()


# ---- connections that end ----

ACQUIRE = {"read": (3, 5), "write": (2, 4)}  # keys and arguments of the script
RELEASE = (3, 3)
PLACES = {
    "before the request": (False, CUT_BEFORE),
    "in the request": (False, Cut(20)),
    "behind the request": (False, Cut(1 << 20)),
    "before the reply": (True, CUT_BEFORE),
    "in the reply": (True, Cut(2)),
    "behind the reply": (True, Cut(1 << 20)),
}


def of_script(shape: tuple[int, int], reply: bool):
    """Matches the call of a script with so many keys and arguments, or its reply."""
    keys, arguments = shape

    def matches(message) -> bool:
        argv = message.argv
        return message.reply == reply and argv[0].upper() == b"EVALSHA" and \
            int(argv[2]) == keys and len(argv) == 3 + keys + arguments
    return matches


@pytest.fixture
def through(proxy, make_keeper):
    """A client behind the proxy that is connected already."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=3000)
    for kind in "read", "write":
        keeper.call("acquire", "warm", kind=kind).ok()
        keeper.call("release", "warm", kind=kind).ok()
    return keeper


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("place", PLACES)
def test_acquire_cut(server, proxy, through, place, kind):
    reply, verdict = PLACES[place]
    proxy.rule = once = Once(of_script(ACQUIRE[kind], reply), verdict)
    through.call("acquire", "cut", kind=kind).ok()
    assert once.hit.is_set()
    assert set(sides(server, "cut").values()) == {kind, "1"} and len(sides(server, "cut")) == 2
    assert server.call("DBSIZE") == (2 if kind == "read" else 1), "one timeout key a reader"
    assert through.call("hold_count", "cut", kind=kind).result == 1
    through.call("release", "cut", kind=kind).ok()
    never(lambda: server.call("DBSIZE"), 0.05, "one release frees it")


@pytest.mark.parametrize("place", PLACES)
def test_read_release_cut(server, proxy, through, make_keeper, place):
    """The repeated release must not end another's read."""
    stranger = make_keeper(server.unix_url)
    reply, verdict = PLACES[place]
    through.call("acquire", "cut", kind="read").ok()
    stranger.call("acquire", "cut", kind="read").ok()
    proxy.rule = once = Once(of_script(RELEASE, reply), verdict)
    through.call("release", "cut", kind="read").ok()
    assert once.hit.is_set()
    never(lambda: len(sides(server, "cut")) != 2, 0.1, "the stranger's read was ended")
    through.call("release", "cut", kind="read").is_code("LK_ENOTOWNER")
    assert stranger.call("is_held", "cut", kind="read").result == 1
    stranger.call("release", "cut", kind="read").ok()
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("place", PLACES)
def test_write_release_cut(server, proxy, through, make_keeper, place):
    """Going down, with a writer and a reader waiting: the repetition ends neither read."""
    stranger = make_keeper(server.unix_url)
    reply, verdict = PLACES[place]
    through.call("acquire", "cut", kind="write").ok()
    through.call("acquire", "cut", kind="read").ok()
    reads = stranger.say("acquire", "cut", kind="read")
    until(lambda: server.channels(), 5)
    proxy.rule = once = Once(of_script(RELEASE, reply), verdict)
    through.call("release", "cut", kind="write").ok()
    assert once.hit.is_set()
    assert reads.result(10).ok().took < 10
    never(lambda: len(sides(server, "cut")) != 3, 0.1, "two read")
    for keeper in through, stranger:
        assert keeper.call("is_held", "cut", kind="read").result == 1
        keeper.call("release", "cut", kind="read").ok()
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("kind", ["read", "write"])
def test_granted_but_never_answered(server, proxy, make_keeper, kind):
    """The caller is told that it may be held, and it is released."""
    keeper = make_keeper(proxy.url, watchdog_ms=20000, command_timeout_ms=300)
    keeper.call("ping").ok()

    def rule(message):
        if not of_script(ACQUIRE[kind], True)(message):
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("try", "untold", kind=kind).is_code("LK_EMAYBEHELD")
    assert keeper.call("is_held", "untold", kind=kind).result == 0
    assert server.call("HLEN", "untold") == 2
    proxy.rule, proxy.refuse = None, False
    until(lambda: server.call("DBSIZE") == 0, 10, "it is released")
    keeper.call("acquire", "untold", kind=kind).ok()
    keeper.call("release", "untold", kind=kind).ok()


def test_a_parked_release_of_the_first_read_does_not_end_the_second(server, proxy, make_keeper):
    """Both under one write: they have different numbers."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=60000, command_timeout_ms=300)
    keeper.call("acquire", "late", kind="write").ok()
    keeper.call("acquire", "late", kind="read", lease=500).ok()
    gate = threading.Event()
    proxy.rule = once = Once(of_script(RELEASE, False), Park(event=gate))
    release = keeper.say("release", "late", kind="read", thread="main")
    until(once.hit.is_set, 5)
    release.result(10).is_code("LK_EMAYBEHELD", "LK_ELOST", "OK")
    proxy.cut_all()
    keeper.call("within", "late", kind="read", wait=10000).ok()
    gate.set()
    never(lambda: len(sides(server, "late")) < 3, 0.5, "the second read was ended")
    for kind in "write", "read":
        keeper.call("release", "late", kind=kind).ok()
    until(lambda: server.call("DBSIZE") == 0, 5)
