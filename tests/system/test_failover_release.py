"""What gives something back is not undone by a failover: replicas have it, or it is repeated."""
from __future__ import annotations

import pytest

import moving
from deployments import MASTER, Replicas, refused_port
from keeper import CLOSE_ABANDON, CLOSE_RELEASE
from moving import LOCKS, rival_of
from test_acks import leave_alone
from test_failover_kinds import EACH, Sentinels, Shard
from waiting import until

LEASE_MS = 300_000  # longer than any wait here
WAIT_MS = 40_000
CROWD = 4  # connections to a server, two of them for scripts at least


@pytest.fixture
def three(replicas):
    return replicas()


@pytest.fixture(params=["threads", "queue", "threadless"])
def way(request) -> dict[str, dict]:
    """How a client is opened, and called."""
    return {"open": {"threadless": 1} if request.param == "threadless" else {},
            "call": {} if request.param == "threads" else {"queue": 1}}


@EACH
def test_the_master_dies(deploy, make_keeper, deployment, way):
    """No replica has heard of the releases, which all returned 0: they are repeated at the next
    master, where others wait, and where the client itself comes again."""
    place = deployment(deploy)
    holder = make_keeper(place.url, **way["open"])
    other = make_keeper(place.url)
    names = {kind: place.name(kind) for kind in LOCKS}
    permits, again = place.name("permits"), place.name("again")
    holder.call("set", permits, kind="permits", count=1, **way["call"]).ok()
    ids = holder.call("acquire", permits, kind="permits", count=1, lease=LEASE_MS,
                      **way["call"]).ok()["ids"]
    for kind, name in (*names.items(), ("lock", again)):
        holder.call("acquire", name, kind=kind, lease=LEASE_MS, **way["call"]).ok()
        other.call("try", name, kind=rival_of(kind)).is_code("LK_EBUSY")
    moving.without_replication(place.master())
    for kind, name in (*names.items(), ("lock", again)):
        holder.call("release", name, kind=kind, **way["call"]).ok()
    holder.call("release", permits, kind="permits", ids=ids, **way["call"]).ok()
    place.killed()
    waits = [other.say("within", name, thread=kind, kind=rival_of(kind), wait=WAIT_MS)
             for kind, name in names.items()]
    waits.append(other.say("within", permits, thread="permits", kind="permits", count=1,
                           wait=WAIT_MS))
    holder.call("within", again, wait=WAIT_MS, limit=60, **way["call"]).ok()
    for wait in waits:
        wait.result(60).ok()


@EACH
def test_the_master_of_a_crowd_dies(deploy, make_keeper, deployment):
    """The releases went over several connections: each repeats its own at the next master."""
    place = deployment(deploy)
    holder = make_keeper(place.url)
    master, threads, name = place.master(), 16, place.name("many")
    for turn in range(100):
        holder.call("stress", name=place.name(f"turn{turn}-"), names=0, threads=threads, pairs=50,
                    limit=60).ok()
        if moving.our_clients(master) >= CROWD:
            break
    assert moving.our_clients(master) >= CROWD
    held = holder.say("stress", name=name, names=0, threads=threads, pairs=1, lease=LEASE_MS,
                      hold_us=2_000_000)
    until(lambda: holder.stats().held == threads, 20, "all hold")
    moving.without_replication(master)
    assert held.result(60).ok().release_OK == threads
    place.killed()
    other = make_keeper(place.url)
    for number in range(threads):
        other.call("within", f"{name}{number}", wait=WAIT_MS, limit=60).ok()


@pytest.mark.parametrize("kind", LOCKS)
def test_the_sentinels_name_the_old_master(named, replicas, make_keeper, kind):
    """A planned failover: the replica is a master by now, and the old one still answers."""
    pair = replicas(count=2)
    master, heir = pair.servers
    url = named((("127.0.0.1", master.port), "a"))
    sentinel = named.made[0]
    follows = {"flags": "slave", "last-ok-ping-reply": 1, "master-link-status": "ok"}
    sentinel.replicas = [{"ip": "127.0.0.1", "port": heir.port, **follows}]
    keeper = make_keeper(url)
    keeper.call("acquire", "some", kind=kind, lease=LEASE_MS).ok()
    keys = master.call("KEYS", "some*")
    heir.call("REPLICAOF", "NO", "ONE")
    keeper.call("release", "some", kind=kind).ok()
    assert master.call("EXISTS", *keys) == 0 and heir.call("EXISTS", *keys) == len(keys)
    sentinel.replicas = [{"ip": "127.0.0.1", "port": master.port, **follows,
                          "flags": "s_down,slave,disconnected"}]
    sentinel.place = ("127.0.0.1", heir.port)
    until(lambda: heir.call("EXISTS", *keys) == 0, 20, "it is released there, too")


@pytest.mark.parametrize("deployment", [Sentinels, Shard], ids=["sentinel", "cluster"])
def test_as_the_servers_do_it(deploy, make_keeper, deployment):
    """The releases are sent as soon as the replica is a master."""
    place = deployment(deploy)
    holder, other = make_keeper(place.url), make_keeper(place.url)
    names = [place.name(f"some{number}") for number in range(20)]
    for name in names:
        holder.call("acquire", name, lease=LEASE_MS).ok()
    heirs = place.heirs()
    if deployment is Shard:
        heirs[0].call("CLUSTER", "FAILOVER", "FORCE")
    else:
        place.made.sentinels[0].call("SENTINEL", "FAILOVER", MASTER)
    until(lambda: any(Replicas.is_master(heir) for heir in heirs), 20, "one is a master")
    for name in names:
        holder.call("release", name, limit=60).ok()
    for name in names:
        other.call("within", name, wait=WAIT_MS, limit=60).ok()


def test_a_try_that_failed(named, replicas, make_keeper, way):
    """Granted, on one of two replicas, and given up. That replica becomes the master, and has it:
    the client waits for a number of its own that it has released before."""
    pair = replicas(count=2)
    master, heir = pair.servers
    url = named((("127.0.0.1", master.port), "a"))
    follows = {"ip": "127.0.0.1", "flags": "slave", "last-ok-ping-reply": 1,
               "master-link-status": "ok"}
    sentinel = named.made[0]
    sentinel.replicas = [{"port": heir.port, **follows}, {"port": refused_port(), **follows}]
    keeper = make_keeper(url, command_timeout_ms=1500, watchdog_ms=LEASE_MS, **way["open"])
    waits = keeper.say("within", "some", wait=WAIT_MS, **way["call"])
    until(lambda: heir.holders("some"), 10, "one has the first number")
    heir.call("REPLICAOF", "NO", "ONE")
    first = set(heir.holders("some"))
    numbers = set()

    def others() -> int:
        numbers.update(master.holders("some"))
        return len(numbers - first)
    until(lambda: others() > 5, 30, "it was given up, and no copy of it can run any more")
    sentinel.replicas = []
    sentinel.place = ("127.0.0.1", heir.port)
    waits.result(WAIT_MS / 1000 + 20).ok()
    assert not first & set(heir.holders("some"))


@pytest.mark.parametrize("how", [CLOSE_RELEASE, CLOSE_ABANDON])
def test_close_tells_what_is_missing(three, make_keeper, way, how):
    """A release, and one of a hold that close gives up, or a try that failed."""
    keeper = make_keeper(three.url, command_timeout_ms=2000, **way["open"])
    keeper.call("acquire", "some", lease=LEASE_MS, **way["call"]).ok()
    leave_alone(three.servers[2])
    keeper.call("release", "some", **way["call"]).ok()
    closed = keeper.call("close", how=how, **way["call"])
    assert closed.is_code("LK_EMAYBEHELD").took < 8
    three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[0].port)
    until(lambda: keeper.call("close", how=how, **way["call"]).code in ("OK", "LK_ECLOSED"), 20)


def test_close_waits_for_replicas(three, make_keeper, way):
    """One question to them, and it is over."""
    keeper = make_keeper(three.url, **way["open"])
    with three.servers[1].connect() as one, three.servers[2].connect() as two:
        for number in range(3):
            keeper.call("acquire", f"some{number}", lease=LEASE_MS, **way["call"]).ok()
        for number in range(3):
            keeper.call("release", f"some{number}", **way["call"]).ok()
        keeper.call("close", how=CLOSE_RELEASE, **way["call"]).ok()
        for number in range(3):
            assert not one.call("EXISTS", f"some{number}")
            assert not two.call("EXISTS", f"some{number}")


@pytest.mark.parametrize("kind", LOCKS)
def test_from_outside(three, make_keeper, kind):
    """Whoever frees another's lock is told when a replica lacks that."""
    holder, keeper = make_keeper(three.url), make_keeper(three.url)
    holder.call("acquire", "some", kind=kind, lease=LEASE_MS).ok()
    assert keeper.call("force", "some", kind=kind).result == 1
    assert not three.servers[1].call("KEYS", "some*")
    holder.call("release", "some", kind=kind).is_code("LK_ELOST")
    holder.call("acquire", "some", kind=kind, lease=LEASE_MS).ok()
    leave_alone(three.servers[2])
    keeper.call("force", "some", kind=kind).is_code("LK_ENOTDURABLE")
    assert not three.servers[0].call("KEYS", "some*")


@pytest.mark.parametrize("kind", [kind for kind in LOCKS if kind != "multi"])
def test_by_its_field(three, make_keeper, kind):
    """The way of `lockkeeper unlock`."""
    holder, keeper = make_keeper(three.url), make_keeper(three.url)
    for number in range(2):
        holder.call("acquire", f"some{number}", kind=kind, lease=LEASE_MS).ok()
    fields = [holder.call("export", f"some{number}", kind=kind).ok()["field"]
              for number in range(2)]
    keeper.call("release_field", "some0", kind=kind, field=fields[0]).ok()
    assert not three.servers[1].call("EXISTS", "some0")
    leave_alone(three.servers[2])
    told = keeper.call("release_field", "some1", kind=kind, field=fields[1])
    assert "1 of 2 replicas" in told.is_code("LK_ENOTDURABLE").message
    assert not three.servers[0].call("EXISTS", "some1")


@pytest.mark.parametrize("queued", [0, 1])
@pytest.mark.parametrize("kind", ["semaphore", "permits", "latch"])
def test_counts_that_go(three, make_keeper, kind, queued):
    keeper = make_keeper(three.url)
    for name in ("one", "two"):
        keeper.call("set", name, kind=kind, count=5).ok()
    assert keeper.call("delete", "one", kind=kind, queue=queued).code == "OK"
    assert three.servers[1].call("EXISTS", "one") == three.servers[2].call("EXISTS", "one") == 0
    leave_alone(three.servers[2])
    keeper.call("delete", "two", kind=kind, queue=queued).is_code("LK_ENOTDURABLE")
    assert not three.servers[0].call("EXISTS", "two")


@pytest.mark.parametrize("queued", [0, 1])
def test_several_permits(three, make_keeper, queued):
    """They are given up, also where the caller is told that a failover may undo it."""
    keeper = make_keeper(three.url)
    keeper.call("set", "some", kind="permits", count=4).ok()
    taken = [keeper.call("acquire", "some", kind="permits", count=2, lease=LEASE_MS).ok()["ids"]
             for _ in range(2)]
    keeper.call("release", "some", kind="permits", ids=taken[0], queue=queued).ok()
    assert three.servers[1].call("GET", "some") == three.servers[2].call("GET", "some") == b"2"
    leave_alone(three.servers[2])
    told = keeper.call("release", "some", kind="permits", ids=taken[1], queue=queued)
    told.is_code("LK_ENOTDURABLE")
    assert three.servers[0].call("GET", "some") == b"4"
    assert keeper.stats().held == 0


@pytest.mark.parametrize("queued", [0, 1])
def test_the_first_call_to_a_cluster(cluster, make_keeper, queued):
    """Which replicas must have it is known before it is sent."""
    holder = make_keeper(cluster.url)
    names = [cluster.name_on(index, f"first{queued}") for index in range(3)]
    for name in names[:2]:
        holder.call("acquire", name, lease=LEASE_MS).ok()
    field = holder.call("export", names[1]).ok()["field"]
    assert make_keeper(cluster.url).call("force", names[0]).result == 1
    make_keeper(cluster.url).call("release_field", names[1], field=field).ok()
    holder.call("set", names[2], kind="permits", count=2).ok()
    ids = holder.call("acquire", names[2], kind="permits", count=2, lease=LEASE_MS).ok()["ids"]
    make_keeper(cluster.url).call("release", names[2], kind="permits", ids=ids,
                                  queue=queued).ok()


def test_releases_share_the_questions_of_grants(three, make_keeper):
    """One caller in a loop: a release costs no question of its own."""
    keeper = make_keeper(three.url)
    keeper.call("ping").ok()

    def waits() -> int:
        return moving.calls_of(three.servers[0], "wait")
    before = waits()
    assert keeper.call("stress", kind="lock", name="own", names=0, threads=1,
                       pairs=300).ok().grants == 300
    assert waits() - before < 450


def test_a_single_server(make_server, make_keeper):
    """It is asked for what it is released with, and nothing else."""
    server = make_server()
    keeper = make_keeper(server.url)
    keeper.call("acquire", "warm").ok()
    keeper.call("release", "warm").ok()
    before = moving.scripts_run(server)
    for _ in range(20):
        keeper.call("acquire", "some").ok()
        keeper.call("release", "some").ok()
    keeper.call("close", how=CLOSE_RELEASE).ok()
    assert moving.scripts_run(server) - before == 40
    assert moving.calls_of(server, "wait") == 0
