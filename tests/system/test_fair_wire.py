"""The fair lock in Redis: its one script asked directly, and what is left by it and by Java."""
from __future__ import annotations

import time

import pytest

import lua
import resp
from redisson_fair import JavaFairLock, keys_of
from servers import Subscriber, channel_of
from waiting import until

WAIT_MS = 300000
TEXT = lua.text_of("fair", "queue")


class Fair:
    """The script of the fair lock, as the library calls it."""

    def __init__(self, server, name: str = "f"):
        self.connection, self.keys = server.connect(), keys_of(name)
        self.channel = channel_of(name)

    def ask(self, what: str, field: str, *arguments):
        return self.connection.call("EVAL", TEXT, 4, *self.keys, what, field,
                                    self.channel, *arguments)

    def acquire(self, field: str, lease=30000, wait=WAIT_MS, what="acquire", late_us=10_000_000,
                nonce="5eed"):
        return self.ask(what, field, lease, wait, self.now_us() + late_us, nonce)

    def release(self, field: str):
        return self.ask("release", field)

    def now_us(self) -> int:
        seconds, micros = self.connection.call("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def queue(self) -> list[str]:
        return [field.decode() for field in self.connection.call("LRANGE", self.keys[1], 0, -1)]

    def score(self, field: str) -> float | None:
        """In ms from now; None without one."""
        score = self.connection.call("ZSCORE", self.keys[2], field)
        return None if score is None else float(score) - self.off() - self.now_us() / 1000

    def off(self) -> int:
        """What the scores are too high by."""
        return int((self.connection.call("HGET", self.keys[3], "off") or b"0").split()[0])

    def holder(self) -> str | None:
        fields = self.connection.call("HKEYS", self.keys[0])
        return fields[0].decode() if fields else None


@pytest.fixture
def fair(server):
    made = Fair(server)
    yield made
    made.connection.close()


def about(value, wanted, slack=2000):
    return wanted - slack <= value <= wanted + slack


def test_queue_and_scores_are_redissons(server, fair):
    assert fair.acquire("a:1") is None
    ttl_ms, server_us = fair.acquire("b:1")
    assert about(ttl_ms, 30000) and about(server_us, fair.now_us(), 2_000_000)
    java = JavaFairLock(server, "f")
    assert about(java.ask(), 330000), "Java counts on the score of the one before it"
    fair.acquire("c:1")
    assert fair.queue() == ["b:1", java.field, "c:1"]
    assert about(fair.score("b:1"), 330000)
    assert about(fair.score(java.field), 630000)
    assert about(fair.score("c:1"), 930000)
    assert server.call("TYPE", fair.keys[3]) == "hash"
    assert server.call("PTTL", fair.keys[3]) > 900000
    assert server.call("HKEYS", fair.keys[3]) == [b"b:1", b"c:1"], "Java is not in our own hash"
    java.close()


def test_scores_move_up_with_every_grant(server, fair):
    fair.acquire("a:1")
    for field in ("b:1", "c:1", "d:1"):
        fair.acquire(field)
    assert fair.release("a:1") == 0
    assert fair.acquire("b:1") is None
    assert about(fair.score("c:1"), 330000) and about(fair.score("d:1"), 630000)
    assert fair.release("c:1") == 0, "a waiter that gives up"
    assert about(fair.score("d:1"), 330000)
    assert fair.queue() == ["d:1"]
    fair.release("b:1")
    assert fair.acquire("d:1") is None and fair.release("d:1") == 0
    assert server.call("DBSIZE") == 0


def test_scores_are_put_right_when_java_comes(server, fair):
    """While all are ours it is only noted how much too high the scores are."""
    fair.acquire("a:1")
    for number in range(6):
        fair.acquire(f"w:{number}")
    for before, after in (("a:1", "w:0"), ("w:0", "w:1"), ("w:1", "w:2")):
        fair.release(before)
        assert fair.acquire(after) is None
    assert fair.off() == 900000
    assert about(fair.score("w:3"), 330000)
    java = JavaFairLock(server, "f")
    java.ask()
    assert about(fair.score(java.field), 4 * 300000 + 30000)
    fair.release("w:2")
    assert fair.acquire("w:3") is None
    assert server.call("HGET", fair.keys[3], "off") is None
    assert about(fair.score("w:4"), 330000), "as Java reads it"
    assert about(fair.score(java.field), 3 * 300000 + 30000)
    java.close()


def hand_over_twice(server, fair) -> None:
    """b, c and d have waited: c has the lock, d waits, and two waits are noted."""
    listeners = [Subscriber(server, f"{fair.channel}:{field}") for field in ("b:1", "c:1")]
    for field in ("a:1", "b:1", "c:1", "d:1"):
        fair.acquire(field)
    assert fair.release("a:1") == 1 and fair.release("b:1") == 1
    for listener in listeners:
        listener.stop()
    assert fair.holder() == "c:1" and fair.queue() == ["d:1"] and fair.off() == 600000


def java_keeps_its_place(server, fair, holder) -> None:
    """A waiter of Java's with one of ours behind it, when the holder dies: told, and not passed."""
    java = JavaFairLock(server, "f")
    heard = Subscriber(server, f"{java.prefix}:{java.field}")
    assert java.ask() > 0
    fair.acquire("e:1")
    assert about(fair.score(java.field), 330000) and about(fair.score("e:1"), 630000)
    server.call("DEL", "f") if holder is None else fair.release(holder)
    assert isinstance(fair.acquire("e:1"), list), "Java is next"
    assert fair.queue() == [java.field, "e:1"]
    assert java.ask() is None and java.unlock() == 1
    heard.stop()
    java.close()


def test_a_leaving_waiter_clears_its_score_offset(server, fair):
    """Only Java is left in the queue, takes the lock by its own script, and others come."""
    hand_over_twice(server, fair)
    first = JavaFairLock(server, "f")
    assert about(first.ask(), 930000, 3000)
    assert fair.release("d:1") == 0, "it gives up"
    assert about(fair.score(first.field), 330000, 3000) and fair.off() == 0
    fair.release("c:1")
    assert first.ask() is None and fair.queue() == []
    java_keeps_its_place(server, fair, None)
    first.close()


def test_a_dropped_waiter_clears_its_score_offset(server, fair):
    hand_over_twice(server, fair)
    first = JavaFairLock(server, "f")
    first.ask()
    server.call("ZADD", fair.keys[2], fair.now_us() // 1000 + 600000 - 1, "d:1")
    assert fair.release("c:1") > -1
    assert fair.queue() == [first.field] and fair.off() == 0
    assert first.ask() is None
    java_keeps_its_place(server, fair, None)
    first.close()


@pytest.mark.parametrize("come_back", [False, True])
def test_java_emptying_the_queue_voids_the_score_offset(server, fair, come_back):
    """As it does when the scores of dead ones are past, or with delete()."""
    hand_over_twice(server, fair)
    server.call("DEL", fair.keys[1], fair.keys[2])
    if come_back:
        java = JavaFairLock(server, "f")
        java.ask()
        fair.acquire("d:1")
        assert about(fair.score(java.field), 330000) and about(fair.score("d:1"), 630000)
        java.give_up()
        assert fair.release("d:1") == 0
        java.close()
    java_keeps_its_place(server, fair, "c:1")


def test_safe_to_send_twice(fair):
    assert fair.acquire("a:1", lease=5000) is None
    assert fair.acquire("a:1", lease=30000) is None
    assert about(fair.connection.call("PTTL", "f"), 30000)
    fair.acquire("b:1")
    fair.acquire("b:1")
    assert fair.queue() == ["b:1"]
    assert about(fair.score("b:1"), 330000)
    assert fair.release("a:1") == 0
    assert fair.release("a:1") is None
    assert fair.release("stranger") is None
    assert fair.queue() == ["b:1"]


def test_a_shorter_lease_is_answered_with_longer(fair):
    """One that was handed it with the lease of an earlier try: nothing is shortened."""
    assert fair.acquire("a:1", lease=60000) is None
    assert fair.acquire("a:1", lease=5000) == "LONGER"
    assert about(fair.connection.call("PTTL", "f"), 60000)


def test_cannot_run_late(server, fair):
    answer = fair.acquire("a:1", late_us=-1)
    assert answer.startswith("LATE ") and about(int(answer[5:]), fair.now_us(), 2_000_000)
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("lease, wait", [(0, 1), (-1, 1), ("1.5", 1), ("x:1", 1), (10**18, 1),
                                         (1, 0), (1, -1), (1, "y:1"), (1, 10**18), (1, "2.5")])
def test_arguments_are_checked_before_anything_is_written(server, fair, lease, wait):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad"):
        fair.acquire("a:1", lease=lease, wait=wait)
    assert server.call("DBSIZE") == 0


def test_other_types_are_refused(server, fair):
    server.call("HSET", "f", "mode", "read", "x:1", 1)
    for ask in (lambda: fair.acquire("a:1"), lambda: fair.ask("force", "")):
        with pytest.raises(resp.ErrorReply, match="WRONGTYPE.*read/write lock, not a fair lock"):
            ask()
    server.call("DEL", "f")
    server.call("HSET", "f", "colour", "red")
    for ask in (lambda: fair.acquire("a:1"), lambda: fair.ask("force", "")):
        with pytest.raises(resp.ErrorReply, match="WRONGTYPE.*not a lock"):
            ask()
    server.call("SET", "f", "text")
    for ask in (lambda: fair.acquire("a:1"), lambda: fair.release("a:1"),
                lambda: fair.ask("force", "")):
        with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
            ask()
    assert server.call("KEYS", "*") == [b"f"]


def test_try_takes_no_place_and_overtakes_nobody(server, fair):
    assert fair.acquire("a:1", what="try") is None
    assert fair.acquire("b:1", what="try")[0] > 0
    assert fair.queue() == []
    java = JavaFairLock(server, "f")
    java.ask()
    fair.release("a:1")
    assert fair.acquire("b:1", what="try")[0] > 0, "the lock is free, but Java is next"
    assert fair.acquire("c:1", what="try")[0] > 0
    assert java.ask() is None
    java.close()


def test_release_hands_over_to_one_of_ours_that_listens(server, fair):
    fair.acquire("a:1")
    fair.acquire("b:1", lease=7000, nonce="b0b")
    fair.acquire("c:1")
    listeners = {field: Subscriber(server, f"{fair.channel}:{field}") for field in ("b:1", "c:1")}
    before_us = fair.now_us()
    assert fair.release("a:1") == 1, "one message, to one waiter"
    assert fair.holder() == "b:1"
    assert about(server.call("PTTL", "f"), 7000), "the lease that it has asked for"
    until(lambda: listeners["b:1"].messages, 5)
    (message,) = listeners["b:1"].messages
    verb, at_us, nonce = message.split()
    assert verb == b"granted" and before_us <= int(at_us) <= fair.now_us()
    assert nonce == b"b0b", "what b has named with its place"
    assert fair.queue() == ["c:1"] and listeners["c:1"].messages == []
    assert fair.score("b:1") is None and about(fair.score("c:1"), 330000)
    assert fair.connection.call("HKEYS", fair.keys[3]) == [b"c:1", b"off"]
    assert fair.acquire("b:1") is None, "whose message was lost finds out with its next try"
    for listener in listeners.values():
        listener.stop()


def test_the_newest_try_of_a_waiter_names_the_nonce(server, fair):
    fair.acquire("a:1")
    for nonce in ("1", "2", "ff"):
        fair.acquire("b:1", nonce=nonce)
    listener = Subscriber(server, f"{fair.channel}:b:1")
    assert fair.release("a:1") == 1
    until(lambda: listener.messages, 5)
    assert listener.messages[0].split()[2] == b"ff"
    listener.stop()


@pytest.mark.parametrize("nonce", ["", "x:1", "1 2", "-1", "0x1"])
def test_a_nonce_is_a_number(server, fair, nonce):
    with pytest.raises(resp.ErrorReply, match="LOCKKEEPER bad"):
        fair.acquire("a:1", nonce=nonce)
    assert server.call("DBSIZE") == 0


def test_java_is_woken_as_it_expects(server, fair):
    java = JavaFairLock(server, "f")
    fair.acquire("a:1")
    java.ask()
    heard = Subscriber(server, f"{java.prefix}:{java.field}")
    assert fair.release("a:1") == 1
    until(lambda: heard.messages == [b"0"], 5)
    assert fair.holder() is None and fair.queue() == [java.field]
    fair.acquire("b:1")
    fair.acquire("b:1")
    assert heard.messages == [b"0"], "told once, however often others look"
    assert java.ask() is None and java.unlock() == 1
    heard.stop()
    java.close()


def test_java_wakes_ours(server, fair):
    java = JavaFairLock(server, "f")
    assert java.ask() is None
    fair.acquire("b:1")
    heard = Subscriber(server, f"{fair.channel}:b:1")
    assert java.unlock() == 1
    until(lambda: heard.messages == [b"0"], 5)
    assert fair.acquire("b:1") is None
    heard.stop()
    java.close()


def test_silent_head_of_ours_costs_seconds_and_another_watches(server, fair):
    fair.acquire("a:1")
    for field in ("b:1", "c:1", "d:1"):
        fair.acquire(field)
    guard = Subscriber(server, f"{fair.channel}:d:1")
    fair.release("a:1")
    assert fair.holder() is None and fair.queue() == ["b:1", "c:1", "d:1"]
    assert 2000 < fair.score("b:1") <= 3000
    until(lambda: guard.messages == [b"look"], 5)
    wait_ms, _ = fair.acquire("d:1")
    assert 0 < wait_ms <= 3000, "it learns when it is worth to look again"
    assert guard.messages == [b"look"], "it is not told by its own look"
    assert fair.acquire("b:1") is None, "who was only slow has kept its turn"
    guard.stop()


def dead(count: int) -> list[str]:
    return [f"dead:{number}" for number in range(count)]


def silence_passes(server, fair) -> list[str]:
    """As if it were over for all whose silence is measured; who they are."""
    now_ms, silent = int(fair.now_us() / 1000), []
    asked = server.call("HGETALL", fair.keys[3])
    for field, words in zip(asked[::2], (value.split() for value in asked[1::2])):
        if field == b"off" or len(words) < 4:
            continue
        assert 2000 < int(words[3]) - now_ms <= 3000
        server.call("HSET", fair.keys[3], field, b" ".join([*words[:3], b"%d" % now_ms]))
        silent.append(field.decode())
    return silent


@pytest.mark.parametrize("may_ask", [True, False])
def test_any_number_of_silent_waiters_costs_one_silence(server, fair, may_ask):
    if not may_ask:
        server.call("ACL", "SETUSER", "default", "-pubsub")
    fair.acquire("a:1")
    for field in (*dead(50), "b:1"):
        fair.acquire(field)
    guard = Subscriber(server, f"{fair.channel}:b:1")
    fair.release("a:1")
    assert fair.holder() is None and fair.queue() == [*dead(50), "b:1"]
    until(lambda: guard.messages == [b"look"], 5, "however many are dead before it")
    assert 0 < fair.acquire("b:1")[0] <= 3000
    assert sorted(silence_passes(server, fair)) == sorted(dead(50))
    assert fair.acquire("b:1") is None and fair.queue() == []
    guard.stop()


def test_the_silence_of_those_between_the_living_is_measured_too(server, fair):
    living = [f"b:{number}" for number in range(4)]
    fair.acquire("a:1")
    for pair in zip(dead(4), living):
        for field in pair:
            fair.acquire(field)
    listeners = [Subscriber(server, f"{fair.channel}:{field}") for field in living]
    fair.release("a:1")
    assert sorted(silence_passes(server, fair)) == dead(4)
    assert fair.acquire("b:0") is None
    for before, after in zip(living, living[1:]):
        assert fair.release(before) == 1 and fair.holder() == after, "nobody waits for the dead"
    for listener in listeners:
        listener.stop()


def test_a_silent_waiter_that_asks_again_has_its_time_anew(server, fair):
    fair.acquire("a:1")
    for field in ("dead:0", "b:1", "c:1"):
        fair.acquire(field)
    guard = Subscriber(server, f"{fair.channel}:c:1")
    fair.release("a:1")
    fair.acquire("b:1")
    assert silence_passes(server, fair) == ["dead:0"]
    assert fair.acquire("c:1")[0] > 0
    assert fair.queue() == ["b:1", "c:1"] and fair.holder() is None
    assert fair.acquire("b:1") is None
    guard.stop()


def test_a_silent_waiter_that_becomes_the_head_is_looked_after(server, fair):
    """Its silence was noted behind a living one, and the first who listens stands behind it."""
    fair.acquire("a:1")
    for field in ("slow:1", "b:1", "dead:0", "c:1"):
        fair.acquire(field)
    listeners = {field: Subscriber(server, f"{fair.channel}:{field}") for field in ("b:1", "c:1")}
    fair.release("a:1")
    assert fair.acquire("slow:1") is None
    assert fair.release("slow:1") == 1 and fair.holder() == "b:1"
    fair.release("b:1")
    assert fair.holder() is None
    until(lambda: listeners["c:1"].messages == [b"look"], 5)
    for listener in listeners.values():
        listener.stop()


def test_a_pattern_subscriber_is_not_a_waiter(server, fair):
    fair.acquire("a:1")
    for field in ("b:1", "c:1", "d:1"):
        fair.acquire(field)
    guard = Subscriber(server, f"{fair.channel}:d:1")
    with server.connect() as monitor:
        monitor.call("PSUBSCRIBE", "*")
        fair.release("a:1")
    assert fair.holder() is None and fair.queue() == ["b:1", "c:1", "d:1"]
    until(lambda: guard.messages == [b"look"], 5, "c does not listen either")
    guard.stop()


def test_hand_over_where_the_user_may_not_ask_who_listens(server, fair):
    server.call("ACL", "SETUSER", "default", "-pubsub")
    fair.acquire("a:1")
    fair.acquire("b:1")
    listener = Subscriber(server, f"{fair.channel}:b:1")
    assert fair.release("a:1") == 1 and fair.holder() == "b:1"
    listener.stop()


def test_a_waiter_that_finds_a_silent_head_sends_itself_no_message(server, fair):
    fair.acquire("a:1", lease=200)
    fair.acquire("b:1")
    fair.acquire("c:1")
    guard = Subscriber(server, f"{fair.channel}:c:1")
    until(lambda: server.call("EXISTS", "f") == 0, 5)
    assert fair.acquire("c:1")[0] <= 3000
    assert fair.score("b:1") <= 3000
    server.call("PUBLISH", f"{fair.channel}:c:1", "last")
    until(lambda: guard.messages, 5)
    assert guard.messages == [b"last"]
    guard.stop()


def test_dead_head_of_java_costs_its_own_limit(server, fair):
    java = JavaFairLock(server, "f", wait_ms=700)
    fair.acquire("a:1", lease=800)
    java.ask()
    fair.acquire("b:1")
    heard = Subscriber(server, f"{fair.channel}:b:1")
    fair.release("a:1")
    wait_ms, _ = fair.acquire("b:1")
    assert 100 < wait_ms <= 1000, "who is second looks again soon: Java may have taken it"
    until(lambda: fair.acquire("b:1") is None, 10)
    assert fair.queue() == []
    heard.stop()
    java.close()


def test_others_behind_a_dead_head_look_less_often(server, fair):
    java = JavaFairLock(server, "f")
    fair.acquire("a:1")
    java.ask()
    fair.acquire("b:1", lease=20000)
    fair.acquire("c:1", lease=20000)
    fair.release("a:1")
    assert fair.acquire("b:1", lease=20000)[0] == 1000
    assert fair.acquire("c:1", lease=20000)[0] == 20000
    assert fair.acquire("x:1", what="try")[0] > 1000
    java.close()


def test_head_without_a_score_is_dropped_in_time(server, fair):
    fair.acquire("a:1")
    server.call("RPUSH", fair.keys[1], "lost:1")
    fair.acquire("b:1")
    fair.release("a:1")
    assert 2000 < fair.score("lost:1") <= 3000
    server.call("ZADD", fair.keys[2], int(fair.now_us() / 1000), "lost:1")
    assert fair.acquire("b:1") is None


def test_waiter_that_gives_up_passes_on_what_it_was_handed(server, fair):
    fair.acquire("a:1")
    fair.acquire("b:1")
    fair.acquire("c:1")
    listeners = [Subscriber(server, f"{fair.channel}:{field}") for field in ("b:1", "c:1")]
    fair.release("a:1")
    assert fair.holder() == "b:1"
    fair.release("b:1")
    assert fair.holder() == "c:1"
    for listener in listeners:
        listener.stop()


def test_force_release_hands_to_the_next(server, fair):
    assert fair.ask("force", "") == 0
    fair.acquire("a:1")
    fair.acquire("b:1")
    listener = Subscriber(server, f"{fair.channel}:b:1")
    assert fair.ask("force", "") == 1
    assert fair.holder() == "b:1"
    assert fair.release("a:1") is None, "it is not the owner any more"
    listener.stop()


def test_expired_lock_does_not_belong_to_its_former_owner(server, fair):
    fair.acquire("a:1", lease=100)
    until(lambda: server.call("EXISTS", "f") == 0, 5)
    assert fair.release("a:1") is None, "Redisson would call it released"


def test_a_waiter_with_signs_of_life_keeps_its_turn(server, fair):
    """Redisson drops a live waiter whose score passes while the holder renews for long."""
    fair.acquire("a:1")
    fair.acquire("b:1", wait=1000)
    server.call("ZADD", fair.keys[2], int(fair.now_us() / 1000) + 500, "b:1")
    fair.acquire("b:1", wait=1000)
    assert fair.score("b:1") > 25000


def test_release_works_when_memory_is_full(server, fair):
    fair.acquire("a:1")
    fair.acquire("b:1")
    listener = Subscriber(server, f"{fair.channel}:b:1")
    server.set("maxmemory", "1")
    with pytest.raises(resp.ErrorReply, match="OOM"):
        fair.acquire("c:1")
    fair.release("a:1")
    assert fair.holder() == "b:1", "handed over, although memory is full"
    fair.release("b:1")
    assert fair.holder() is None
    listener.stop()


def test_fast_clock_of_java_costs_a_place_and_not_the_lock(server, fair):
    fair.acquire("a:1")
    fair.acquire("b:1")
    fast = JavaFairLock(server, "f", clock_ms=3_600_000)
    fast.ask()
    assert fair.queue() == [fast.field], "Redisson takes ours for dead"
    fair.acquire("b:1")
    assert fair.queue() == [fast.field, "b:1"]
    fair.release("a:1")
    assert fast.ask() is None and fair.acquire("b:1")[0] > 0
    assert fast.unlock() == 1
    assert fair.acquire("b:1") is None
    fast.close()


def test_names(server):
    for name, tag in (("f", "{f}"), ("a{b}c", "a{b}c"), ("{t}", "{t}")):
        fair = Fair(server, name)
        fair.acquire("a:1")
        fair.acquire("b:1")
        keys = {name, f"redisson_lock_queue:{tag}", f"redisson_lock_timeout:{tag}",
                f"lockkeeper_fair:{tag}"}
        assert {key.decode() for key in server.call("KEYS", "*")} == keys
        fair.release("a:1")
        fair.release("b:1")
        assert server.call("DBSIZE") == 0
        fair.connection.close()


def test_a_thousand_waiters_cost_the_server_little(server, fair):
    """No speed is asserted but an order: it stays far below what a client takes for a timeout."""
    fair.acquire("a:1")
    for number in range(1000):
        fair.acquire(f"w:{number}")
    begun = time.monotonic()
    fair.release("a:1")
    for number in range(10):
        assert fair.acquire(f"w:{number}") is None
        fair.release(f"w:{number}")
    assert time.monotonic() - begun < 3


def test_java_outlasts_our_waiters_that_all_died(server, fair):
    """However much they had served one another before: Java goes by the scores alone."""
    subscribers = [Subscriber(server, f"{fair.channel}:u:{i}") for i in range(40)]
    fair.acquire("u:0")
    fair.acquire("u:1")
    for i in range(38):
        fair.acquire(f"u:{i + 2}")
        fair.release(f"u:{i}")
    for subscriber in subscribers:
        subscriber.stop()
    java = JavaFairLock(server, "f")
    java.ask()
    raw = float(server.call("ZSCORE", fair.keys[2], fair.queue()[0])) - fair.now_us() / 1000
    assert raw < 30000 + (2 * 2 + 4) * WAIT_MS, f"dead for Java in {raw} ms"
    java.close()
