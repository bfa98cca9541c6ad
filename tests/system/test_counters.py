"""Semaphores and latches through connections that end: each change counts once, none is lost."""
from __future__ import annotations

import socket
import threading
import time

import pytest

from keeper import CLOSE_ABANDON
from proxy import CUT_BEFORE, SWALLOW, Cut, Once, Park, Replace
from waiting import never, until

PLACES = {
    "before the request": (False, CUT_BEFORE),
    "in the request": (False, Cut(20)),
    "behind the request": (False, Cut(1 << 20)),
    "before the reply": (True, CUT_BEFORE),
    "in the reply": (True, Cut(2)),
    "behind the reply": (True, Cut(1 << 20)),
}
USED = "{pool}:timeout"


def script_on(name: bytes, reply: bool):
    """A call of a script with this key, or its answer."""
    return lambda m: m.reply == reply and m.what == "evalsha" and m.lock == name


@pytest.fixture
def through(proxy, make_keeper):
    """A client behind the proxy that is connected, and has used all the scripts."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=3000)
    for kind in ("semaphore", "permits", "latch"):
        keeper.call("set", f"warm-{kind}", kind=kind, count=2).ok()
    keeper.call("acquire", "warm-semaphore", kind="semaphore").ok()
    keeper.call("release", "warm-semaphore", kind="semaphore").ok()
    keeper.call("add", "warm-semaphore", kind="semaphore", count=1).ok()
    keeper.call("drain", "warm-semaphore", kind="semaphore").ok()
    ids = keeper.call("acquire", "warm-permits", kind="permits", count=1).ok()["ids"]
    keeper.call("release", "warm-permits", kind="permits", count=1, ids=ids).ok()
    keeper.call("down", "warm-latch", kind="latch", count=1).ok()
    keeper.call("down", "warm-latch", kind="latch", count=1).ok()
    keeper.call("acquire", "warm-latch", kind="latch").ok()
    return keeper


def count(server, name="pool") -> int:
    return int(server.call("GET", name) or 0)


def cut(proxy, name: bytes, place: str) -> Once:
    reply, verdict = PLACES[place]
    proxy.rule = Once(script_on(name, reply), verdict)
    return proxy.rule


@pytest.mark.parametrize("place", PLACES)
def test_semaphore_cut(server, proxy, through, place):
    server.call("SET", "pool", 5)
    for verb, permits, left in (("acquire", 2, 3), ("release", 1, 4), ("add", 3, 7),
                                ("drain", 1, 0)):
        once = cut(proxy, b"pool", place)
        result = through.call(verb, "pool", kind="semaphore", count=permits)
        assert once.hit.is_set()
        if verb == "drain":
            assert result.result == 7
        else:
            result.ok()
        never(lambda left=left: count(server) != left, 0.05, f"{verb} counts once")
    server.call("DEL", "pool")
    cut(proxy, b"pool", place)
    assert through.call("set", "pool", kind="semaphore", count=4).result == 1
    assert count(server) == 4


@pytest.mark.parametrize("place", PLACES)
def test_latch_cut(server, proxy, through, place):
    cut(proxy, b"ready", place)
    assert through.call("set", "ready", kind="latch", count=3).result == 1
    for left in (2, 1):
        once = cut(proxy, b"ready", place)
        through.call("down", "ready", kind="latch", count=1).ok()
        assert once.hit.is_set() and count(server, "ready") == left
    waits = through.say("acquire", "ready", kind="latch", thread="w")
    until(lambda: server.channels(), 5)
    cut(proxy, b"ready", place)
    through.call("down", "ready", kind="latch", count=1).ok()
    waits.result(10).ok()


def on_pool(keeper, queue: int):
    """A call on the permits of the pool, in the calling thread or through a queue."""
    return lambda verb, **words: keeper.call(verb, "pool", kind="permits", queue=queue, **words)


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_permits_cut(server, proxy, through, place, queue):
    call = on_pool(through, queue)
    server.call("SET", "pool", 5)
    cut(proxy, b"pool", place)
    ids = call("acquire", count=3).ok()["ids"].split(",")
    assert (count(server), server.call("ZCARD", USED)) == (2, 3)
    cut(proxy, b"pool", place)
    call("release", count=1, ids=ids[0]).ok()
    assert (count(server), server.call("ZCARD", USED)) == (3, 2)
    cut(proxy, b"pool", place)
    call("release", count=2, ids=",".join(ids[1:])).ok()
    assert (count(server), server.call("ZCARD", USED)) == (5, 0)
    cut(proxy, b"pool", place)
    call("add", count=2).ok()
    assert count(server) == 7


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_one_permit_is_gone_and_the_release_is_cut(server, proxy, through, place, queue):
    """Two copies that find it gone have not freed the others."""
    call = on_pool(through, queue)
    server.call("SET", "pool", 5)
    ids = call("acquire", count=3).ok()["ids"]
    server.call("ZPOPMIN", USED)
    once = cut(proxy, b"pool", place)
    call("release", count=3, ids=ids).is_code("LK_ELOST")
    assert once.hit.is_set()
    assert (count(server), server.call("ZCARD", USED)) == (4, 0)
    until(lambda: through.call("ping") and through.stats().disconnects > 0, 5,
          "it has seen the end of the connection")
    call("release", count=3, ids=ids).is_code("LK_ENOTOWNER")


@pytest.mark.parametrize("queue", [0, 1])
def test_a_release_that_never_arrives(server, proxy, make_keeper, queue):
    """It may be held, says the call; long before the lease ends, nothing is."""
    call = on_pool(make_keeper(proxy.unix_url, command_timeout_ms=600), queue)
    server.call("SET", "pool", 5)
    ids = call("acquire", count=3, lease=600_000).ok()["ids"]
    call("release", count=3, ids=ids).ok()
    ids = call("acquire", count=3, lease=600_000).ok()["ids"]
    swallowed = []

    def swallow(message):
        if not message.reply and message.lock == b"pool":
            swallowed.append(message)
            return SWALLOW
        return None
    proxy.rule = swallow
    call("release", count=3, ids=ids).is_code("LK_EMAYBEHELD")
    assert swallowed and server.call("ZCARD", USED) == 3
    proxy.rule = None
    until(lambda: (count(server), server.call("ZCARD", USED)) == (5, 0), 20, "released")
    call("release", count=3, ids=ids).is_code("LK_ENOTOWNER")


@pytest.mark.parametrize("kind", ["semaphore", "permits"])
def test_an_answer_that_never_comes(server, proxy, make_keeper, kind):
    """What was taken without anybody's knowing comes back."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=3000, command_timeout_ms=600)
    server.call("SET", "pool", 5)
    keeper.call("try", "warm", kind=kind).is_code("LK_EBUSY")
    proxy.rule = once = Once(script_on(b"pool", True), SWALLOW)
    result = keeper.call("try", "pool", kind=kind, count=2)
    assert once.hit.is_set()
    proxy.rule = None
    if result.code == "OK":  # a repetition was answered
        assert count(server) == 3
        return
    result.is_code("LK_EMAYBEHELD")
    until(lambda: count(server) == 5, 10, "given back")
    never(lambda: count(server) != 5, 0.3)
    assert server.call("ZCARD", USED) == 0


def test_a_late_answer_to_a_release_is_not_a_loss(server, proxy, make_keeper):
    """Renewals and the local deadline come while several permits are given back."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=600)
    for name in ("warm", "pool"):
        server.call("SET", name, 5)
        ids = keeper.call("acquire", name, kind="permits", count=2).ok()["ids"]
        if name == "warm":
            keeper.call("release", name, kind="permits", count=2, ids=ids).ok()
    keeper.listen()
    proxy.rule = once = Once(script_on(b"pool", True), Park(1.0))
    keeper.call("release", "pool", kind="permits", count=2, ids=ids).ok()
    assert once.hit.is_set() and count(server) == 5
    never(lambda: keeper.events, 0.3)
    keeper.call("release", "pool", kind="permits", count=2, ids=ids).is_code("LK_ENOTOWNER")
    keeper.call("release", "pool", kind="permits", count=1, ids=ids[:32]).is_code("LK_ENOTOWNER")


def test_a_new_lease_that_comes_too_late(server, proxy, make_keeper):
    """The old one ends before the answer is there: lost, and nothing of it stays behind."""
    keeper = make_keeper(proxy.unix_url)
    server.call("SET", "warm", 1)
    ids = keeper.call("acquire", "warm", kind="permits", count=1).ok()["ids"]
    keeper.call("extend", "warm", kind="permits", ids=ids, lease=60000).ok()
    server.call("SET", "pool", 5)
    ids = keeper.call("acquire", "pool", kind="permits", count=1, lease=600).ok()["ids"]
    proxy.rule = once = Once(script_on(b"pool", True), Park(1.0))
    late = keeper.call("extend", "pool", kind="permits", ids=ids, lease=60000)
    assert once.hit.is_set()
    late.is_code("LK_ELOST")
    until(lambda: count(server) == 5 and server.call("ZCARD", USED) == 0, 5, "given back")
    keeper.call("release", "pool", kind="permits", count=1, ids=ids).is_code("LK_ELOST")


def test_waiting_semaphore_survives_the_server(server, make_keeper):
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    waits = a.say("acquire", "pool", kind="semaphore", count=1)
    latch = a.say("acquire", "ready", kind="latch", thread="l")
    latch.result(5).ok()
    b.call("set", "ready", kind="latch", count=1).ok()
    latch = a.say("acquire", "ready", kind="latch", thread="l")
    until(lambda: len(server.channels()) == 2, 5)
    server.kill()
    server.start()
    latch.result(20).ok()
    b.call("ping")
    until(lambda: b.call("release", "pool", kind="semaphore", count=1).code == "OK", 10)
    waits.result(20).ok()
    assert count(server) in (0, 1)


@pytest.mark.parametrize("kind", ["semaphore", "permits"])
def test_waiters_that_leave_take_nothing(server, make_keeper, kind):
    keeper = make_keeper(server.unix_url)
    waits = [keeper.say("within", "pool", kind=kind, count=1, wait=200, thread=f"t{i}")
             for i in range(5)]
    for wait in waits:
        # On a busy machine a try may have no answer yet at the limit.
        wait.result(10).is_code("LK_ETIMEDOUT", "LK_EMAYBEHELD")
    server.call("SET", "pool", 5)
    never(lambda: count(server) != 5, 0.3)
    assert not server.channels()


def test_permits_are_renewed_and_reported(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    server.call("SET", "pool", 5)
    ids = keeper.call("acquire", "pool", kind="permits", count=2).ok()["ids"].split(",")
    never(lambda: keeper.call("taken", "pool", kind="permits").result != 2, 1.5, "renewed")
    server.call("ZREM", USED, bytes.fromhex(ids[1]))
    event = keeper.call("event", wait=5000)
    assert ids[1] in str(dict(event)), dict(event)
    keeper.call("release", "pool", kind="permits", count=1, ids=ids[1]).is_code("LK_ELOST")
    keeper.call("release", "pool", kind="permits", count=1, ids=ids[0]).ok()
    assert count(server) == 4


@pytest.mark.parametrize("kind", ["semaphore", "permits", "latch"])
def test_clocks_apart(server, proxy, make_keeper, kind):
    """An answer that it came too late teaches the server's time, and the call is made again."""
    keeper = make_keeper(proxy.unix_url)
    keeper.call("set", "pool", kind=kind, count=5).ok()
    seconds, micros = server.call("TIME")
    late = b"+LATE %d\r\n" % (int(seconds) * 10**6 + int(micros) + 1000)
    proxy.rule = once = Once(script_on(b"pool", True), Replace(late))
    verb = {"semaphore": "drain", "permits": "add", "latch": "down"}[kind]
    keeper.call(verb, "pool", kind=kind, count=1)
    assert once.hit.is_set()
    assert count(server) == {"semaphore": 0, "permits": 6, "latch": 4}[kind]


CHANGES = [("semaphore", "add"), ("semaphore", "drain"), ("permits", "add"), ("latch", "down")]
REFUSED = {
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "NOREPLICAS": b"-NOREPLICAS Not enough good replicas to write.\r\n",
    "LATE": b"+LATE 1\r\n", "OVERFLOW": b"+OVERFLOW\r\n",
}


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("kind, verb", CHANGES)
def test_a_copy_that_is_refused(server, proxy, through, kind, verb, refused):
    """The first copy has run, and its answer is lost: nobody is told that it was not done."""
    server.call("SET", "pool", 5)
    answers = [CUT_BEFORE, *[Replace(REFUSED[refused])] * 3]
    requests = [None, *[SWALLOW] * 3]

    def rule(message):
        if message.what != "evalsha" or message.lock != b"pool":
            return None
        if message.reply:
            return answers.pop(0)
        verdict = requests.pop(0)
        return verdict and Replace(b"*1\r\n$4\r\nPING\r\n")
    proxy.rule = rule
    result = through.call(verb, "pool", kind=kind, count=1)
    assert count(server) == {"add": 6, "drain": 0, "down": 4}[verb], "it was done"
    result.is_code("OK", "LK_EMAYBEHELD")


@pytest.mark.parametrize("kind, verb", CHANGES)
def test_a_late_copy_finds_the_record_of_the_first(server, proxy, through, kind, verb):
    server.call("SET", "pool", 5)
    answers = [CUT_BEFORE, Replace(b"+LATE 1\r\n")]
    proxy.rule = lambda m: answers.pop(0) if answers and script_on(b"pool", True)(m) else None
    through.call(verb, "pool", kind=kind, count=1)
    assert not answers
    assert count(server) == {"add": 6, "drain": 0, "down": 4}[verb], "it was done, and once"


@pytest.mark.parametrize("kind", ["semaphore", "permits", "latch"])
def test_the_first_request_of_a_client_is_in_time(server, proxy, make_keeper, kind):
    """Its deadline is told in the server's time, which is known by then."""
    answers = []

    def rule(message):
        if message.reply and script_on(b"pool", True)(message) and \
                not str(message.value).startswith("NOSCRIPT"):
            answers.append(message.value)
    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    assert keeper.call("set", "pool", kind=kind, count=5).result == 1
    assert answers == [1]


class Strayed:
    """A rule: the first request with this key gets lost on the way with its connection, and
    arrives when arrive() is called; what becomes of the answer to its repetition is `answer`."""

    def __init__(self, name: bytes, answer=None):
        self.name, self.answer, self.bytes = name, answer, b""

    def __call__(self, message):
        if message.what != "evalsha" or message.lock != self.name:
            return None
        if message.reply:
            return self.answer
        if self.bytes:
            return None
        self.bytes = message.data
        return CUT_BEFORE

    def arrive(self, server) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server.path)
            connection.sendall(self.bytes)
            return connection.recv(100)


KINDS = ["semaphore", "permits"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_strayed_copy_of_an_abandoned_try(server, proxy, through, kind):
    proxy.rule = strayed = Strayed(b"pool")
    through.call("within", "pool", kind=kind, count=2, wait=300).is_code("LK_ETIMEDOUT")
    server.call("SET", "pool", 5)
    strayed.arrive(server)
    until(lambda: count(server) == 5, 10, "what the copy took is given back")
    assert server.call("ZCARD", USED) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_strayed_copy_of_a_try_whose_caller_left_before_the_answer(server, proxy, through, kind):
    server.call("SET", "pool", 5)
    proxy.rule = strayed = Strayed(b"pool", Park(0.6))
    through.call("within", "pool", kind=kind, count=2, wait=300)
    until(lambda: count(server) == 5, 10, "the answer has come, and was not wanted")
    strayed.arrive(server)
    until(lambda: count(server) == 5, 10, "what the copy took is given back")
    assert server.call("ZCARD", USED) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_strayed_copy_of_a_try_before_the_one_that_was_granted(server, proxy, through, kind):
    proxy.rule = strayed = Strayed(b"pool")
    waits = through.say("within", "pool", kind=kind, count=2, wait=5000)
    until(lambda: server.channels(), 5)
    server.call("SET", "pool", 5)
    ids = waits.result(10).ok().get("ids", "")
    ids = through.call("acquire", "pool", kind=kind, count=1).ok().get("ids", "") or ids
    if kind == "permits":
        ids = waits.result(10)["ids"] + "," + ids
    taken = count(server)
    assert taken == 2
    for given in ids.split(","):
        through.call("release", "pool", kind=kind, count=1, ids=given).ok()
    before = count(server)
    strayed.arrive(server)
    until(lambda: count(server) == before, 10, "what the copy took is given back")


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_compensation_is_repeated(server, proxy, through, kind):
    """The try is granted after its caller has left; what gives it back is refused for a while, and
    then the server has also lost the script."""
    if not server.refuses_scripts():
        pytest.skip("its scripts run without replicas")
    server.call("SET", "pool", 5)
    granted, refused = threading.Event(), []

    def rule(message):
        if not script_on(b"pool", True)(message):
            return None
        if message.data.startswith(b"-NOREPLICAS"):
            refused.append(message)
        return Park(event=granted)
    proxy.rule = rule
    through.call("within", "pool", kind=kind, count=2, wait=200)
    assert count(server) == 3
    server.set("min-replicas-to-write", 1)
    granted.set()
    until(lambda: len(refused) > 1, 5)
    server.call("SCRIPT", "FLUSH")
    server.set("min-replicas-to-write", 0)
    until(lambda: count(server) == 5, 10, "given back")
    assert server.call("ZCARD", USED) == 0


def test_a_compensation_that_stays_refused_backs_off(server, proxy, through):
    if not server.refuses_scripts():
        pytest.skip("its scripts run without replicas")
    server.call("SET", "pool", 5)
    granted, refused = threading.Event(), []

    def rule(message):
        if not script_on(b"pool", True)(message):
            return None
        if message.data.startswith(b"-NOREPLICAS"):
            refused.append(time.monotonic())
        return Park(event=granted)
    proxy.rule = rule
    through.call("within", "pool", kind="semaphore", count=2, wait=200)
    server.set("min-replicas-to-write", 1)
    granted.set()
    until(lambda: len(refused) > 2, 10)
    assert refused[2] - refused[0] > 0.55, "the second pause is longer than the first"
    server.set("min-replicas-to-write", 0)
    until(lambda: count(server) == 5, 10, "given back")


def test_close_waits_for_a_refused_compensation_and_says_so(server, proxy, through):
    if not server.refuses_scripts():
        pytest.skip("its scripts run without replicas")
    server.call("SET", "pool", 5)
    granted, refused = threading.Event(), threading.Event()

    def rule(message):
        if not script_on(b"pool", True)(message):
            return None
        if message.data.startswith(b"-NOREPLICAS"):
            refused.set()
        return Park(event=granted)
    proxy.rule = rule
    through.call("within", "pool", kind="semaphore", count=2, wait=200)
    server.set("min-replicas-to-write", 1)
    granted.set()
    until(refused.is_set, 5)
    assert through.call("close", how=CLOSE_ABANDON).is_code("LK_EMAYBEHELD").took < 8
    server.set("min-replicas-to-write", 0)
    through.call("close", how=CLOSE_ABANDON).ok()
    assert count(server) == 5


def test_an_acquire_is_undone_after_a_long_outage(server, proxy, make_keeper):
    """No lease ends what was taken: the client has to come back for it."""
    keeper = make_keeper(proxy.unix_url, watchdog_ms=400, command_timeout_ms=200)
    server.call("SET", "pool", 5)
    keeper.call("try", "warm", kind="semaphore").is_code("LK_EBUSY")

    def rule(message):
        if not script_on(b"pool", True)(message):
            return None
        proxy.refuse = True
        return CUT_BEFORE
    proxy.rule = rule
    keeper.call("within", "pool", kind="semaphore", count=2, wait=300).is_code("LK_EMAYBEHELD")
    never(lambda: count(server) != 3, 2)
    proxy.rule, proxy.refuse = None, False
    until(lambda: count(server) == 5, 10, "given back")


NOT_DONE = [
    ("semaphore", "set", {"count": 3}, 5), ("latch", "set", {"count": 3}, 5),
    ("permits", "set", {"count": 3}, 5), ("semaphore", "release_if_exists", {"count": 1}, None),
    ("semaphore", "drain", {}, 0), ("latch", "down", {"count": 1}, None),
]


@pytest.mark.parametrize("kind, verb, given, before", NOT_DONE)
def test_a_late_copy_makes_no_change_that_was_denied(server, proxy, through, kind, verb, given,
                                                     before):
    """The first copy strays, the second is told that there is nothing to do; then there is."""
    if before is not None:
        server.call("SET", "pool", before)
    proxy.rule = strayed = Strayed(b"pool")
    assert through.call(verb, "pool", kind=kind, **given).ok().result == 0
    after = None if before == 5 else b"7"
    server.call(*(("SET", "pool", after) if after else ("DEL", "pool")))
    strayed.arrive(server)
    assert server.call("GET", "pool") == after
