"""The barrier in Redis: its script asked directly, as lost answers and dead parties would."""
from __future__ import annotations

import pytest

import lua
import resp
from servers import Subscriber
from waiting import until

MEET, RENEW = lua.text_of("barrier", "meet"), lua.text_of("barrier", "renew")
KEYS = ["step", "lockkeeper_fence:{step}"]
CHANNEL = "lockkeeper_barrier:{step}"


class Barrier:
    def __init__(self, server):
        self.connection = server.connect()

    def ask(self, what: str, party: str, *arguments):
        return self.connection.call("EVAL", MEET, 2, *KEYS, what, party, CHANNEL, *arguments)

    def come(self, party: str, what="await", parties=2, lease=30000, late_us=3_000_000, once=0):
        """The generation; None where the party is to wait."""
        said = self.ask(what, party, lease, self.now_us() + late_us, parties, once)
        if isinstance(said, int):
            assert 0 < said <= lease
            return None
        assert said.startswith("TOKEN "), said
        return int(said.split()[1])

    def enter(self, party: str, **options):
        return self.come(party, "enter", **options)

    def leave(self, party: str, generation: int):
        return self.come(party, "leave", parties=generation)

    def release(self, party: str):
        return self.ask("release", party)

    def renew(self, party: str, lease=30000):
        return self.connection.call("EVAL", RENEW, 1, KEYS[0], party, lease) == [1]

    def now_us(self) -> int:
        seconds, micros = self.connection.call("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def outlive(self, party: str) -> None:
        ends_ms = int(self.connection.call("HGET", KEYS[0], party).split()[1])
        until(lambda: self.now_us() > 1000 * (ends_ms + 1), 5, "its lease is over")

    def states(self) -> dict[str, str]:
        words = [word.decode() for word in self.connection.call("HGETALL", KEYS[0])]
        pairs = dict(zip(words[::2], words[1::2]))
        pairs.pop("parties", None)
        return {party: text.split()[0] for party, text in pairs.items()}


@pytest.fixture
def barrier(server):
    made = Barrier(server)
    yield made
    made.connection.close()


def test_all_get_one_generation(server, barrier):
    listener = Subscriber(server, CHANNEL)
    assert barrier.come("a:1", parties=3) is None and barrier.come("b:1", parties=3) is None
    generation = barrier.come("c:1", parties=3)
    assert generation > 0
    until(lambda: listener.messages, 5, "a message")
    assert listener.messages[0] == b"look"
    listener.stop()
    assert barrier.come("a:1", parties=3) == barrier.come("b:1", parties=3) == generation
    assert set(barrier.states().values()) == {"met"}
    for party in ("a:1", "b:1", "c:1"):
        assert barrier.ask("told", party) == 1
    assert server.call("EXISTS", KEYS[0]) == 0
    assert 0 < server.call("PTTL", KEYS[1]) <= 2592000000


def test_each_key_has_a_ttl(server, barrier):
    barrier.come("a:1", lease=5000)
    assert 3604000 < server.call("PTTL", KEYS[0]) <= 3605000
    barrier.connection.call("DEL", KEYS[0])
    barrier.release("c:1")
    assert 0 < server.call("PTTL", KEYS[0]) <= 60000


def test_a_repetition_is_counted_once(barrier):
    assert barrier.come("a:1") is None
    assert barrier.come("a:1") is None, "a repetition is not a second party"
    generation = barrier.come("b:1")
    assert barrier.come("b:1") == generation, "its answer was lost"
    assert barrier.come("c:1") is None
    assert barrier.come("a:1") == generation, "it comes to no second generation"
    assert barrier.states()["c:1"] == "await"


def test_a_release_says_whether_it_was_counted(barrier):
    assert barrier.come("a:1") is None
    assert barrier.release("a:1") == 0
    assert barrier.ask("await", "a:1", 30000, barrier.now_us() + 3_000_000, 2, 0) == "GONE", \
        "a copy of its request takes no place"
    assert barrier.come("b:1") is None, "one that gave up is not counted"
    generation = barrier.come("c:1")
    assert barrier.release("b:1") == generation == barrier.release("b:1")
    assert barrier.release("never:1") is None
    assert barrier.ask("await", "never:1", 30000, barrier.now_us() + 3_000_000, 2, 0) == "GONE"


def test_generations_rise(server, barrier):
    last = 0
    for round_ in range(5):
        barrier.come(f"a:{round_}")
        generation = barrier.come(f"b:{round_}")
        assert generation > last
        last = generation
    server.call("FLUSHALL")
    barrier.come("a:9")
    assert barrier.come("b:9") > last
    server.call("SET", KEYS[1], 4_000_000_000_000_000)
    barrier.come("c:9")
    assert barrier.come("d:9") == 4_000_000_000_000_001, "the clock was set back"


def test_one_that_was_away_is_told(barrier):
    assert barrier.come("a:1", lease=50) is None
    barrier.outlive("a:1")
    assert barrier.come("b:1") is None
    assert barrier.come("a:1", lease=50) is not None, "it takes its place again"
    barrier.ask("told", "a:1"), barrier.ask("told", "b:1")
    assert barrier.come("c:1", lease=50) is None
    barrier.outlive("c:1")
    barrier.come("d:1")
    assert barrier.come("e:1") is not None, "others meet without it"
    assert barrier.states()["c:1"] == "gone"
    assert barrier.ask("await", "c:1", 50, barrier.now_us() + 3_000_000, 2, 0) == "GONE"


def test_the_next_wait_until_all_have_left(server, barrier):
    barrier.enter("a:1")
    generation = barrier.enter("b:1")
    assert barrier.enter("a:1") == generation
    assert barrier.renew("a:1") and not barrier.renew("x:1")
    assert barrier.enter("c:1") is None and barrier.enter("d:1") is None
    listener = Subscriber(server, CHANNEL)
    assert barrier.release("a:1") == generation
    assert not barrier.renew("a:1")
    until(lambda: listener.messages, 5, "a message")
    assert listener.messages[0] == b"look"
    listener.stop()
    assert barrier.leave("a:2", generation) is None, "b is inside"
    assert barrier.enter("c:1") is None
    assert barrier.release("b:1") == generation
    assert barrier.leave("a:2", generation) == generation
    assert barrier.enter("c:1") > generation
    assert barrier.leave("b:2", generation) == generation, "the next ones do not hold it up"
    assert barrier.enter("d:1") == barrier.enter("c:1")


def test_one_that_dies_inside_has_left(barrier):
    barrier.enter("a:1", lease=50)
    generation = barrier.enter("b:1")
    barrier.release("b:1")
    until(lambda: barrier.leave("b:2", generation) == generation, 5, "its lease is over")
    assert not barrier.renew("a:1"), "what is over is not renewed"
    assert barrier.states()["a:1"] == "left"


def test_broken_all_are_told(barrier):
    barrier.come("a:1")
    assert barrier.ask("force", "") == 1
    assert barrier.ask("force", "") == 0
    assert barrier.ask("await", "a:1", 30000, barrier.now_us() + 3_000_000, 2, 0) == "GONE"
    assert barrier.come("b:1") is None and barrier.come("c:1") is not None
    barrier.enter("d:1"), barrier.enter("e:1")
    generation = barrier.enter("d:1")
    barrier.release("d:1")
    assert barrier.leave("d:2", generation) is None, "e is inside"
    assert barrier.ask("force", "") == 1
    assert not barrier.renew("e:1")
    assert barrier.release("e:1") is None, "it had left before, and works on"
    late_us = barrier.now_us() + 3_000_000
    assert barrier.ask("leave", "d:2", 30000, late_us, generation, 0) == "GONE"


def test_what_does_not_fit_is_refused(server, barrier):
    late = barrier.ask("await", "a:1", 30000, barrier.now_us() - 1, 2, 0)
    assert late.startswith("LATE ")
    assert server.call("EXISTS", KEYS[0]) == 0
    barrier.come("a:1")
    others = barrier.ask("await", "b:1", 30000, barrier.now_us() + 3_000_000, 3, 0)
    assert others.startswith("OTHERS ") and others.endswith("to be 2")
    for wrong in (("0", 2), ("30000", 0), ("30000", 1001), ("x", 2)):
        with pytest.raises(resp.ErrorReply, match="bad lease"):
            barrier.ask("await", "b:1", wrong[0], barrier.now_us() + 3_000_000, wrong[1], 0)
    server.call("DEL", KEYS[0])
    server.call("HSET", KEYS[0], "a:1", 1)
    with pytest.raises(resp.ErrorReply, match="WRONGTYPE"):
        barrier.come("b:1")


def test_a_barrier_is_no_lock(server, barrier):
    """Most of its fields look like an owner's, and their values do not."""
    for number in range(1, 9):
        barrier.come(f"a:{number}", parties=20)
    late_us = barrier.now_us() + 60_000_000
    asks = {("lock", "acquire"): ["b:1", 1000, late_us],
            ("multi", "acquire"): ["b:1", 1000, late_us],
            ("lock", "force_release"): [""]}
    for script, arguments in asks.items():
        for _ in range(20):
            with pytest.raises(resp.ErrorReply, match="WRONGTYPE.* not a lock"):
                server.call("EVAL", lua.text_of(*script), 1, KEYS[0], *arguments)
    assert len(barrier.states()) == 8
