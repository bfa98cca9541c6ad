"""redis-sentinel://: the client finds the master, and follows it through failovers."""
from __future__ import annotations

import subprocess
import time

import pytest

import moving
from deployments import MASTER, Watched, refused_port
from keeper import BUILD, EVENT_LOST, ROOT
from waiting import until


@pytest.fixture
def trio(watched):
    return watched()


def test_every_kind(trio, make_keeper):
    keeper = make_keeper(trio.url)
    moving.use_every_kind(keeper)
    assert moving.our_clients(trio.master()) >= 1
    assert not any(moving.our_clients(replica) for replica in trio.replicas())


def test_the_master_is_killed(trio, make_keeper):
    """What it had replicated is held on. Without acknowledgement (replica_acks) what it had not is
    lost, and its holder is told."""
    holder, waiter = make_keeper(trio.url, replica_acks=0), make_keeper(trio.url, replica_acks=0)
    holder.listen()
    old = trio.master()
    holder.call("acquire", "kept").ok()
    moving.acknowledged(old)
    waiter.call("ping").ok()
    waits = waiter.say("within", "kept", thread="kept", wait=30000)
    moving.without_replication(old)
    holder.call("acquire", "gone").ok()
    queue = waiter.say("within", "gone", thread="gone", wait=30000)
    until(lambda: waiter.is_asleep(), 10, "it waits")
    old.kill()
    new = trio.switched(old)
    switched = time.monotonic()
    queue.result().ok()
    assert time.monotonic() - switched < 3, "the first grant after the failover"
    assert moving.is_told(holder, "gone") == f"127.0.0.1:{old.port}", "which had confirmed it"
    holder.call("release", "gone").is_code("LK_ELOST")
    assert not holder.events_of(EVENT_LOST, "kept") and not waits.done
    assert holder.call("is_held", "kept").result == 1
    holder.call("release", "kept").ok()
    waits.result().ok()
    assert new.holders("kept") and new.holders("gone")


def test_the_servers_own_failover(trio, make_keeper):
    """Sentinels know nothing of FAILOVER: for about a minute they name what is a replica now.
    Nothing is granted meanwhile; once it is the master again, what was held is held."""
    holder, waiter = make_keeper(trio.url), make_keeper(trio.url)
    holder.listen()
    holder.call("acquire", "held").ok()
    waiter.call("ping").ok()
    waits = waiter.say("within", "held", wait=120_000)
    old, heir = trio.servers[:2]
    old.call("FAILOVER", "TO", "127.0.0.1", heir.port)
    until(lambda: trio.is_master(heir), 20, "it is the master")
    seen = holder.call("within", "early", thread="early", wait=1000)
    assert "not a master" in seen.is_code("LK_EUNAVAILABLE").message
    heir.call("FAILOVER", "TO", "127.0.0.1", old.port)
    until(lambda: trio.is_master(old), 20, "it is so again")
    holder.call("within", "later", thread="later", wait=30_000, limit=40).ok()
    assert old.holders("later") and holder.call("is_held", "held").result == 1
    assert not waits.done and not holder.events_of(EVENT_LOST)
    holder.call("release", "held").ok()
    waits.result(30).ok()


def test_sentinels_that_hang_do_not_delay(trio, make_keeper):
    trio.sentinels[0].pause()
    keeper = make_keeper(trio.url)
    keeper.call("acquire", "some").ok()
    assert keeper.call("acquire", "more").took < 1
    trio.sentinels[0].resume()


@pytest.mark.parametrize("queue", [0, 1])
def test_a_waiter_that_cannot_listen_looks_again(watched, make_keeper, queue):
    """Where its master is can be asked no more, when the first wait wants a connection for
    messages. The one for scripts is up."""
    pair = watched(count=2, sentinels=1)
    waiter = make_keeper(pair.url, replica_acks=0)
    waiter.call("acquire", "another").ok()
    pair.sentinels[0].pause()
    holder = make_keeper(pair.master().url)
    holder.call("acquire", "lock").ok()
    wait = waiter.say("within", "lock", thread="waits", wait=15_000, queue=queue)
    until(lambda: waiter.stats().waiting == 1, 10, "it waits")
    holder.call("release", "lock").ok()
    wait.result(20).ok()


def test_other_sentinels_are_learned(trio, make_keeper):
    """One is listed; after it has died, the failover is heard of all the same."""
    keeper = make_keeper(f"redis-sentinel://127.0.0.1:{trio.sentinels[0].port}/{MASTER}")
    keeper.call("acquire", "some").ok()
    until(lambda: all(sentinel.clients("pubsub") for sentinel in trio.sentinels), 10)
    trio.sentinels[0].kill()
    old = trio.master()
    old.kill()
    trio.switched(old)
    keeper.call("within", "more", wait=20000).ok()


def test_a_password_of_their_own(folder, make_keeper):
    deployment = Watched(folder, count=2, sentinels=1, more="requirepass sesame")
    try:
        make_keeper(deployment.url, sentinel_password="sesame").call("acquire", "some").ok()
        seen = make_keeper(deployment.url).call("acquire", "some").is_code("LK_EAUTH")
        assert "NOAUTH" in seen.message and str(deployment.sentinels[0].port) in seen.message
        seen = make_keeper(deployment.url, sentinel_password="wrong").call("acquire", "some")
        assert "WRONGPASS" in seen.is_code("LK_EAUTH").message and "wrong" not in seen.message
    finally:
        deployment.kill()


def test_least_rights(folder, make_keeper):
    """Those that docs/options.md names, and not one less."""
    page = (ROOT / "docs" / "options.md").read_text()
    rights = " ".join(line.strip() for line in page.splitlines() if line.startswith("    "))
    assert rights.startswith("-@all +auth")
    deployment = Watched(folder, count=2, sentinels=1,
                         more=f"user lk on >pw {rights}\nuser less on >pw " +
                              rights.replace("+sentinel|get-master-addr-by-name", ""))
    try:
        sentinel = {"sentinel_username": "lk", "sentinel_password": "pw"}
        locks = (ROOT / "docs" / "acl" / "locks.acl").read_text().split()[2:]
        for name, more in (("plain", []), ("follows", ["+role", "+wait"]), ("waits", ["+role"])):
            deployment.master().call("ACL", "SETUSER", name, *locks, ">pw", *more)
        url = deployment.url.replace("://", "://follows:pw@")
        make_keeper(url, **sentinel).call("acquire", "app:some").ok()
        until(lambda: deployment.sentinels[0].clients("pubsub"), 5, "it hears messages")
        seen = make_keeper(url.replace("follows", "plain"), **sentinel).call("acquire", "app:some")
        assert "ROLE" in seen.is_code("LK_EDENIED").message
        seen = make_keeper(url.replace("follows", "waits"), **sentinel).call("try", "app:more")
        assert "'wait' command" in seen.is_code("LK_ENOTDURABLE").message
        seen = make_keeper(url, **sentinel | {"sentinel_username": "less"})
        assert "NOPERM" in seen.call("acquire", "app:some").is_code("LK_EDENIED").message
    finally:
        deployment.kill()


def test_bad_input(watched, make_server, make_keeper):
    """Each has its own error, which names the node that answered and what it said."""
    one, server, nobody = watched(count=1, sentinels=1), make_server(), refused_port()
    sentinel = one.sentinels[0].port
    for url, code, words in (
            (f"127.0.0.1:{sentinel}/other", "LK_EREFUSED",
             ["knows the master's name", f"127.0.0.1:{sentinel}: it does not know that master"]),
            (f"127.0.0.1:{server.port}/{MASTER}", "LK_EREFUSED",
             ["no sentinel answers", f"127.0.0.1:{server.port}: it is no sentinel"]),
            (f"127.0.0.1:{nobody}/{MASTER}", "LK_EUNREACHABLE",
             ["no sentinel answers", f"127.0.0.1:{nobody}: Connection refused"])):
        seen = make_keeper("redis-sentinel://" + url).call("acquire", "some").is_code(code)
        assert all(word in seen.message for word in words), seen.message
    good = f"127.0.0.1:{nobody},127.0.0.1:{server.port},127.0.0.1:{sentinel}"
    make_keeper(f"redis-sentinel://{good}/{MASTER}").call("acquire", "some").ok()


def test_sentinels_that_name_a_replica(watched, make_keeper):
    """Its role is verified before anything is written."""
    pair = watched(count=2, sentinels=1)
    keeper = make_keeper(pair.url, connect_timeout_ms=2000)
    keeper.call("ping").ok()
    pair.sentinels[0].pause()
    master, replica = pair.servers
    master.call("REPLICAOF", "127.0.0.1", replica.port)
    pair.sentinels[0].resume()
    seen = keeper.call("within", "some", wait=300).is_code("LK_EUNAVAILABLE")
    assert f"127.0.0.1:{master.port}" in seen.message and "not a master" in seen.message
    assert not master.call("EXISTS", "some")


def place(server):
    return ("127.0.0.1", server.port)


def test_most_sentinels_are_believed(named, make_server, make_keeper):
    """And when most of them name another, without a message, it is gone to; a lost lock is told."""
    one, other = make_server(), make_server()
    keeper = make_keeper(named((place(other), "a"), (place(one), "b"), (place(one), "c")))
    keeper.listen()
    keeper.call("acquire", "some").ok()
    assert one.holders("some") and not moving.our_clients(other)
    named.made[1].place = place(other)
    assert moving.is_told(keeper, "some", 5) == f"127.0.0.1:{one.port}"
    keeper.call("acquire", "more").ok()
    assert other.holders("more") and moving.our_clients(one) == 0


def test_messages_are_heard(named, make_server, make_keeper):
    """A message is asked about at once, and not with the next round of the second."""
    one, other = make_server(), make_server()
    keeper = make_keeper(named((place(one), "a")))
    keeper.call("acquire", "some").ok()
    sentinel = until(lambda: named.made[0].listeners and named.made[0], 5)
    for number in range(20):
        before = sentinel.asked
        sentinel.publish("+switch-master" if number % 2 else "+reboot", f"{MASTER} a 1 b 2")
        until(lambda n=before: sentinel.asked > n, 5, "it asks")
    rounds = sentinel.asked
    sentinel.place = place(other)
    began = time.monotonic()
    for number in range(20):
        before = sentinel.asked
        sentinel.publish("+switch-master", f"{MASTER} a 1 b 2")
        until(lambda n=before: sentinel.asked > n, 5, "it asks")
    assert time.monotonic() - began < 5 and sentinel.asked >= rounds + 20
    keeper.call("acquire", "more").ok()
    assert other.holders("more")


def test_no_vote_counts_twice(named, make_server, make_keeper):
    """One sentinel under three addresses is one."""
    one, other = make_server(), make_server()
    url = named(*[(place(other), "same")] * 3, (place(one), "b"), (place(one), "c"))
    make_keeper(url).call("acquire", "some").ok()
    assert one.holders("some") and not other.call("EXISTS", "some")


@pytest.mark.parametrize("said", [("a host!", 6379), ("127.0.0.1", 0), ("127.0.0.1", 65536),
                                  ("127.0.0.1", "12x"), ("", 6379), ("127.0.0.1",),
                                  ("h" * 300, 6379), ("[::1]", 6379)])
def test_what_is_no_address(named, make_keeper, said):
    seen = make_keeper(named((said, "a"))).call("acquire", "some")
    assert "names no address" in seen.is_code("LK_EUNREACHABLE").message, seen.message


def test_the_command_takes_a_quorum_and_a_list(trio, make_server):
    """A comma inside of a URL lists its sentinels; one before a URL begins the next server."""
    run = [BUILD / "cli" / "lockkeeper", "run"]
    quorum = ",".join([trio.url] + [make_server().url for _ in range(2)])
    for url, words in ((trio.url, []), (quorum, ["--quarantine", "2", "-l", "2"])):
        seen = subprocess.run([*run, *words, "job", "true"], capture_output=True, text=True,
                              timeout=60, env={"LOCKKEEPER_URL": url})
        assert seen.returncode == 0, seen


@pytest.mark.parametrize("option, data, sentinel", [("", True, True), ("off", True, False),
                                                    ("on", False, True)])
def test_tls(named, make_server, make_keeper, certificates, option, data, sentinel):
    """Sentinels speak TLS as the servers do, unless an option says otherwise."""
    files = certificates.files("good")
    server = make_server(tls=files if data else None)
    url = named((place(server), "a", files if sentinel else None))
    url = url.replace("redis-", "rediss-") if data else url
    keeper = make_keeper(url, tls_ca_file=certificates.ca, sentinel_tls=option)
    keeper.call("acquire", "some").ok()
    assert server.holders("some")


@pytest.mark.parametrize("bad", ["server", "sentinel"])
def test_tls_is_verified(named, make_server, make_keeper, certificates, bad):
    """Whoever names an address, the certificate must be for it."""
    good, wrong = certificates.files("good"), certificates.files("wrong_host")
    server = make_server(tls=wrong if bad == "server" else good)
    url = named((place(server), "a", wrong if bad == "sentinel" else good))
    keeper = make_keeper(url.replace("redis-", "rediss-"), tls_ca_file=certificates.ca)
    seen = keeper.call("acquire", "some").is_code("LK_ETLS")
    port = server.port if bad == "server" else named.made[0].port
    assert f"127.0.0.1:{port}" in seen.message, seen.message


def test_tls_by_one_name(named, make_server, make_keeper, certificates):
    """Sentinels and masters have addresses, and certificates that name one host."""
    files = certificates.files("wrong_host")
    first, second = make_server(tls=files), make_server(tls=files)
    url = named((place(first), "a", files)).replace("redis-", "rediss-")
    keeper = make_keeper(url, tls_ca_file=certificates.ca, tls_server_name="elsewhere.example")
    keeper.call("acquire", "some").ok()
    assert first.holders("some")
    keeper.call("release", "some").ok()
    named.made[0].place = place(second)

    def is_at_the_second() -> bool:
        granted = keeper.call("acquire", "some").code == "OK" and second.holders("some")
        keeper.call("release", "some")
        return bool(granted)

    until(is_at_the_second, 20, "it goes to the new master")
