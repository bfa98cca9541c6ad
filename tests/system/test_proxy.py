"""The faults themselves: what the proxy does to messages is what the tests believe it does."""
from __future__ import annotations

import threading
import time

import pytest

import redisson
import resp
from proxy import (CUT_BEFORE, HOLE, SWALLOW, Cut, Drip, Once, Park, Replace, name_of, reply_to,
                   request)
from waiting import until


def test_passes_everything(server, proxy):
    for address in (proxy.path, ("127.0.0.1", proxy.port)):
        with resp.Connection(address) as connection:
            assert connection.call("SET", "k", b"v\r\n\0") == "OK"
            assert connection.call("GET", "k") == b"v\r\n\0"
            with pytest.raises(resp.ErrorReply):
                connection.call("HGET", "k", "f")


def test_knows_the_scripts_by_their_shape():
    def name(keys, *args):
        return name_of([b"EVALSHA", b"sha", str(keys).encode(), *args])
    assert name(1, b"k", b"u:1", b"30000", b"99") == "acquire"
    assert name(1, b"k", b"u:1", b"redisson_lock__channel:{k}") == "release"
    assert name(1, b"k", b"u:1", b"30000") == "renew"
    assert name(2, b"k", b"l", b"u:1", b"30000", b"u:2", b"900") == "renew"
    assert name(1, b"k", b"u:1", b"u:2", b"30000", b"99", b"channel") == "exchange"
    assert name(1, b"k", b"channel") == "force"
    assert name_of([b"Get", b"k"]) == "get"


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("rst", [False, True])
def test_cuts_replies(server, proxy, at, rst):
    proxy.rule = Once(reply_to("get"), Cut(at, rst))
    with resp.Connection(("127.0.0.1", proxy.port)) as connection:
        connection.send("SET", "k", "v")
        connection.read()
        connection.send("GET", "k")
        got = b""
        try:
            while data := connection.socket.recv(100):
                got += data
            assert not rst
        except ConnectionResetError:
            assert rst
        assert got == b"$1\r\nv\r\n"[:at] or (rst and got == b"")


def test_cuts_before_the_request_arrives(server, proxy):
    proxy.rule = Once(request("set"), CUT_BEFORE)
    with resp.Connection(proxy.path) as connection:
        connection.send("SET", "k", "v")
        with pytest.raises((resp.Closed, ConnectionResetError)):
            connection.read()
    assert server.call("EXISTS", "k") == 0


def test_parks_a_request_past_its_client(server, proxy):
    """What a client sent is executed although the client is gone."""
    gate = threading.Event()
    proxy.rule = once = Once(request("set"), Park(event=gate))
    with resp.Connection(proxy.path) as connection:
        connection.send("SET", "k", "v")
        assert once.hit.wait(5)
    assert server.call("EXISTS", "k") == 0
    gate.set()
    until(lambda: server.call("EXISTS", "k") == 1, 5)


def test_hole_swallow_replace_and_drip(server, proxy):
    proxy.rule = lambda message: {
        "echo": Replace(b"+other\r\n"), "get": Drip(0.02), "time": SWALLOW, "dbsize": HOLE,
    }.get(message.what) if message.reply else None
    with resp.Connection(proxy.path, timeout=0.3) as connection:
        assert connection.call("ECHO", "x") == "other"
        begun = time.monotonic()
        assert connection.call("GET", "k") is None
        assert time.monotonic() - begun > 0.08
    for verb in ("TIME", "DBSIZE"):
        with resp.Connection(proxy.path, timeout=0.3) as connection:
            connection.send(verb)
            connection.send("PING")
            with pytest.raises(TimeoutError):
                connection.read()


def test_refuses_and_listens_again(server, proxy):
    proxy.deafen()
    for address in (proxy.path, ("127.0.0.1", proxy.port)):
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            resp.Connection(address)
    proxy.hear()
    with resp.Connection(("127.0.0.1", proxy.port)) as connection:
        assert connection.call("PING") == "PONG"
        assert proxy.cut_all() == 1
        with pytest.raises((resp.Closed, ConnectionResetError)):
            connection.call("PING")


def test_sees_messages_of_subscriptions(server, proxy):
    seen = []
    proxy.rule = lambda message: seen.append(message.what) if message.reply else None
    with resp.Connection(proxy.path) as connection:
        connection.call("SUBSCRIBE", "c")
        server.call("PUBLISH", "c", "0")
        assert connection.read() == [b"message", b"c", b"0"]
    assert seen == ["subscribe", "message"]


def test_thousands_of_connections(server, proxy):
    for _ in range(2000):
        with resp.Connection(proxy.path) as connection:
            connection.call("PING")
    assert proxy.accepted == 2000


def test_bare_java_client(server):
    """The stand-in for Redisson keeps Redisson's own rules."""
    a, b = redisson.JavaLock(server, "java"), redisson.JavaLock(server, "java")
    a.lock()
    assert b.ask() > 29000
    waits = threading.Thread(target=b.lock)
    waits.start()
    until(lambda: server.channels(), 5)
    assert a.unlock() == 1
    waits.join(5)
    assert list(server.holders("java")) == [b.field.encode()]
    assert a.unlock() is None
    assert b.unlock() == 1
    assert server.call("DBSIZE") == 0
