"""What users do with one lock: turns, waits, leases, crowds."""
from __future__ import annotations

import pytest

import checker
from waiting import never, until

MS = 1_000_000


def nothing_left(server) -> bool:
    return server.call("DBSIZE") == 0 and server.channels() == []


@pytest.mark.parametrize("processes", [1, 3])
def test_b_and_c_both_get_it_in_turn(server, make_keeper, processes):
    keepers = [make_keeper(server.unix_url) for _ in range(processes)] * 3
    a, b, c = keepers[:3]
    a.call("acquire", "turns", thread="a").ok()
    waits = {"b": b.say("acquire", "turns", thread="b"),
             "c": c.say("acquire", "turns", thread="c")}
    keeper_of = {"b": b, "c": c}
    until(lambda: sum(keeper.stats().waiting for keeper in {b, c}) == 2, 5, "both wait")
    a.call("release", "turns", thread="a").ok()
    first = until(lambda: [name for name, wait in waits.items() if wait.done], 5)
    assert len(first) == 1
    second = ({"b", "c"} - set(first)).pop()
    never(lambda: waits[second].done, 0.2, "both have it")
    keeper_of[first[0]].call("release", "turns", thread=first[0]).ok()
    waits[second].result(5).ok()
    keeper_of[second].call("release", "turns", thread=second).ok()
    until(lambda: nothing_left(server), 5)


def test_try_on_a_held_lock_is_busy_at_once(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", "busy", thread="a").ok()
    assert a.call("try", "busy", thread="b").is_code("LK_EBUSY").took < 2
    assert b.call("try", "busy").is_code("LK_EBUSY").took < 2
    assert b.call("within", "busy", wait=0).is_code("LK_EBUSY").took < 2
    assert server.channels() == []


@pytest.mark.slow
def test_watchdog_gives_strict_turns(server, make_keeper, history):
    """Work three times as long as the watchdog's lease: nobody gets in between."""
    keepers = [make_keeper(server.unix_url, watchdog_ms=600) for _ in range(3)]
    paths = [history() for _ in keepers]
    runs = [keeper.say("stress", thread="s", name="turns", threads=1, pairs=1,
                       hold_us=1_800_000, history=path, run=number)
            for number, (keeper, path) in enumerate(zip(keepers, paths))]
    for run in runs:
        answer = run.result(30)
        assert (answer["acquire_OK"], answer["release_OK"]) == (1, 1), dict(answer)
    made = checker.check(checker.read(*paths))
    assert len(made) == 3
    assert all(claim.end_ns - claim.start_ns > 1_700 * MS for claim in made)


@pytest.mark.slow
def test_renewed_while_the_process_lives_and_free_one_lease_after(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=1500)
    keeper.call("acquire", "alive").ok()
    field = server.holders("alive")
    never(lambda: server.holders("alive") != field, 4, "the lock is not kept")
    assert 0 < server.call("PTTL", "alive") <= 1500
    keeper.kill()
    assert server.call("EXISTS", "alive") == 1
    until(lambda: server.call("EXISTS", "alive") == 0, 3, "free one lease after")


@pytest.mark.parametrize("threads", [1, 8])
def test_ten_thousand_pairs_on_fresh_names(server, keeper, history, threads):
    path = history()
    answer = keeper.call("stress", thread="s", name="fresh", names=0, threads=threads,
                         pairs=10000 // threads, history=path, limit=120)
    assert (answer["acquire_OK"], answer["release_OK"]) == (10000, 10000), dict(answer)
    assert len(checker.check(checker.read(path))) == 10000
    assert nothing_left(server)
    assert keeper.stats().held == 0


def rush(keeper, path) -> int:
    """At most one of 1,000 threads has it; how many the server has not answered in 10 ms."""
    answer = keeper.call("stress", thread="s", name="rush", threads=1000, pairs=1, wait=10,
                         hold_us=4_000_000, history=path, limit=60)
    granted = answer.get("acquire_OK", 0)
    unanswered = answer.get("acquire_LK_EMAYBEHELD", 0) + answer.get("acquire_LK_EUNREACHABLE", 0)
    assert granted <= 1, dict(answer)
    assert granted + answer.get("acquire_LK_ETIMEDOUT", 0) + unanswered == 1000, dict(answer)
    checker.check(checker.read(path))
    return unanswered if granted else 1000


@pytest.mark.parametrize("same_process", [True, False])
def test_cancelled_wait_leaves_nothing(server, make_keeper, same_process):
    holder = make_keeper(server.unix_url)
    waiter = holder if same_process else make_keeper(server.unix_url)
    holder.call("acquire", "held", thread="h").ok()
    waits = waiter.say("acquire", "held", thread="w", cancel="token")
    if not same_process:
        until(lambda: server.channels(), 5)
    never(lambda: waits.done, 0.1)
    waiter.cancel("token")
    waits.result(2).is_code("LK_ECANCELLED")
    until(lambda: server.channels() == [], 5, "unsubscribed")
    assert waiter.stats().waiting == 0
    holder.call("release", "held", thread="h").ok()
    never(lambda: server.call("EXISTS", "held"), 0.1)
    waiter.call("try", "held", thread="x").ok()


def test_last_waiter_unsubscribes(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", "last").ok()
    short = b.say("within", "last", thread="1", wait=300)
    long = b.say("within", "last", thread="2", wait=900)
    until(lambda: server.channels(), 5)
    assert server.call("PUBSUB", "NUMSUB", "redisson_lock__channel:{last}")[1] == 1
    short.result().is_code("LK_ETIMEDOUT")
    until(lambda: server.channels(), 2, "the other still listens")
    assert not long.done
    long.result().is_code("LK_ETIMEDOUT")
    until(lambda: server.channels() == [], 5)
