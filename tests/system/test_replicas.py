"""redis-replicas://: the client finds the master among the listed servers, and follows it."""
from __future__ import annotations

import time

import pytest

import moving
from deployments import Replicas, refused_port
from keeper import EVENT_LOST
from waiting import until


@pytest.fixture
def pair(replicas):
    return replicas(count=2)


def test_every_kind(pair, make_keeper):
    keeper = make_keeper(pair.url)
    moving.use_every_kind(keeper)
    assert moving.our_clients(pair.master()) >= 1


def test_a_listed_replica_comes_first(pair, make_keeper):
    url = "valkey-replicas://" + ",".join(f"127.0.0.1:{s.port}" for s in reversed(pair.servers))
    make_keeper(url).call("acquire", "some").ok()


def hand_over(old, new, timeout_ms: int) -> None:
    """Redis' own FAILOVER: writes wait until the replica has all; then they change places."""
    old.call("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", timeout_ms)


def test_the_servers_own_failover(pair, make_keeper):
    """There and back, with a holder and a waiter."""
    keeper, waiter = make_keeper(pair.url), make_keeper(pair.url)
    keeper.listen()
    keeper.call("acquire", "held").ok()
    waiter.call("ping").ok()
    waits = waiter.say("within", "held", wait=60_000)
    for number in range(2):
        old, new = pair.servers[number], pair.servers[1 - number]
        hand_over(old, new, 10_000)
        assert keeper.call("within", f"next{number}", wait=20_000).ok().took < 10
        assert new.holders(f"next{number}") and new.holders("held")
        pair.wait()
    assert not waits.done and not keeper.events_of(EVENT_LOST)
    keeper.call("release", "held").ok()
    waits.result().ok()


@pytest.mark.parametrize("kind", ["lock", "fair", "semaphore"])
def test_a_failover_that_the_server_gives_up(pair, make_keeper, kind):
    """Its replica hangs, so it lets all writes wait for longer than the command limit. None of them
    is done late, and what was held is held."""
    keeper = make_keeper(pair.url, command_timeout_ms=500)
    master, replica = pair.servers
    if kind == "semaphore":
        make_keeper(pair.url).call("set", "sent", kind=kind, count=3).ok()
    keeper.call("acquire", "held").ok()
    replica.pause()
    hand_over(master, replica, 3000)
    seen = keeper.call("within", "sent", thread="sent", kind=kind, count=1, wait=1500)
    seen.is_code("LK_EMAYBEHELD", "LK_EUNREACHABLE", "LK_EUNAVAILABLE", "LK_ENOTDURABLE")
    assert master.info("master_failover_state") != "no-failover", "it is told meanwhile"
    until(lambda: master.info("master_failover_state") == "no-failover", 20, "it is given up")
    replica.resume()
    pair.wait()
    if kind == "semaphore":
        until(lambda: master.call("GET", "sent") == b"3", 20, "it was given back")
    else:
        until(lambda: not master.call("EXISTS", "sent"), 20, "it was given back")
    keeper.call("within", "sent", thread="sent", kind=kind, count=1, wait=20_000).ok()
    assert keeper.call("is_held", "held").result == 1
    keeper.call("release", "held").ok()


def test_nothing_leaks(pair, make_keeper):
    """Ten changes of the master, with a holder and a waiter."""
    keeper, waiter = make_keeper(pair.url), make_keeper(pair.url)
    keeper.call("acquire", "held").ok()
    waiter.call("ping").ok()
    waits = waiter.say("within", "held", wait=60000)
    keeper.call("acquire", "watched").ok()
    moving.acknowledged(pair.servers[0], 1)
    time.sleep(0.5)
    before = [(moving.descriptors(k), moving.threads(k)) for k in (keeper, waiter)]
    for number in range(10):
        new = pair.servers[(number + 1) % 2]
        pair.promote(new)
        keeper.call("within", f"turn{number}", wait=10000).ok()
        keeper.call("release", f"turn{number}").ok()
        pair.wait()
    old, new = pair.replicas()[0], pair.master()
    until(lambda: moving.our_clients(old) == 0, 10, "the old master has no clients")
    until(lambda: moving.our_clients(new) <= 2 * 3, 10)
    for keeper_, (fds, count) in zip((keeper, waiter), before):
        until(lambda k=keeper_, n=fds: moving.descriptors(k) <= n, 10, "its descriptors")
        until(lambda k=keeper_, n=count: moving.threads(k) <= n, 10, "its threads")
    keeper.call("release", "held").ok()
    waits.result().ok()


def test_bad_input(pair, make_server, make_keeper):
    """Each has its own error, which names the servers and what they said."""
    replica, lone = pair.servers[1].port, make_server()
    free = [refused_port(), refused_port()]
    for ports, code, words in (
            ([replica, free[0]], "LK_EUNAVAILABLE",
             ["none of the listed servers is a master", f"127.0.0.1:{replica}: a replica",
              f"127.0.0.1:{free[0]}: Connection refused"]),
            (free, "LK_EUNREACHABLE", ["none of the listed servers answers",
                                       f"127.0.0.1:{free[1]}: Connection refused"]),
            ([pair.servers[0].port, lone.port], "LK_EUNAVAILABLE",
             ["two of the listed servers say", f"127.0.0.1:{lone.port}: a master"])):
        url = "redis-replicas://" + ",".join(f"127.0.0.1:{port}" for port in ports)
        seen = make_keeper(url).call("acquire", "some").is_code(code)
        assert all(word in seen.message for word in words), seen.message


def test_a_silent_replica_counts_for_a_second(pair, make_keeper):
    """However often others are asked meanwhile, as for each new connection."""
    limit_ms = 150
    keeper = make_keeper(pair.url, connections=16, command_timeout_ms=limit_ms)
    keeper.call("ping").ok()
    pair.servers[1].pause()
    begun, tries = time.monotonic(), 0
    while time.monotonic() - begun < 0.7:
        seen = keeper.call("try", f"some{tries}")
        late = ["LK_EMAYBEHELD"] if seen.took * 1000 > limit_ms else []  # the machine is busy
        if time.monotonic() - begun < 0.8:
            seen.is_code("LK_ENOTDURABLE", *late)
        tries += 1
    assert tries >= 2


def test_a_password_that_changes(folder, make_keeper):
    """The thread that looks for the master reads the file again, too."""
    file = folder / "password"
    file.write_text("one\n")
    pair = Replicas(folder, count=2, requirepass="one", masterauth="one")
    try:
        keeper = make_keeper(pair.url, password_file=file)
        keeper.call("acquire", "held").ok()
        file.write_text("two\n")
        for server in pair.servers:
            server.call("CONFIG", "SET", "masterauth", "two", "requirepass", "two")
            server.config["requirepass"] = "two"
            server.call("CLIENT", "KILL", "TYPE", "normal")
        pair.promote(pair.servers[1])
        assert keeper.call("within", "other", thread="t", wait=20_000).ok().took < 10
        assert keeper.call("is_held", "held").result == 1
        keeper.call("release", "held").ok()
    finally:
        pair.kill()


def test_tls(make_server, make_keeper, certificates):
    files = certificates.files("good")
    master = make_server(tls=files, tls_replication="yes", repl_diskless_sync_delay=0)
    replica = make_server(tls=files, tls_replication="yes", replicaof=f"127.0.0.1 {master.port}")
    until(lambda: replica.info("master_link_status") == "up", 20, "the replica follows")
    url = f"rediss-replicas://localhost:{replica.port},localhost:{master.port}"
    keeper = make_keeper(url, tls_ca_file=certificates.ca)
    keeper.call("acquire", "some").ok()
    moving.acknowledged(master, 1)
    master.call("REPLICAOF", "127.0.0.1", replica.port)
    replica.call("REPLICAOF", "NO", "ONE")
    keeper.call("within", "more", wait=10000).ok()
    assert replica.holders("more") and keeper.call("is_held", "some").result == 1
