"""Nobody starves: by counts over a bounded number of grants, never by speed."""
from __future__ import annotations

import pytest

import checker
from redisson import JavaLock
from waiting import until


def shares(paths) -> list[int]:
    """Grants of each file from when all had one to when the first had its last."""
    times = [sorted(record.time_ns for record in checker.read(path)
                    if record.phase == checker.GRANTED) for path in paths]
    assert all(times), "one of them was never served"
    start, end = max(row[0] for row in times), min(row[-1] for row in times)
    return [sum(start <= time_ns <= end for time_ns in row) for row in times]


def contend(keepers, paths, threads, enough, **options):
    """Runs stress in each keeper until `enough()`, and returns the answers."""
    runs = [keeper.say("stress", thread="s", name="hot", threads=count, pairs=1_000_000,
                       capacity=3_000_000, history=path, run=number, **options)
            for number, (keeper, path, count) in enumerate(zip(keepers, paths, threads))]
    until(enough, 60, "enough grants")
    for keeper in keepers:
        keeper.call("stop", thread="-")
    return [run.result(30) for run in runs]


@pytest.mark.slow
def test_two_processes_of_32_threads(server, make_keeper, history):
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    paths = [history() for _ in keepers]
    contend(keepers, paths, (32, 32),
            lambda: sum(keeper.stats().acquires for keeper in keepers) > 10000, hold_us=50)
    counts = shares(paths)
    checker.check(checker.read(*paths))
    assert all(0.3 * sum(counts) < count < 0.7 * sum(counts) for count in counts), counts


@pytest.mark.slow
def test_lone_process_beside_64_threads(server, make_keeper, history):
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    paths = [history() for _ in keepers]
    answers = contend(keepers, paths, (64, 1),
                      lambda: keepers[0].stats().acquires > 10000, hold_us=50)
    checker.check(checker.read(*paths))
    counts = shares(paths)
    assert counts[1] >= 10, (counts, dict(answers[1]))


@pytest.mark.slow
def test_java_like_waiter_beside_64_threads(server, make_keeper, history):
    keeper, path = make_keeper(server.unix_url), history()
    run = keeper.say("stress", thread="s", name="hot", threads=64, pairs=1_000_000, hold_us=50,
                     history=path, capacity=3_000_000)
    until(lambda: keeper.stats().acquires > 100, 10)
    java = JavaLock(server, "hot")
    for _ in range(10):
        before = keeper.stats().acquires
        java.lock(limit=20)
        assert keeper.stats().acquires - before < 20000, "starved"
        assert java.unlock() == 1
    java.close()
    keeper.call("stop", thread="-")
    answer = run.result(30)
    assert answer["acquire_OK"] == answer["release_OK"], dict(answer)
    checker.check(checker.read(path))


def test_java_like_waiter_beside_one_busy_thread(server, make_keeper, history):
    """A caller that comes right back lets a waiter in first, which takes longer to be woken."""
    keeper, path = make_keeper(server.unix_url), history()
    run = keeper.say("stress", thread="s", name="hot", threads=1, pairs=1_000_000, hold_us=5000,
                     history=path, capacity=100_000)
    until(lambda: keeper.stats().acquires > 10, 10)
    java = JavaLock(server, "hot")
    waits = []
    for _ in range(20):
        before = keeper.stats().acquires
        java.lock(limit=20)
        waits.append(keeper.stats().acquires - before)
        assert java.unlock() == 1
    java.close()
    keeper.call("stop", thread="-")
    run.result(30)
    checker.check(checker.read(path))
    assert sorted(waits)[len(waits) // 2] <= 3, waits


def test_threads_of_a_client_form_one_queue(server, keeper, history):
    """First come, first served: over many rounds fewest and most grants differ little."""
    path = history()
    run = keeper.say("stress", thread="s", name="line", threads=16, pairs=1_000_000, hold_us=50,
                     history=path, capacity=2_000_000)
    until(lambda: keeper.stats().acquires > 4000, 60)
    keeper.call("stop", thread="-")
    run.result(30)
    records = checker.read(path)
    checker.check(records)
    first = sorted(record.time_ns for record in records if record.phase == checker.INVOKE)[15]
    counts = checker.grants_by([record for record in records if record.time_ns > first],
                               lambda record: record.owner)
    assert len(counts) == 16
    assert max(counts.values()) - min(counts.values()) <= 0.1 * max(counts.values()) + 2, counts
