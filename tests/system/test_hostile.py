"""Peers that are no Redis, replies that are none, and servers that cannot be reached."""
from __future__ import annotations

import pathlib
import socket
import time

import pytest

from keeper import CLOSE_ABANDON
from proxy import CUT_BEFORE, Drip, Once, Park, Replace, reply_to
from waiting import until

GARBAGE = {
    "nothing but an end": b"\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "tls alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "zeros": b"\0" * 1000,
    "deep": b"*1\r\n" * 100_000 + b":1\r\n",
    "eight deep": b"*1\r\n" * 8 + b":1\r\n",
    "a thousand million elements": b"*1000000000\r\n",
    "2^31 - 1 elements": b"*2147483647\r\n:1\r\n",
    "2^31 elements": b"*2147483648\r\n",
    "2^63 elements": b"*9223372036854775808\r\n",
    "many wide arrays": b"*65536\r\n" * 5,
    "huge bulk": b"$999999999999\r\nabc",
    "2^63 bulk": b"$9223372036854775808\r\n",
    "bulk over the cap": b"$50000000\r\n" + b"x" * 5_000_000,
    "negative bulk": b"$-7\r\n",
    "negative array": b"*-2\r\n",
    "bulk without its end": b"$3\r\nabcd\r\n",
    "integer overflow": b":99999999999999999999999\r\n",
    "integer with letters": b":12abc\r\n",
    "empty integer": b":\r\n",
    "unknown kind": b"?x\r\n",
    "line without end": b"+" + b"a" * 5_000_000,
    "resp3 null": b"_\r\n",
    "resp3 map": b"%1\r\n+a\r\n+b\r\n",
    "resp3 push": b">2\r\n+message\r\n+x\r\n",
    "status": b"+OK\r\n",
    "late without a number": b"+LATE\r\n",
    "late with rubbish": b"+LATE x\r\n",
    "late for ever": b"+LATE 9223372036854775807\r\n",
    "late before all time": b"+LATE -5\r\n",
    "bulk": b"$5\r\nhello\r\n",
    "array": b"*2\r\n:1\r\n:2\r\n",
    "empty array": b"*0\r\n",
    "message": b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\n0\r\n",
    "error": b"-ERR whatever it is\r\n",
    "unknown error": b"-SOMETHING new\r\n",
    "empty error": b"-\r\n",
    "nested error": b"*1\r\n-ERR inside\r\n",
    "moved": b"-MOVED 1234 127.0.0.1:1\r\n",
    "huge ttl": b":9223372036854775807\r\n",
    "ttl of no key": b":-2\r\n",
    "ttl of minus many": b":-9223372036854775808\r\n",
    "two replies": b":5\r\n:6\r\n",
}


def resident_kb(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


@pytest.fixture
def through(proxy, make_keeper):
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=1000)
    keeper.call("acquire", "warm").ok()
    keeper.call("release", "warm").ok()
    return keeper


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_for_an_acquire(server, proxy, through, name):
    """Granted by the server, answered with garbage: whatever is said, it is true."""
    before = resident_kb(through.pid)
    proxy.rule = once = Once(reply_to("acquire"), Replace(GARBAGE[name]))
    answer = through.call("within", "garbage", wait=1500, lease=4000)
    assert once.hit.is_set()
    proxy.rule = None
    if answer.code == "OK":
        assert server.call("HLEN", "garbage") == 1
        through.call("release", "garbage").ok()
    else:
        assert answer.message
        assert through.call("is_held", "garbage").result == 0
    until(lambda: server.call("EXISTS", "garbage") == 0, 6, "at the latest after its lease")
    through.call("within", "garbage", wait=3000).ok()
    assert resident_kb(through.pid) - before < 60_000


@pytest.mark.parametrize("call, limit", [("acquire", {}), ("within", {"wait": 30000}), ("try", {})])
def test_an_unknown_error_of_a_script_is_told_at_once(server, proxy, make_keeper, call, limit):
    """The server would give the same error again, so the wait ends. What the try did is undone."""
    keeper = make_keeper(proxy.unix_url)
    keeper.call("ping").ok()
    proxy.rule = lambda m: Replace(GARBAGE["error"]) if reply_to("acquire")(m) else None
    answer = keeper.call(call, "told", **limit).is_code("LK_EMAYBEHELD")
    assert "whatever it is" in answer.message
    assert answer.took < 5
    until(lambda: server.call("EXISTS", "told") == 0, 10, "compensated")


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_for_a_release(server, proxy, through, name):
    through.call("acquire", "garbage", lease=4000).ok()
    proxy.rule = once = Once(reply_to("release"), Replace(GARBAGE[name]))
    answer = through.call("release", "garbage")
    assert once.hit.is_set()
    assert answer.took < 5
    proxy.rule = None
    assert through.call("hold_count", "garbage").result == 0
    until(lambda: server.call("EXISTS", "garbage") == 0, 6)
    through.call("within", "garbage", wait=3000).ok()


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_from_the_start(make_keeper, name):
    """A peer that answers everything with it, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)
    keeper = make_keeper(f"redis://127.0.0.1:{listener.getsockname()[1]}",
                         connect_timeout_ms=1000, command_timeout_ms=500)
    asked = keeper.say("try", "garbage")
    peers = []
    while not asked.done and len(peers) < 50:
        try:
            listener.settimeout(0.1)
            peer, _ = listener.accept()
        except TimeoutError:
            continue
        peer.settimeout(1)
        peers.append(peer)
        try:
            peer.recv(65536)
            peer.sendall(GARBAGE[name])
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    answer = asked.result(10)
    assert answer.code != "OK" and answer.message
    assert answer.took < 5 and len(peers) < 10
    assert resident_kb(keeper.pid) < 150_000
    for peer in peers:
        peer.close()
    listener.close()


@pytest.mark.parametrize("name", ["http", "zeros", "deep", "huge bulk", "unknown kind",
                                  "a thousand million elements", "error", "status", "array"])
def test_garbage_among_the_messages(server, proxy, make_keeper, name):
    """On the subscription: the waiter gets it all the same."""
    a, b = make_keeper(server.unix_url), make_keeper(proxy.unix_url, command_timeout_ms=1000)
    a.call("acquire", "garbled").ok()
    waits = b.say("acquire", "garbled")
    until(lambda: server.channels(), 5)
    proxy.rule = Once(lambda message: message.what == "message", Replace(GARBAGE[name]))
    server.call("PUBLISH", "redisson_lock__channel:{garbled}", "0")
    until(lambda: proxy.rule.hit.is_set(), 5)
    until(lambda: server.channels(), 5)
    a.call("release", "garbled").ok()
    waits.result(8).ok()


def test_flood_of_forged_messages(server, make_keeper, background):
    """A message only causes a try: nobody is granted what is held, and tries stay bounded."""
    a, b = make_keeper(server.unix_url), make_keeper(server.unix_url)
    a.call("acquire", "flood").ok()
    waits = b.say("within", "flood", wait=1000)
    until(lambda: server.channels(), 5)
    with server.connect() as connection:
        for _ in range(20000):
            connection.send("PUBLISH", "redisson_lock__channel:{flood}", "0")
            connection.read()
    waits.result(10).is_code("LK_ETIMEDOUT")
    assert a.call("is_held", "flood").result == 1


def session(keeper, c: str, url: str, server) -> list[str]:
    """Opens a client, takes and frees a lock alone, then after a wait; the codes of failures."""
    keeper.open(url, c=c, command_timeout_ms=1000)
    failures = []

    def tries(verb, **arguments):
        """Until it succeeds; a first connect that failed is not repeated before its back-off."""
        def once():
            answer = keeper.call(verb, "cut", c=c, thread="s", **arguments)
            if answer.code != "OK":
                failures.append(answer.code)
            return answer.code == "OK"
        until(once, 5, f"{verb} succeeds")
    tries("acquire", lease=20000)
    assert list(server.holders("cut").values()) == [b"1"]
    tries("release")
    server.call("HSET", "cut", "stranger:1", 1)
    server.call("PEXPIRE", "cut", 25)
    tries("within", wait=5000, lease=20000)
    assert list(server.holders("cut").values()) == [b"1"]
    tries("release")
    assert server.call("EXISTS", "cut") == 0
    keeper.call("close", c=c, how=CLOSE_ABANDON, thread="s")
    keeper.call("free", c=c, thread="s")
    return failures


def test_slow_drip_does_not_hold_off_the_limit(server, proxy, make_keeper):
    """Each byte comes within the limit, the whole does not."""
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=300)
    keeper.call("ping").ok()
    proxy.rule = lambda message: Drip(0.2) if reply_to("acquire")(message) else None
    answer = keeper.call("within", "drip", wait=1000)
    answer.is_code("LK_EMAYBEHELD", "LK_EUNREACHABLE")
    assert answer.took < 4
    proxy.rule = None
    until(lambda: server.call("EXISTS", "drip") == 0, 10)


@pytest.mark.parametrize("late_s, code", [(0.03, "LK_ETIMEDOUT"), (4, "LK_EMAYBEHELD")],
                         ids=["a-little", "for-good"])
@pytest.mark.parametrize("queue", [0, 1])
def test_an_answer_that_comes_behind_the_limit(server, proxy, make_keeper, queue, late_s, code):
    """It has a tenth of the limit, at most a quarter of a second: a limit that passes while a try
    is on its way does not leave the outcome open."""
    other, limit_s = make_keeper(server.unix_url), 3.0
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=20_000)  # another limit
    other.call("acquire", "late").ok()
    keeper.call("try", "late", queue=queue).is_code("LK_EBUSY")
    asked = []

    def rule(message):
        if message.reply and message.what == "acquire":
            asked.append(message)
            ends = begun + limit_s + late_s
            return Park(max(ends - time.monotonic(), 0)) if len(asked) > 1 else None
        return None

    begun, proxy.rule = time.monotonic(), rule
    wait = keeper.say("within", "late", wait=int(limit_s * 1000), queue=queue)
    until(lambda: len(asked) > 1, limit_s, "it listens, and asks again")
    answer = wait.result().is_code(code)
    least_s = limit_s + (0.25 if code == "LK_EMAYBEHELD" else 0)
    assert least_s <= answer.took < least_s + 2, answer.took
    proxy.rule = None


def test_connection_refused(make_keeper, folder):
    for url in ("redis://127.0.0.1:1", f"unix://{folder}/nobody.sock"):
        keeper = make_keeper(url)
        for verb in ("ping", "try", "acquire", "within"):
            answer = keeper.call(verb, "refused", wait=900)
            answer.is_code("LK_EUNREACHABLE")
            assert answer.took < 3, "the first connect fails at once"
            assert "refused" in answer.message or "No such file" in answer.message


def black_hole() -> tuple[socket.socket, list[socket.socket]]:
    """A listener whose queue is full: further connections get no answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        fillers.append(filler)
    return listener, fillers


def test_black_hole_connect_limit_holds(make_keeper):
    listener, fillers = black_hole()
    keeper = make_keeper(f"redis://127.0.0.1:{listener.getsockname()[1]}", connect_timeout_ms=800)
    answer = keeper.call("acquire", "hole").is_code("LK_EUNREACHABLE")
    assert 0.7 < answer.took < 4
    assert keeper.call("ping").is_code("LK_EUNREACHABLE").took < 4
    for held in [listener, *fillers]:
        held.close()


def test_impatient_callers_do_not_restart_the_connect(server, proxy, make_keeper):
    """Connecting goes on when the caller that began it has left: otherwise 1 ms never connects."""
    keeper = make_keeper(proxy.unix_url)
    proxy.rule = lambda message: Drip(0.002) if message.reply else None
    codes = set()

    def asked():
        answer = keeper.call("within", "patience", wait=1)
        codes.add(answer.code)
        return answer.code == "OK" or keeper.stats().connects > 0
    until(asked, 15, "a connection is made in the end")
    proxy.rule = None
    keeper.call("within", "patience", wait=3000).ok()
    assert proxy.accepted < 10, "a connect for each impatient caller"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300 + ".invalid"])
def test_name_that_does_not_resolve(make_keeper, host):
    keeper = make_keeper()
    opened = keeper.call("open", url=f"redis://{host}:6380", connect_timeout_ms=1500)
    if opened.code == "OK":
        answer = keeper.call("try", "dns").is_code("LK_EUNREACHABLE")
        assert answer.took < 6
        assert host[:60] in answer.message
    else:
        opened.is_code("LK_EINVAL")


def test_reconnects_in_a_storm_are_spaced(server, proxy, make_keeper):
    """Back-off: a server that hangs up at once is not asked thousands of times."""
    keeper = make_keeper(proxy.unix_url)
    keeper.call("ping").ok()
    before = proxy.accepted
    proxy.rule = lambda message: CUT_BEFORE if message.reply else None
    keeper.call("within", "storm", wait=1500).is_code("LK_EUNREACHABLE", "LK_EMAYBEHELD")
    assert proxy.accepted - before < 120
    proxy.rule = None
    keeper.call("within", "storm", wait=5000).ok()


def is_fenced_acquire(message) -> bool:
    return message.argv[0].lower() in (b"eval", b"evalsha") and \
        any(word.startswith(b"lockkeeper_fence:") for word in message.argv)


@pytest.mark.parametrize("token", ["1.795751193735E15", "5 ", "-5", "9007199254740992", "0x10"])
def test_a_token_that_is_no_number_is_no_grant(proxy, make_keeper, token):
    """Half of it would be a token too, and everybody would get the same."""
    keeper = make_keeper(proxy.url)
    proxy.rule = lambda m: Replace(b"+TOKEN %s\r\n" % token.encode()) \
        if m.reply and is_fenced_acquire(m) else None
    refused = keeper.call("try", "n", kind="fenced").is_code("LK_EMAYBEHELD")
    assert f"TOKEN {token}" in refused.message, refused


@pytest.mark.parametrize("us", ["1000000", "1795263964999999", "-1", "5.5", ""])
def test_a_time_that_is_none_is_an_error_that_shows_it(proxy, make_keeper, us):
    """A proxy that adds up the answers of its servers would have no request ever be too late."""
    said = b"*2\r\n$10\r\n1795263965\r\n$%d\r\n%s\r\n" % (len(us), us.encode())
    proxy.rule = lambda m: Replace(said) if m.reply and m.what == "time" else None
    refused = make_keeper(proxy.url).call("try", "n").is_code("LK_EPROTOCOL")
    assert f"1795263965 {us}".strip() in refused.message, refused
