"""What is granted through replicas or sentinels is on all of them: replica_acks."""
from __future__ import annotations

import itertools
import time

import pytest

import moving
from deployments import MASTER
from keeper import EVENT_LOST
from servers import Server
from waiting import never, until

LEASE_MS = 60_000


@pytest.fixture
def three(replicas):
    return replicas()


@pytest.fixture
def behind(replicas, make_proxy):
    """A master with one replica, and a proxy before the master; one replica is to acknowledge."""
    pair = replicas(count=2)
    return pair, make_proxy(pair.servers[0].path)


def leave_alone(server) -> None:
    """From now on what is written stays on this replica's master. It is alive, and answers."""
    server.call("REPLICAOF", "127.0.0.1", server.port)


@pytest.mark.parametrize("queued", [0, 1])
@pytest.mark.parametrize("kind", moving.LOCKS)
def test_a_grant_is_on_every_replica(three, make_keeper, kind, queued):
    """At the moment at which it is told."""
    keeper = make_keeper(three.url)
    with three.servers[1].connect() as one, three.servers[2].connect() as two:
        for number in range(40):
            name = f"lock{number}"
            keeper.call("acquire", name, kind=kind, queue=queued, lease=LEASE_MS).ok()
            assert one.call("EXISTS", name) == two.call("EXISTS", name) == 1, name


@pytest.mark.parametrize("verb, arguments", [("extend", {"lease": LEASE_MS}), ("acquire", {})],
                         ids=["extended", "renewed"])
def test_a_longer_lease_is_on_every_replica(three, make_keeper, verb, arguments):
    keeper = make_keeper(three.url, watchdog_ms=3000)
    keeper.call("acquire", "some", **({"lease": 2000} if arguments else {})).ok()
    if arguments:
        keeper.call(verb, "some", **arguments).ok()
    else:
        until(lambda: keeper.stats().renewals > 1, 10, "it is renewed")
    left_ms = keeper.call("remaining", "some").result
    for replica in three.servers[1:]:
        assert replica.call("PTTL", "some") >= left_ms - 100


def listed(servers, host: str) -> str:
    return "redis-replicas://" + ",".join(f"{host}:{server.port}" for server in servers)


@pytest.mark.parametrize("host, announced", [
    ("127.0.0.1", None), ("localhost", None), ("127.0.0.1", "192.0.2.1")])
def test_another_replica_does_not_acknowledge_for_a_listed_one(replicas, make_keeper, host,
                                                              announced):
    """The master has one more, which is not listed; WAIT counts it. The listed ones are known by
    name, by address, or by what they say of themselves."""
    four = replicas(count=4, **({"replica-announce-ip": announced} if announced else {}))
    keeper = make_keeper(listed(four.servers[:3], host))
    keeper.call("acquire", "some", lease=LEASE_MS).ok()
    assert all(server.call("EXISTS", "some") for server in four.servers[1:3])
    leave_alone(four.servers[2])
    names = (f"other{number}" for number in itertools.count())  # what is held is not asked for
    until(lambda: keeper.call("try", next(names), lease=LEASE_MS).code == "LK_ENOTDURABLE", 5,
          "its absence is seen")
    seen = keeper.call("try", "more", lease=LEASE_MS).is_code("LK_ENOTDURABLE")
    assert "1 of 2 replicas" in seen.message, seen
    four.servers[2].call("REPLICAOF", "127.0.0.1", four.servers[0].port)
    keeper.call("within", "most", lease=LEASE_MS, wait=20000).ok()
    assert all(server.call("EXISTS", "most") for server in four.servers[1:3])


@pytest.mark.parametrize("kind", moving.LOCKS)
def test_too_few_have_it(three, make_keeper, kind):
    """It is not granted, and not left behind."""
    keeper = make_keeper(three.url)
    keeper.call("ping").ok()
    leave_alone(three.servers[2])
    keeper.call("within", "some", kind=kind, lease=LEASE_MS,
                wait=1500).is_code("LK_ENOTDURABLE", "LK_EMAYBEHELD")
    seen = keeper.call("try", "other", kind=kind, lease=LEASE_MS)
    assert "1 of 2 replicas" in seen.is_code("LK_ENOTDURABLE").message, seen
    until(lambda: not three.servers[0].call("EXISTS", "some", "other"), 10, "given back")
    assert keeper.call("is_held", "some", kind=kind).result == 0
    three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[0].port)
    keeper.call("within", "some", kind=kind, lease=LEASE_MS, wait=20000).ok()


def test_a_number_counts_whoever_is_dead(three, make_keeper):
    keeper = make_keeper(three.url, replica_acks=2)
    keeper.call("acquire", "some").ok()
    three.servers[2].kill()
    time.sleep(2.5)  # longer than it counts as alive
    seen = keeper.call("try", "more").is_code("LK_ENOTDURABLE")
    assert "1 of 2 replicas" in seen.message


def test_a_single_server_with_a_number(replicas, make_keeper):
    pair = replicas(count=2)
    keeper = make_keeper(pair.servers[0].url, replica_acks=1)
    keeper.call("acquire", "some").ok()
    assert pair.servers[1].holders("some")
    leave_alone(pair.servers[1])
    keeper.call("try", "more").is_code("LK_ENOTDURABLE")
    make_keeper(pair.servers[0].url).call("acquire", "most").ok()


@pytest.mark.parametrize("threadless", [0, 1])
def test_a_holder_whose_renewals_no_replica_has_loses_it(replicas, make_keeper, threadless):
    """In time: before another can be granted it by a replica that becomes the master."""
    pair = replicas(count=2)
    keeper = make_keeper(pair.servers[0].url, replica_acks=1, watchdog_ms=2000,
                         threadless=threadless)
    if not threadless:
        keeper.listen()
    keeper.call("acquire", "some", queue=threadless).ok()
    leave_alone(pair.servers[1])
    new = pair.servers[1]
    new.call("REPLICAOF", "NO", "ONE")
    other = make_keeper(new.url)
    granted = other.call("within", "some", wait=20000).ok()
    seen = keeper.call("is_held", "some", queue=threadless)
    assert seen.result == 0, "two owners"
    assert seen.end_ns < granted.end_ns + 10**9
    if not threadless:
        until(lambda: keeper.events_of(EVENT_LOST, "some"), 5, "its holder is told")


def test_an_extension_that_too_few_have(three, make_keeper):
    keeper = make_keeper(three.url)
    keeper.call("acquire", "some", lease=20_000).ok()
    before = keeper.call("is_held", "some").deadline_ns
    leave_alone(three.servers[2])
    seen = keeper.call("extend", "some", lease=LEASE_MS)
    assert "replicas" in seen.is_code("LK_ENOTDURABLE").message
    assert keeper.call("is_held", "some").deadline_ns == before
    three.servers[2].call("REPLICAOF", "127.0.0.1", three.servers[0].port)
    until(lambda: keeper.call("extend", "some", lease=2 * LEASE_MS).code == "OK", 20)
    assert three.servers[2].call("PTTL", "some") > LEASE_MS


def waits_run(server) -> int:
    lines = server.call("INFO", "commandstats").decode().splitlines()
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines
               if line.startswith("cmdstat_wait:"))


def test_waits_share_one_wait(three, make_keeper):
    """Many callers at once need far fewer questions to the replicas than grants."""
    keeper = make_keeper(three.url)
    keeper.call("ping").ok()
    before = waits_run(three.servers[0])
    answer = keeper.call("stress", kind="lock", name="own", names=0, threads=32, pairs=50)
    assert answer.ok().grants == 1600
    assert waits_run(three.servers[0]) - before < 1600, "some share"


def last_calls(monitor, verb: str) -> dict[str, int]:
    """For each connection, which line shows the last one that it sent."""
    wanted = f' "{verb}" '
    return {line.split("]")[0].split()[-1]: number for number, line in enumerate(monitor.lines)
            if wanted in line and " lua]" not in line}


def test_each_connection_asks_for_what_it_has_written(three, make_keeper):
    """A WAIT counts what its own connection did. Threads have several, grants and releases."""
    keeper = make_keeper(three.url)
    monitor = three.servers[0].monitor()
    for turn in range(100):
        answer = keeper.call("stress", kind="lock", name=f"own{turn}-", names=0, threads=8,
                             pairs=50, limit=60)
        assert answer.ok().grants == 400, answer
        if len(last_calls(monitor, "EVALSHA")) >= 4:
            break
    wrote = last_calls(monitor, "EVALSHA")
    assert len(wrote) >= 4

    def all_asked() -> bool:
        asked = last_calls(monitor, "WAIT")
        return all(asked.get(place, -1) > line for place, line in wrote.items())
    until(all_asked, 10, "each has asked behind its last release")


def test_who_may_not_wait(replicas, make_keeper):
    pair = replicas(count=2)
    pair.servers[0].call("ACL", "SETUSER", "lk", "on", ">pw", "~*", "&*", "+@all", "-wait")
    keeper = make_keeper(pair.servers[0].url.replace("//", "//lk:pw@"), replica_acks=1)
    seen = keeper.call("try", "some").is_code("LK_ENOTDURABLE")
    assert "'wait'" in seen.message
    until(lambda: not pair.servers[0].call("EXISTS", "some"), 10, "it is given back")


@pytest.mark.parametrize("value", ["65", "-1", "some", ""])
def test_bad_input(make_keeper, value):
    seen = make_keeper().call("open", url=f"redis://127.0.0.1?replica_acks={value}")
    assert "replica_acks" in seen.is_code("LK_EINVAL").message and "from 0 to 64" in seen.message


@pytest.mark.parametrize("count", [2, 3])
def test_a_former_master_that_is_promoted_again(watched, make_keeper, count):
    """Sentinels take up to 10 s to see that it follows, and may promote it before that."""
    trio = watched(count=count, sentinels=1)
    keeper = make_keeper(trio.url)
    former, sentinel = trio.servers[0], trio.sentinels[0]
    keeper.call("acquire", "first").ok()
    new = trio.failover()
    goes_on = lambda: keeper.call("within", "second", thread="t", wait=200).code == "OK"
    until(goes_on, 20, "the new master grants")
    sentinel.pause()
    former.call("REPLICAOF", "127.0.0.1", new.port)
    until(lambda: trio.linked() == count - 1, 20, "all follow the new master")
    keeper.call("acquire", "third").ok()
    assert former.call("EXISTS", "third") == 1
    former.call("REPLICAOF", "NO", "ONE")
    keeper.call("try", "fourth").is_code("LK_ENOTDURABLE")
    # It may have gone for good.
    assert keeper.call("within", "fifth", wait=20_000).ok().took < 10
    sentinel.resume()


SLAVE = {"flags": "slave", "last-ok-ping-reply": 100, "role-reported": "slave",
         "master-link-status": "err", "master-link-down-time": 0, "master-host": "?",
         "slave-priority": 100, "slave-repl-offset": 0}
"""What a sentinel tells of a replica that it has not looked at yet."""
JOINING = {**SLAVE, "master-host": "127.0.0.1", "master-link-down-time": -1000,
           "slave-repl-offset": 1}


def fields_of(server, **fields) -> dict[str, object]:
    return {"ip": "127.0.0.1", "port": server.port, **fields}


def test_a_former_master_that_has_followed(replicas, named, make_keeper):
    """It is a replica like any other: it counts also while its link is down."""
    old, new = replicas(count=2).servers
    url = named((("127.0.0.1", old.port), "a"))
    sentinel = named.made[0]
    follower = {**SLAVE, "master-host": "127.0.0.1", "master-link-status": "ok"}
    sentinel.replicas = [fields_of(new, **follower)]
    keeper = make_keeper(url)
    keeper.call("acquire", "first").ok()
    new.call("REPLICAOF", "NO", "ONE")
    old.call("REPLICAOF", "127.0.0.1", new.port)
    until(lambda: b"state=online" in new.call("INFO", "replication"), 10, "the old one follows")
    sentinel.replicas = [fields_of(old, **follower)]
    sentinel.place = ("127.0.0.1", new.port)
    goes_on = lambda: keeper.call("within", "second", thread="t", wait=200).code == "OK"
    until(goes_on, 20, "the new master grants")
    is_asked(sentinel)
    sentinel.replicas = [fields_of(old, **{**follower, "master-link-status": "err"})]
    old.call("REPLICAOF", "NO", "ONE")
    is_asked(sentinel)
    keeper.call("try", "third").is_code("LK_ENOTDURABLE")


def is_asked(sentinel) -> None:
    """Twice, so the client has heard what it says now, and has counted who must have a grant."""
    asked = sentinel.asked
    until(lambda: sentinel.asked > asked + 2, 10, "the client asks for the master")


@pytest.mark.parametrize(("joining", "other", "code"), [
    ({}, {}, "OK"),
    ({"master-link-down-time": 0}, {}, "LK_ENOTDURABLE"),
    ({"master-link-down-time": 3000}, {}, "LK_ENOTDURABLE"),
    ({"slave-repl-offset": 1000}, {}, "LK_ENOTDURABLE"),
    ({"flags": "slave,promoted"}, {}, "LK_ENOTDURABLE"),
    ({"role-reported": "master"}, {}, "LK_ENOTDURABLE"),
    ({}, {"slave-priority": 101}, "LK_ENOTDURABLE"),
    ({}, {"slave-priority": 0}, "LK_ENOTDURABLE"),
    ({}, {"slave-repl-offset": 1}, "LK_ENOTDURABLE"),
    ({}, {"master-link-status": "err"}, "LK_ENOTDURABLE"),
    ({}, {"flags": "s_down,slave"}, "LK_ENOTDURABLE"),
], ids=["joins", "not-seen", "was-linked", "has-data", "promoted", "a-master", "lower", "never",
        "no-more", "not-linked", "down"])
def test_a_replica_that_gets_its_first_copy(replicas, named, make_server, make_keeper, joining,
                                            other, code):
    """It cannot become the master as long as another is there, which sentinels prefer."""
    pair, new = replicas(count=2), make_server()
    url = named((("127.0.0.1", pair.servers[0].port), "a"))
    named.made[0].replicas = [
        fields_of(pair.servers[1], **{**SLAVE, "master-host": "127.0.0.1", "slave-repl-offset": 500,
                                      "master-link-status": "ok", **other}),
        fields_of(new, **{**JOINING, **joining})]
    make_keeper(url).call("try", "some").is_code(code)


def test_a_new_replica_that_synchronizes_for_long(watched, make_keeper, folder):
    """What is held is kept, and more is granted, before it has its first copy. From then on each
    grant is on it."""
    trio = watched(count=2, sentinels=1)
    keeper = make_keeper(trio.url, watchdog_ms=3000)
    keeper.listen()
    keeper.call("acquire", "held").ok()
    trio.master().set("repl-diskless-sync-delay", "20")
    new = stranger(folder, trio)
    try:
        until(lambda: tells_of_joining(trio, new), 30, "the sentinel has looked at it")
        for number in range(20):
            keeper.call("acquire", f"lock{number}").ok()
        make_keeper(trio.url).call("try", "other").ok()
        assert tells_of_joining(trio, new), "it has not got its copy meanwhile"
        assert not keeper.events_of(EVENT_LOST)
        until(lambda: trio.linked() == 2, 60, "it has its copy")
        keeper.call("acquire", "warm").ok()
        assert follows_at_once(keeper, new)
        assert keeper.call("is_held", "held").result == 1
    finally:
        new.kill()


def tells_of_joining(trio, server) -> bool:
    told = (dict(zip(row[::2], row[1::2]))
            for row in trio.sentinels[0].call("SENTINEL", "REPLICAS", MASTER))
    return any(int(row[b"port"]) == server.port and row[b"flags"] == b"slave" and
               int(row[b"master-link-down-time"]) < 0 for row in told)


def stranger(folder, trio, **config) -> Server:
    """A replica of the master that no sentinel has heard of; it is asleep, or will not look."""
    place = folder / "stranger"
    place.mkdir()
    made = Server(place, {"repl-diskless-load": "swapdb", **config}).start_anywhere()
    made.call("REPLICAOF", "127.0.0.1", trio.servers[0].port)
    return made


@pytest.mark.parametrize("count", [1, 2])
def test_a_replica_that_nobody_knows_yet(watched, make_keeper, folder, count):
    """Somebody may promote it before the sentinels have told of it."""
    trio = watched(count=count, sentinels=1)
    keeper = make_keeper(trio.url)
    keeper.call("acquire", "first").ok()
    trio.sentinels[0].pause()
    new = stranger(folder, trio)
    try:
        until(lambda: trio.linked() == count, 20, "it follows the master")
        time.sleep(1.1)  # of a master that had none a client asks once a second who is connected
        with new.connect() as connection:
            for number in range(40):
                keeper.call("acquire", f"lock{number}").ok()
                assert connection.call("EXISTS", f"lock{number}") == 1
        new.call("REPLICAOF", "NO", "ONE")
        keeper.call("try", "second").is_code("LK_ENOTDURABLE")
        # It may have gone for good.
        assert keeper.call("within", "third", wait=20_000).ok().took < 15
    finally:
        new.kill()
        trio.sentinels[0].resume()


def test_one_that_nobody_knows_and_that_hangs(watched, make_keeper, folder):
    """It counts until it has been silent for five seconds, though its master has it connected."""
    trio = watched(count=2, sentinels=1)
    keeper = make_keeper(trio.url)
    keeper.call("acquire", "first").ok()
    trio.sentinels[0].pause()
    new = stranger(folder, trio)
    try:
        until(lambda: trio.linked() == 2, 20, "it follows the master")
        keeper.call("acquire", "second").ok()
        new.pause()
        keeper.call("try", "third").is_code("LK_ENOTDURABLE")
        keeper.call("within", "fourth", wait=20_000).ok()
        assert trio.linked() == 2, "the master still has it"
        keeper.call("try", "fifth").ok()
        new.resume()
        until(lambda: new.call("EXISTS", "fifth") == 1, 10, "it goes on")
        until(lambda: keeper.call("acquire", f"more{time.monotonic_ns()}").ok() and
              follows_at_once(keeper, new), 10, "it counts again")
    finally:
        new.kill()
        trio.sentinels[0].resume()


def follows_at_once(keeper, replica) -> bool:
    """Whether what is granted was on it at that moment, several times."""
    names = [f"name{time.monotonic_ns()}" for _ in range(20)]
    with replica.connect() as connection:
        return all(keeper.call("acquire", name).ok() and connection.call("EXISTS", name)
                   for name in names)


def test_a_known_one_that_hangs(watched, make_keeper):
    """As soon as sentinels call it down it does not count, though its master has it connected."""
    trio = watched(count=3, sentinels=1)
    keeper = make_keeper(trio.url, command_timeout_ms=1000)  # before it is called down
    keeper.call("acquire", "first").ok()
    trio.servers[2].pause()
    try:
        keeper.call("try", "second").is_code("LK_ENOTDURABLE")
        keeper.call("within", "third", wait=20_000).ok()
        assert trio.linked() == 2, "the master still has it"
        keeper.call("try", "fourth").ok()
    finally:
        trio.servers[2].resume()
