"""What is granted is on disk: fsync_acks. On servers that have WAITAOF (docs/servers.md); on others
it is refused. A small server of the tests' own gives the answers that are hard to get."""
from __future__ import annotations

import pytest

import moving
import resp
from fake_server import reply_bytes
from keeper import EVENT_LOST
from proxy import HOLE, Replace
from waiting import until

LEASE_MS = 60_000
HANDSHAKE_MS = "100"
PING = b"*1\r\n$4\r\nPING\r\n"


class Syncing:
    """A server whose disk, and those of its replicas, are what a test says."""

    def __init__(self, proxy):
        self.url, self.replica_count, self.tells = proxy.unix_url, 0, [1, 0]
        self.silent = False
        self.asked: list[list[str]] = []
        proxy.rule = self.rule

    def rule(self, message):
        if message.what not in ("wait", "waitaof"):
            return None
        words = [word.decode() for word in message.argv]
        of_handshake = words[-1] == HANDSHAKE_MS
        if not message.reply:
            if not of_handshake:
                self.asked.append(words)
            return HOLE if self.silent and message.what == "waitaof" else Replace(PING)
        if message.what == "wait":
            return Replace(reply_bytes(self.replica_count))
        return Replace(reply_bytes([1, 0] if of_handshake else self.tells))


@pytest.fixture
def disk(proxy):
    return Syncing(proxy)


def has_waitaof(server) -> bool:
    return server.call("COMMAND", "INFO", "WAITAOF") != [None]


@pytest.fixture
def synced(make_server):
    """A real server that syncs after each command."""
    server = make_server(appendonly="yes", appendfsync="always")
    if not has_waitaof(server):
        pytest.skip("it has no WAITAOF")
    return server


def of_replicas(make):
    made = make(appendonly="yes", appendfsync="always")
    if not has_waitaof(made.servers[0]):
        pytest.skip("it has no WAITAOF")
    return made


@pytest.fixture(params=["replicas", "watched"])
def three(request):
    """A master with two replicas, known by number or by address."""
    return of_replicas(request.getfixturevalue(request.param))


def stop_syncing(server) -> None:
    """From now on what is written stays off its disk."""
    server.set("appendfsync", "no")


# ---- what the server says ----

@pytest.mark.parametrize("acks, mode, tells, message", [
    (0, "local", [1, 0], None),
    (0, "local", [0, 0], "its disk did not have it in time"),
    (0, "replicas", [1, 0], None),
    (2, "replicas", [1, 2], None),
    (2, "replicas", [1, 3], None),
    (2, "replicas", [1, 1], "1 of 2 replicas have it on disk"),
    (2, "replicas", [0, 2], "its disk did not have it in time"),
    (2, "replicas", [0, 1], "does not have it on disk, and 1 of 2 replicas have it on disk"),
])
def test_enough_or_too_few(server, disk, make_keeper, acks, mode, tells, message):
    disk.tells = tells
    keeper = make_keeper(disk.url, replica_acks=acks, fsync_acks=mode)
    seen = keeper.call("try", "n", lease=LEASE_MS)
    assert disk.asked[0][:3] == ["WAITAOF", "1", str(acks)]
    if message is None:
        seen.ok()
    else:
        assert message in seen.is_code("LK_ENOTDURABLE").message
        until(lambda: not server.call("EXISTS", "n"), 5, "it is given back")


@pytest.mark.parametrize("count, tells, message", [
    (2, [1, 0], None),
    (1, [1, 0], "1 of 2 replicas have acknowledged it"),
    (1, [0, 0], "does not have it on disk, and 1 of 2 replicas have acknowledged it"),
])
def test_the_masters_disk_and_replicas_in_memory(disk, make_keeper, count, tells, message):
    disk.replica_count, disk.tells = count, tells
    keeper = make_keeper(disk.url, replica_acks=2, fsync_acks="local")
    seen = keeper.call("try", "n", lease=LEASE_MS)
    assert [words[:-1] for words in disk.asked[:2]] == [["WAIT", "2"], ["WAITAOF", "1", "0"]]
    assert sum(int(words[-1]) for words in disk.asked[:2]) < 3000, "half the command limit"
    if message is None:
        seen.ok()
    else:
        assert message in seen.is_code("LK_ENOTDURABLE").message


@pytest.mark.parametrize("tells", [1, [1], [b"1", b"2"], [None, 2], "OK", None, []])
def test_an_answer_that_is_none(server, disk, make_keeper, tells):
    disk.tells = tells
    keeper = make_keeper(disk.url, fsync_acks="local")
    keeper.call("try", "n", lease=LEASE_MS).is_code("LK_ENOTDURABLE")
    until(lambda: not server.call("EXISTS", "n"), 5, "it is given back")


def test_a_refusal_in_between(server, disk, make_keeper):
    """The right to it is taken away, or the file switched off, while the client is connected."""
    keeper = make_keeper(disk.url, fsync_acks="local")
    keeper.call("ping").ok()
    disk.tells = resp.ErrorReply("NOPERM this user has no right to run it")
    seen = keeper.call("try", "n", lease=LEASE_MS).is_code("LK_ENOTDURABLE")
    assert "not known to be on disk" in seen.message and "NOPERM" in seen.message
    until(lambda: not server.call("EXISTS", "n"), 5, "it is given back")


def test_silence(server, disk, make_keeper):
    """The connection counts as lost, and nothing as granted."""
    keeper = make_keeper(disk.url, fsync_acks="local")
    keeper.call("ping").ok()
    disk.silent = True
    seen = keeper.call("within", "n", lease=LEASE_MS, wait=4000)
    seen.is_code("LK_EMAYBEHELD", "LK_ENOTDURABLE", "LK_EUNREACHABLE")
    assert keeper.call("is_held", "n").result == 0
    disk.silent = False
    until(lambda: not server.call("EXISTS", "n"), 20, "it is given back")


@pytest.mark.parametrize("value", ["on", "", "LOCAL", "1"])
def test_bad_input(make_keeper, value):
    seen = make_keeper().call("open", url=f"redis://127.0.0.1?fsync_acks={value}")
    message = seen.is_code("LK_EINVAL").message
    assert "fsync_acks" in message and "is not off, local or replicas" in message


# ---- real servers ----

@pytest.mark.parametrize("mode", ["local", "replicas"])
def test_a_server_that_cannot_tell(make_server, make_keeper, mode):
    """It is refused before anything is written."""
    server = make_server(appendonly="yes")
    if has_waitaof(server):
        pytest.skip("it has WAITAOF")
    seen = make_keeper(server.url, fsync_acks=mode).call("within", "n", wait=20_000)
    message = seen.is_code("LK_EDENIED").message
    assert f"fsync_acks is {mode}" in message and "unknown command" in message
    assert seen.took < 10, "at once"
    assert server.call("DBSIZE") == 0


def test_a_server_without_a_file(make_server, make_keeper):
    server = make_server(appendonly="no")
    if not has_waitaof(server):
        pytest.skip("it has no WAITAOF")
    seen = make_keeper(server.url, fsync_acks="local").call("try", "n")
    message = seen.is_code("LK_EREFUSED").message
    assert "fsync_acks is local" in message and "appendonly" in message
    assert server.call("DBSIZE") == 0


def test_who_may_not_ask(synced, make_keeper):
    synced.call("ACL", "SETUSER", "lk", "on", ">pw", "~*", "&*", "+@all", "-waitaof")
    keeper = make_keeper(synced.url.replace("//", "//lk:pw@"), fsync_acks="local")
    assert "'waitaof'" in keeper.call("try", "n").is_code("LK_EDENIED").message


@pytest.mark.parametrize("kind", moving.LOCKS)
def test_a_grant_counts_when_it_is_on_disk(synced, make_keeper, kind):
    keeper = make_keeper(synced.url, fsync_acks="local")
    for queued in (0, 1):
        keeper.call("acquire", f"good{queued}", kind=kind, queue=queued, lease=LEASE_MS).ok()
    stop_syncing(synced)
    seen = keeper.call("try", "bad", kind=kind, lease=LEASE_MS)
    seen.is_code("LK_ENOTDURABLE", "LK_EMAYBEHELD")
    assert "its disk did not have it in time" in seen.message
    until(lambda: not synced.call("EXISTS", "bad"), 10, "it is given back")
    assert keeper.call("is_held", "bad", kind=kind).result == 0
    synced.set("appendfsync", "always")
    keeper.call("within", "bad", kind=kind, lease=LEASE_MS, wait=20_000).ok()


def test_an_extension_counts_when_it_is_on_disk(synced, make_keeper):
    keeper = make_keeper(synced.url, fsync_acks="local")
    keeper.call("acquire", "some", lease=40_000).ok()
    before = keeper.call("is_held", "some").deadline_ns
    stop_syncing(synced)
    keeper.call("extend", "some", lease=LEASE_MS).is_code("LK_ENOTDURABLE")
    assert keeper.call("is_held", "some").deadline_ns == before
    synced.set("appendfsync", "always")
    until(lambda: keeper.call("extend", "some", lease=2 * LEASE_MS).code == "OK", 20)


def test_renewals_count_when_they_are_on_disk(synced, make_keeper):
    keeper = make_keeper(synced.url, fsync_acks="local", watchdog_ms=3000)
    keeper.listen()
    keeper.call("acquire", "some").ok()
    until(lambda: keeper.stats().renewals > 1, 20, "it is renewed")
    stop_syncing(synced)
    until(lambda: keeper.events_of(EVENT_LOST, "some"), 20, "it ends with the last lease on disk")


def test_a_count_counts_when_it_is_on_disk(synced, make_keeper):
    keeper = make_keeper(synced.url, fsync_acks="local")
    keeper.call("set", "count", kind="semaphore", count=5).ok()
    stop_syncing(synced)
    keeper.call("add", "count", kind="semaphore", count=2).is_code("LK_ENOTDURABLE")
    assert synced.call("GET", "count") == b"7", "made once, and told"


def test_the_file_is_switched_off(synced, make_keeper):
    keeper = make_keeper(synced.url, fsync_acks="local")
    keeper.call("acquire", "some").ok()
    synced.set("appendonly", "no")
    seen = keeper.call("try", "more").is_code("LK_ENOTDURABLE")
    assert "appendonly" in seen.message
    until(lambda: not synced.call("EXISTS", "more"), 10, "it is given back")


def test_every_second(make_server, make_keeper):
    """The usual setting: it takes up to a second, and the limits allow for that."""
    server = make_server(appendonly="yes", appendfsync="everysec")
    if not has_waitaof(server):
        pytest.skip("it has no WAITAOF")
    keeper = make_keeper(server.url, fsync_acks="local")
    for number in range(5):
        keeper.call("try", f"lock{number}", lease=LEASE_MS).ok()


def test_replicas_disks(three, make_keeper):
    """A disk is missed where it must have it, and only there."""
    disks = make_keeper(three.url, fsync_acks="replicas")
    memory = make_keeper(three.url, fsync_acks="local")
    disks.call("within", "first", lease=LEASE_MS, wait=20_000).ok()
    stop_syncing(three.servers[2])
    seen = disks.call("try", "second", lease=LEASE_MS).is_code("LK_ENOTDURABLE")
    assert "1 of 2 replicas have it on disk" in seen.message
    until(lambda: not three.servers[0].call("EXISTS", "second"), 10, "it is given back")
    memory.call("acquire", "third", lease=LEASE_MS).ok()
    three.servers[2].set("appendfsync", "always")
    disks.call("within", "fourth", lease=LEASE_MS, wait=20_000).ok()


def test_replicas_every_second(replicas, make_keeper):
    made = replicas(appendonly="yes", appendfsync="everysec")
    if not has_waitaof(made.servers[0]):
        pytest.skip("it has no WAITAOF")
    keeper = make_keeper(made.url, fsync_acks="replicas")
    for number in range(5):
        keeper.call("try", f"lock{number}", lease=LEASE_MS).ok()
