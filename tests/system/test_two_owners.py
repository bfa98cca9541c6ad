"""Failures that give two owners, and others that do not, as docs/guarantees.md says.

Where there are two, a resource that compares fence tokens refuses the one who was granted it first.
"""
from __future__ import annotations

import pytest

import moving
from clusters import Cluster
from deployments import MASTER, FakeSentinel, Replicas, Watched, refused_port
from test_clock_steps import ClockedServer
from test_cluster_slots import Move
from waiting import until

LEASE_MS = 60_000
SLOW = "sentinel down-after-milliseconds mymaster 60000"
NODES = 3


class Owners:
    """Two processes that want one lock, of the given URLs."""

    def __init__(self, make_keeper, url: str, other_url: str = "", name: str = "lock", **options):
        self.first, self.second = (make_keeper(each, **options) for each in (url, other_url or url))
        self.name, self.kind = name, {"kind": "fenced", "lease": LEASE_MS}

    def take(self) -> None:
        self.granted = self.first.call("within", self.name, wait=20_000, limit=30, **self.kind).ok()

    def are_two(self, resource) -> None:
        """The second is granted it while the first still has a lease, and has a later token."""
        granted = self.second.call("within", self.name, wait=30_000, limit=40, **self.kind).ok()
        assert granted.end_ns < self.granted.deadline_ns
        self.second.open(resource.url, c="resource")
        checks = [self.second.call("fence_check", "file", c="resource", token=token)
                  for token in (self.granted.fence, granted.fence, self.granted.fence)]
        assert [check.code for check in checks] == ["OK", "OK", "LK_ESTALE"]


@pytest.fixture
def resource(make_server):
    """What the lock protects. It compares tokens."""
    return make_server()


def hang(replica, master) -> None:
    """Neither the replica nor its socket gets what the master writes from now on."""
    replica.pause()
    moving.without_replication(master)


def promoted(deployment, old, new) -> None:
    """The old master is dead, and the deployment goes on with this replica."""
    if type(deployment) is Replicas:
        new.call("REPLICAOF", "NO", "ONE")
    else:
        assert deployment.switched(old) is new


@pytest.mark.parametrize("kind, options", [(Replicas, {}), (Watched, {"more": SLOW}),
                                           (Cluster, {"node_timeout_ms": 60_000})],
                         ids=["replicas", "sentinel", "cluster"])
def test_a_master_restarts_without_its_data(deploy, make_keeper, resource, kind, options):
    """Before it is missed: its replicas copy what it has."""
    deployment = deploy(kind, **options)
    name = deployment.name_on(0) if kind is Cluster else "lock"
    master = deployment.master(0) if kind is Cluster else deployment.master()
    owners = Owners(make_keeper, deployment.url, name=name)
    owners.take()
    master.kill()
    master.start()
    owners.are_two(resource)


@pytest.mark.parametrize("kind", [Replicas, Watched, Cluster], ids=["replicas", "sentinel",
                                                                    "cluster"])
def test_a_replica_without_the_grant_is_promoted(deploy, make_keeper, resource, kind):
    """It hangs, and does not count, when the lock is granted. Then the master dies."""
    deployment = deploy(kind) if kind is Cluster else deploy(kind, count=2)
    name = deployment.name_on(0) if kind is Cluster else "lock"
    master = deployment.master(0) if kind is Cluster else deployment.master()
    replica = deployment.replicas(0)[0] if kind is Cluster else deployment.replicas()[0]
    owners = Owners(make_keeper, deployment.url, name=name)
    hang(replica, master)
    owners.take()
    master.kill()
    replica.resume()
    promoted(deployment, master, replica)
    owners.are_two(resource)


@pytest.fixture
def split(replicas):
    """A master and a replica that has been promoted on the other side of a partition."""
    pair = replicas(count=2)
    old, new = pair.servers
    moving.without_replication(old)
    new.call("REPLICAOF", "NO", "ONE")
    return old, new


def test_clients_that_reach_one_listed_master_each(split, make_keeper, resource):
    old, new = split
    away = refused_port()
    owners = Owners(make_keeper, f"redis-replicas://127.0.0.1:{old.port},127.0.0.1:{away}",
                    f"redis-replicas://127.0.0.1:{away},127.0.0.1:{new.port}")
    owners.take()
    owners.are_two(resource)


@pytest.fixture
def sentinels():
    """sentinels(place, …): one for each, that names it; and the URL that lists them."""
    made = []

    def make(*places, away: int = 0) -> str:
        new = [FakeSentinel(place, f"{len(made) + number}") for number, place in enumerate(places)]
        made.extend(new)
        ports = [sentinel.port for sentinel in new] + [refused_port() for _ in range(away)]
        return f"redis-sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{MASTER}"

    yield make
    for sentinel in made:
        sentinel.stop()


def test_clients_that_reach_the_sentinels_of_one_side_each(split, make_keeper, resource, sentinels):
    """The first believes the only one that answers, which has not heard of the new master."""
    old, new = (("127.0.0.1", server.port) for server in split)
    owners = Owners(make_keeper, sentinels(old, away=2), sentinels(new, new, away=1))
    owners.take()
    owners.are_two(resource)


@pytest.mark.parametrize("how", ["single", "replicas", "sentinel"])
def test_a_holder_that_is_cut_off_from_the_master(replicas, make_proxy, make_keeper, sentinels,
                                                  how):
    """Alone; others reach it. The holder knows that it has lost the lock when another gets it."""
    pair = replicas(count=2)
    proxy = make_proxy(pair.servers[0].path)
    url = {"single": proxy.url, "sentinel": sentinels(("127.0.0.1", proxy.port)),
           "replicas": f"redis-replicas://127.0.0.1:{proxy.port},127.0.0.1:{pair.servers[1].port}"}
    holder = make_keeper(url[how], watchdog_ms=2000)
    other = make_keeper(pair.servers[0].url)
    holder.listen()
    holder.call("acquire", "lock").ok()
    waits = other.say("within", "lock", wait=20_000)
    proxy.deafen()
    proxy.cut_all()
    granted = waits.result(30).ok()
    seen = holder.call("is_held", "lock")
    assert seen.result == 0 and granted.deadline_ns > seen.end_ns, "two owners"
    moving.is_told(holder, "lock")


@pytest.fixture
def clocked(folder):
    """clocked(count): servers whose clocks the test sets."""
    made = []

    def make(count: int) -> list[ClockedServer]:
        for _ in range(count):
            place = folder / f"clocked{len(made)}"
            place.mkdir()
            made.append(ClockedServer(place))
            made[-1].start()
        return made

    yield make
    for server in made:
        server.kill()


def test_a_clock_that_jumps_forward(clocked, make_keeper, resource):
    (server,) = clocked(1)
    owners = Owners(make_keeper, server.url)
    owners.take()
    server.move(2 * LEASE_MS / 1000)
    owners.are_two(resource)


class Voters:
    """Two processes that want a red lock over the same nodes."""

    def __init__(self, make_keeper, urls: list[str]):
        self.keepers = [make_keeper() for _ in range(2)]
        for keeper in self.keepers:
            for number, url in enumerate(urls):
                keeper.open(url, c=f"n{number}")
        self.nodes = ",".join(f"n{number}" for number in range(len(urls)))

    def call(self, number: int, verb: str, wait: int = 0):
        return self.keepers[number].call(verb, "lock", kind="red", c="n0", nodes=self.nodes,
                                         wait=wait, lease=LEASE_MS, quarantine=LEASE_MS, limit=40)

    def are_two(self, two: bool) -> None:
        """When the first has it, the second gets it too, or does not."""
        granted = self.call(1, "within", wait=10_000 if two else 1000)
        assert (granted.code == "OK") == two, granted
        assert granted.end_ns < self.granted.deadline_ns

    def take(self) -> None:
        self.granted = self.call(0, "within", wait=20_000).ok()

    def sleep(self) -> None:
        """The first repairs no node that loses its grant before the next one does."""
        self.keepers[0].pause()


@pytest.mark.parametrize("jumps", [1, 2])
def test_clocks_of_a_quorum_that_jump_forward(clocked, make_keeper, jumps):
    """A majority decides."""
    servers = clocked(NODES)
    for server in servers:
        server.set("appendfsync", "always")
    voters = Voters(make_keeper, [server.url for server in servers])
    voters.take()
    until(lambda: all(server.holders("lock") for server in servers), 5, "each node has it")
    voters.sleep()
    for server in servers[:jumps]:
        server.move(2 * LEASE_MS / 1000)
    voters.are_two(jumps > 1)


@pytest.mark.parametrize("losses", [1, 2])
def test_nodes_of_a_quorum_whose_replicas_lack_the_grant(replicas, make_keeper, losses):
    """They hang when it is granted, and take over when their masters are dead."""
    made = [replicas(count=2, appendonly="yes", appendfsync="always") for _ in range(NODES)]
    voters = Voters(make_keeper, [each.url for each in made])
    for each in made[:losses]:
        hang(each.servers[1], each.servers[0])
    voters.take()
    until(lambda: all(each.servers[0].holders("lock") for each in made), 10, "each node has it")
    voters.sleep()
    for each in made[:losses]:
        each.servers[0].kill()
        each.servers[1].resume()
        each.servers[1].call("REPLICAOF", "NO", "ONE")
    voters.are_two(losses > 1)


def test_a_slot_moves_without_its_keys(clusters, make_keeper, resource):
    move = Move(clusters())
    owners = Owners(make_keeper, move.cluster.url, name=move.name("lock"))
    owners.take()
    move.begin()
    for key in move.cluster.master(0).call("CLUSTER", "GETKEYSINSLOT", move.slot, 100):
        move.cluster.master(0).call("DEL", key)
    move.end()
    owners.are_two(resource)
