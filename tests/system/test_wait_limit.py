"""A wait with a limit rides out what may pass, from the first connect on; one without does not."""
from __future__ import annotations

import contextlib
import os
import socket
import threading

import pytest

import resp
from refusing import WRITES_REFUSED
from waiting import until

WAYS = ("calls", "queue", "loop")
LOCKS = ("lock", "fair", "fenced", "spin", "plain", "read", "write", "multi")
KINDS = (*LOCKS, "semaphore", "permits", "latch")
WAIT_MS = 60_000
TRIES = 3  # after so many that failed, a wait is known to go on

LATER = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "busy": b"-BUSY Redis is busy running a script.\r\n",
    "too many clients": b"-ERR max number of clients reached\r\n",
    "a replica": b"-MASTERDOWN Link with MASTER is down\r\n",
    "a proxy without a server": b"-no upstream host\r\n",
    "closed at once": b"",
}


class Door:
    """The path of a server's unix socket: nothing is there, or who says one thing and hangs up, or
    the server."""

    def __init__(self, folder):
        self.path = folder / "door.sock"
        self.listener = None

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def say(self, words: bytes) -> Door:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(100)
        threading.Thread(target=self.answer, args=(self.listener, words), daemon=True).start()
        return self

    @staticmethod
    def answer(listener: socket.socket, words: bytes) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer = listener.accept()[0]
                with contextlib.suppress(OSError), peer:
                    peer.sendall(words)

    def open(self, server) -> None:
        """The server is there from now on."""
        if self.listener:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.path.unlink()
        os.symlink(server.path, self.path)


@pytest.fixture
def door(folder):
    return Door(folder)


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


class User:
    """A process with a client that logs its failures to connect; calls go the way."""

    def __init__(self, keeper, way: str, url: str, **options):
        self.keeper, self.way = keeper, way
        keeper.open(url, threadless=int(way == "loop"), log_level=2, **options)

    def say(self, verb: str, kind: str, owner: str = "one", **arguments):
        name = kind if kind != "multi" else "multi0,multi1"
        return self.keeper.say(verb, name, thread=f"{owner}-{kind}", kind=kind,
                               queue=int(self.way != "calls"), **arguments)

    def failures(self) -> int:
        return sum("cannot connect" in line for line in self.keeper.logs)

    def fails_again(self) -> None:
        """Returns when it has failed to connect a few more times."""
        least = self.failures() + TRIES
        until(lambda: self.failures() >= least, 30, "it tries again")


def make_counters(server, make_keeper) -> None:
    """There are permits to be had."""
    keeper = make_keeper(server.unix_url)
    for kind in ("semaphore", "permits"):
        keeper.call("set", kind, kind=kind, count=1).ok()


def all_within(user: User) -> dict:
    return {kind: user.say("within", kind, wait=WAIT_MS) for kind in KINDS}


def all_granted(waits: dict) -> None:
    for wait in waits.values():
        wait.result(60).ok()


def test_a_refused_port(server, make_keeper, door, way):
    """Every kind waits for it within its limit. Without one, and for a mere try, it is told."""
    make_counters(server, make_keeper)
    user = User(make_keeper(), way, door.url)
    for kind in KINDS:
        answer = user.say("acquire", kind).result(60).is_code("LK_EUNREACHABLE")
        assert str(door.path) in answer.message
        if kind != "latch":  # it has no try
            user.say("try", kind).result(60).is_code("LK_EUNREACHABLE")
    waits = all_within(user)
    user.fails_again()
    assert not any(wait.done for wait in waits.values())
    for verb, limit in (("try", {}), ("within", {"wait": 100})):  # behind the one that waits
        told = user.say(verb, "lock", owner="another", **limit).result(60)
        assert str(door.path) in told.is_code("LK_EUNREACHABLE").message
    door.open(server)
    all_granted(waits)


@pytest.mark.parametrize("trouble", LATER)
def test_a_server_that_will_answer_later(server, make_keeper, door, trouble, way):
    make_counters(server, make_keeper)
    door.say(LATER[trouble])
    user = User(make_keeper(), way, door.url)
    for verb in ("acquire", "try"):
        user.say(verb, "lock").result(60).is_code("LK_EUNREACHABLE", "LK_EUNAVAILABLE",
                                                  "LK_EPROTOCOL")
    waits = all_within(user)
    user.fails_again()
    assert not any(wait.done for wait in waits.values())
    door.open(server)
    all_granted(waits)


def test_too_many_clients(server, make_keeper, way):
    """As a real server says it, to the first connection or to the one for messages."""
    with server.connect() as control:
        control.call("CONFIG", "SET", "maxclients", 1)
        user = User(make_keeper(), way, server.unix_url)
        waits = user.say("within", "lock", wait=WAIT_MS)
        user.fails_again()
        assert not waits.done
        control.call("CONFIG", "SET", "maxclients", 1000)
        waits.result(60).ok()


def test_a_server_that_runs_a_script(make_server, make_keeper, way):
    server = make_server(busy_reply_threshold=5)
    with server.connect() as control, server.connect() as other:
        other.send("EVAL", "while true do end", 0)
        until(lambda: busy(control), 10, "it is busy")
        user = User(make_keeper(), way, server.unix_url)
        user.say("try", "lock").result(60).is_code("LK_EUNAVAILABLE")
        waits = user.say("within", "lock", wait=WAIT_MS)
        user.fails_again()
        assert not waits.done
        control.call("SCRIPT", "KILL")
        waits.result(60).ok()


def busy(control) -> bool:
    try:
        control.call("PING")
    except resp.ErrorReply as error:
        return str(error).startswith("BUSY")
    return False


def refusals(server, word: str) -> int:
    """How often the server has said so."""
    for line in server.call("INFO", "errorstats").decode().splitlines():
        if line.startswith(f"errorstat_{word}:count="):
            return int(line.split("=")[1])
    return 0


@pytest.mark.parametrize("refusal", WRITES_REFUSED)
def test_writes_that_are_refused(server, make_keeper, way, refusal):
    """NOREPLICAS and MISCONF are no answer to who waits with a limit: a replica comes back, a save
    succeeds. A latch is only read."""
    make_counters(server, make_keeper)
    refused = contextlib.ExitStack()
    refused.enter_context(WRITES_REFUSED[refusal](server))
    user = User(make_keeper(), way, server.unix_url)
    for verb in ("acquire", "try"):
        told = user.say(verb, "lock").result(60).is_code("LK_EREFUSED")
        assert refusal in told.message
    waits = {kind: user.say("within", kind, wait=WAIT_MS) for kind in KINDS if kind != "latch"}
    least = refusals(server, refusal) + TRIES * len(waits)
    until(lambda: refusals(server, refusal) >= least, 30, "they try again")
    assert not any(wait.done for wait in waits.values())
    refused.close()
    all_granted(waits)


def test_too_little_memory_is_told_at_once(server, make_keeper, way):
    """To try again would add to it."""
    server.set("maxmemory", 1)
    user = User(make_keeper(), way, server.unix_url)
    for kind in LOCKS:
        told = user.say("within", kind, wait=WAIT_MS).result(30).is_code("LK_EREFUSED")
        assert "OOM" in told.message


def change_password(server, password: str) -> None:
    """And ends the connections that know the old one."""
    with server.connect() as control:
        control.call("CONFIG", "SET", "requirepass", password)
        control.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        control.call("CLIENT", "KILL", "TYPE", "pubsub")
    server.config["requirepass"] = password


@pytest.mark.parametrize("first", [True, False], ids=["first connect", "while it waits"])
def test_a_password_that_is_being_changed(make_server, make_keeper, folder, way, first):
    """The file is written some time after the server was told. Nobody storms it meanwhile."""
    server = make_server(requirepass="old")
    file = folder / "password"
    file.write_text("old\n")
    other = make_keeper(server.unix_url, password="old")
    other.call("acquire", "lock").ok()
    user = User(make_keeper(), way, server.unix_url, password_file=file)
    if not first:
        user.say("try", "fair").result(60).ok()
    waits = user.say("within", "lock", wait=WAIT_MS) if not first else None
    if waits:
        until(server.channels, 10, "it waits")
    change_password(server, "new")
    before = refusals(server, "WRONGPASS")
    waits = waits or user.say("within", "lock", wait=WAIT_MS)
    user.fails_again()
    user.say("acquire", "spin").result(60).is_code("LK_EAUTH")  # it has no limit
    assert not waits.done
    assert refusals(server, "WRONGPASS") - before < 100
    file.write_text("new\n")
    server.call("DEL", "lock")
    waits.result(60).ok()


def test_a_password_that_stays_is_told_at_once(make_server, make_keeper, way):
    server = make_server(requirepass="right")
    user = User(make_keeper(), way, server.unix_url, password="wrong")
    for kind in (*LOCKS, "semaphore", "permits", "latch"):
        user.say("within", kind, wait=WAIT_MS).result(30).is_code("LK_EAUTH")


def test_a_call_after_a_failed_one_asks_again(server, make_keeper, door, way):
    """However often it failed before: the server is back, and the old reason is none any more."""
    user = User(make_keeper(), way, door.url)
    for _ in range(12):
        user.say("try", "lock").result(60).is_code("LK_EUNREACHABLE")
    door.open(server)
    user.say("try", "lock").result(60).ok()


def test_a_list_without_a_master(replicas, make_keeper, way):
    """While it is being replaced by hand, there is none for a moment."""
    pair = replicas(count=2)
    old, new = pair.servers
    old.call("REPLICAOF", *pair.place(new).split())
    user = User(make_keeper(), way, pair.url)
    user.say("try", "lock").result(60).is_code("LK_EUNAVAILABLE", "LK_EUNREACHABLE")
    waits = user.say("within", "lock", wait=WAIT_MS)
    user.fails_again()
    assert not waits.done
    new.call("REPLICAOF", "NO", "ONE")
    waits.result(60).ok()


def test_sentinels_that_replace_the_master(watched, make_keeper, way):
    trio = watched()
    old = trio.master()
    old.kill()
    user = User(make_keeper(), way, trio.url)
    user.say("within", "lock", wait=WAIT_MS).result(60).ok()
    assert trio.master() is not old
