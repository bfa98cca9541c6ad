"""The fair lock between processes: the order, and what waiters cost the others that go away."""
from __future__ import annotations

import threading

import pytest

from redisson_fair import JavaFairLock, keys_of
from waiting import boottime_ns, until

NAME = "f"
LOCK, QUEUE, SCORES, OURS = keys_of(NAME)


def queue(server) -> list[str]:
    return [field.decode() for field in server.call("LRANGE", QUEUE, 0, -1)]


def listening(server) -> int:
    return sum(channel.startswith(b"redisson_lock__channel:{f}:") for channel in server.channels())


def line_up(server, keeper, thread: str, **arguments):
    """An acquire that now waits: it stands in the queue and hears its messages."""
    length, listeners = len(queue(server)), listening(server)
    pending = keeper.say(arguments.pop("verb", "acquire"), NAME, thread=thread, kind="fair",
                         **arguments)
    until(lambda: len(queue(server)) > length and listening(server) > listeners, 10, "it waits")
    until(lambda: tries_over(keeper), 10, "it has asked again since it listens")
    return pending


def tries_over(keeper) -> bool:
    before = keeper.stats().commands
    return keeper.is_asleep() and keeper.stats().commands == before


def nothing_left(server) -> None:
    until(lambda: server.call("DBSIZE") == 0, 10, "no key is left")
    until(lambda: not server.channels(), 10, "no subscription is left")


def scripts_run(server) -> int:
    return int(server.info("cmdstat_evalsha").split("calls=")[1].split(",")[0])


def test_hand_over_needs_one_command(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", NAME, kind="fair").ok()
    waits = line_up(server, b, "b")
    before = scripts_run(server)
    a.call("release", NAME, kind="fair").ok()
    answer = waits.result(5).ok()
    assert scripts_run(server) == before + 1, "the message is the grant"
    assert answer.deadline_ns - boottime_ns() < 30e9
    assert answer.deadline_ns - boottime_ns() > 25e9
    b.call("release", NAME, thread="b", kind="fair").ok()
    nothing_left(server)


def nonce_of(server) -> bytes:
    """What the only waiter has named with its last try."""
    ((_, asked),) = [(field, asked) for field, asked in zip(*[iter(
        server.call("HGETALL", OURS))] * 2) if field != b"off"]
    return asked.split()[2]


def deceived(server, keeper, waits, message: bytes) -> bool:
    """Publishes it on the waiter's channel; whether more came of it than another try."""
    before, nonce = scripts_run(server), nonce_of(server)
    holder = server.holders(NAME)
    (channel,) = [name for name in server.channels() if name.startswith(b"redisson_lock__channel")]
    assert server.call("PUBLISH", channel, message) == 1
    until(lambda: waits.done or scripts_run(server) > before, 10, "it looks again")
    until(lambda: waits.done or tries_over(keeper), 10)
    return waits.done or server.holders(NAME) != holder or nonce_of(server) == nonce


FORGED = {
    "no nonce": lambda nonce: b"granted 9223372036854775807",
    "an empty one": lambda nonce: b"granted 9223372036854775807 ",
    "zero": lambda nonce: b"granted 9223372036854775807 0000000000000000",
    "a guess": lambda nonce: b"granted 9223372036854775807 0123456789abcdef",
    "one digit wrong": lambda nonce: b"granted 9223372036854775807 " + nonce[:-1] +
        (b"0" if nonce[-1:] != b"0" else b"1"),
    "more behind it": lambda nonce: b"granted 9223372036854775807 " + nonce + b"0",
    "no time": lambda nonce: b"granted " + nonce,
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_hand_over_grants_nothing(server, make_keeper, forged):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", NAME, kind="fair").ok()
    waits = line_up(server, b, "b")
    assert not deceived(server, b, waits, FORGED[forged](nonce_of(server)))
    before = scripts_run(server)
    a.call("release", NAME, kind="fair").ok()
    waits.result(5).ok()
    assert scripts_run(server) == before + 1, "the real one needs no try"
    b.call("release", NAME, thread="b", kind="fair").ok()
    nothing_left(server)


def test_java_and_ours_in_strict_order(server, make_keeper):
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    keepers[0].call("acquire", NAME, kind="fair").ok()
    order: list[str] = []
    turns = []

    def java_turn(java: JavaFairLock) -> None:
        java.lock()
        order.append(java.field)
        assert server.holders(NAME) == {java.field.encode(): b"1"}
        assert java.unlock() == 1

    def our_turn(keeper, thread, pending) -> None:
        pending.result(30).ok()
        (field,) = server.holders(NAME)
        order.append(field.decode())
        keeper.call("release", NAME, thread=thread, kind="fair").ok()
    for number in range(12):
        length = len(queue(server))
        if number % 3 == 1:
            turn = threading.Thread(target=java_turn, args=(JavaFairLock(server, NAME),))
        else:
            keeper, thread = keepers[number % 2], f"t{number}"
            pending = line_up(server, keeper, thread)
            turn = threading.Thread(target=our_turn, args=(keeper, thread, pending))
        turn.start()
        turns.append(turn)
        until(lambda: len(queue(server)) == length + 1, 10)
    expected = queue(server)
    keepers[0].call("release", NAME, kind="fair").ok()
    for turn in turns:
        turn.join(30)
    assert order == expected
    nothing_left(server)


def test_cancelled_and_timed_out_waiters_leave_at_once(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", NAME, kind="fair").ok()
    cancelled = line_up(server, b, "cancelled", cancel="token")
    timed_out = line_up(server, b, "timed", verb="within", wait=600)
    last = line_up(server, b, "last")
    places = queue(server)
    b.cancel("token")
    cancelled.result(5).is_code("LK_ECANCELLED")
    until(lambda: queue(server) == places[1:], 5, "the cancelled one has left")
    timed_out.result(5).is_code("LK_ETIMEDOUT")
    until(lambda: queue(server) == places[2:], 5, "the other too")
    a.call("release", NAME, kind="fair").ok()
    assert last.result(5).ok().took < 20
    b.call("release", NAME, thread="last", kind="fair").ok()
    nothing_left(server)


def test_any_number_of_killed_waiters_costs_no_more(server, make_keeper):
    """Of several processes, before and between those that live."""
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    killed = [make_keeper(server.unix_url) for _ in range(2)]
    a.call("acquire", NAME, kind="fair").ok()
    for number in range(10):
        line_up(server, killed[number % 2], f"k{number}")
    first = line_up(server, b, "first")
    for number in range(10, 15):
        line_up(server, killed[number % 2], f"k{number}")
    last = line_up(server, b, "last")
    for keeper in killed:
        keeper.kill()
    until(lambda: listening(server) == 2, 5, "the server knows that they are gone")
    released_ns = boottime_ns()
    a.call("release", NAME, kind="fair").ok()
    assert first.result(60).ok().end_ns - released_ns > 2e9, "a moment to come back"
    b.call("release", NAME, thread="first", kind="fair").ok()
    answer = last.result(60).ok()
    assert answer.end_ns - released_ns < 9e9, "the silence of one, where there are fifteen"
    b.call("release", NAME, thread="last", kind="fair").ok()
    nothing_left(server)


def test_dead_java_waiter_costs_its_limit_and_no_burst(server, make_keeper):
    keepers = [make_keeper(server.unix_url) for _ in range(2)]
    keepers[0].call("acquire", NAME, kind="fair", lease=1000).ok()
    java = JavaFairLock(server, NAME, wait_ms=3000)
    java.ask()
    java.close()
    turns = [line_up(server, keepers[number % 2], f"t{number}") for number in range(20)]
    before, released_ns = scripts_run(server), boottime_ns()
    keepers[0].call("release", NAME, kind="fair")
    first = turns[0].result(20).ok()
    assert first.end_ns - released_ns < 9e9
    assert scripts_run(server) - before < 60, "a few looks for each who waits"
    for number, turn in enumerate(turns):
        turn.result(20).ok()
        keepers[number % 2].call("release", NAME, thread=f"t{number}", kind="fair").ok()
    nothing_left(server)


def test_java_that_dies_with_the_lock_costs_its_lease(server, make_keeper):
    """Who stands behind a head of Java's looks whether it has taken the lock."""
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", NAME, kind="fair").ok()
    java = JavaFairLock(server, NAME, lease_ms=1500)
    java.ask()
    waits = line_up(server, b, "b")
    a.call("release", NAME, kind="fair").ok()
    assert java.ask() is None
    java.close()
    assert waits.result(20).ok().took < 15
    b.call("release", NAME, thread="b", kind="fair").ok()
    nothing_left(server)
