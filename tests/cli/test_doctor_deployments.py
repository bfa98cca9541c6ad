"""lockkeeper doctor at masters with replicas, sentinels and clusters: what would go wrong in a
failover. All is on one machine, which each report says."""
from __future__ import annotations

import contextlib

import pytest

from command import ROOT
from clusters import PATIENT_MS, Cluster
from deployments import MASTER, Replicas, Watched, refused_port
from examination import detail, ids
from resp import ErrorReply
from servers import Server
from waiting import until

SAFE = {"appendonly": "yes", "appendfsync": "always"}


@pytest.fixture
def deploy(folder):
    """Starts a deployment of servers that are safe."""
    with contextlib.ExitStack() as made:
        def make(kind, **options):
            place = folder / kind.__name__
            place.mkdir()
            deployment = kind(place, **{**SAFE, **options})
            made.callback(deployment.kill)
            return deployment
        yield make


def told(report: dict) -> list[str]:
    """But for what is so of all deployments here: one machine, sentinels in a hurry."""
    return [name for name in ids(report) if name not in ("failover-same-host", "sentinel-hasty")]


def roles(report: dict) -> list[str]:
    return [node["role"] for node in report["nodes"]]


def node(report: dict, name: str) -> str:
    return next(finding["node"] for finding in report["findings"] if finding["id"] == name)


def test_sentinels_and_replicas_are_looked_at(deploy, doctor):
    watched = deploy(Watched)
    report = doctor("--url", watched.url)
    assert told(report) == []
    assert roles(report) == ["master"] + ["sentinel"] * 3 + ["replica"] * 2
    assert {node["url"] for node in report["nodes"][1:]} == (
        {f"redis-sentinel://127.0.0.1:{sentinel.port}/{MASTER}" for sentinel in watched.sentinels} |
        {f"redis://127.0.0.1:{replica.port}" for replica in watched.replicas()})
    assert report["promise"] == ("a master with 2 replicas and 3 sentinels: a crash loses no lock; "
                                 "a failover to a replica that is connected loses no lock")
    # The second and third sentinel, and each replica, are beside another.
    assert ids(report).count("failover-same-host") == 4


def test_sentinels_that_are_not_listed_are_found(deploy, doctor):
    watched = deploy(Watched)
    one = f"redis-sentinel://127.0.0.1:{watched.sentinels[1].port}/{MASTER}"
    assert roles(doctor("--url", one)).count("sentinel") == 3


def test_listed_replicas(deploy, doctor):
    replicas = deploy(Replicas)
    names = ",".join(f"localhost:{server.port}" for server in replicas.servers)
    for url in (replicas.url, f"redis-replicas://{names}"):
        report = doctor("--url", url)
        assert told(report) == [] and roles(report) == ["master", "replica", "replica"]
        assert report["promise"].startswith("a master with 2 replicas: a crash loses no lock; ")


def test_a_cluster(deploy, doctor):
    cluster = deploy(Cluster)
    report = doctor("--url", cluster.url)
    assert told(report) == [] and roles(report) == ["master"] * 3 + ["replica"] * 3
    cluster.replicas(1)[0].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    report = doctor("--url", cluster.url)
    assert told(report) == ["replica-differs"]
    assert node(report, "replica-differs").endswith(f":{cluster.replicas(1)[0].port}")


def test_a_quorum_of_deployments(deploy, doctor, folder):
    watched = deploy(Watched, count=2, sentinels=1)
    urls = [watched.url]
    alone = []
    try:
        for number in range(2):
            place = folder / f"alone{number}"
            place.mkdir()
            alone.append(Server(place, SAFE).start_anywhere())
            urls.append(alone[-1].unix_url)
        report = doctor(*(word for url in urls for word in ("--url", url)))
        assert roles(report) == ["master"] * 3 + ["sentinel", "replica"]
        assert told(report) == ["sentinels-few", "quorum-same-host", "quorum-same-host"]
        assert report["promise"].startswith("a quorum of 3 servers, of which 3 serve")
    finally:
        for server in alone:
            server.stop()


REPLICAS = [
    (["CONFIG", "SET", "appendonly", "no"], "replica-differs", "persistence-off"),
    (["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"], "replica-differs", "eviction-latent"),
    (["ACL", "SETUSER", "default", "-evalsha"], "replica-differs", "rights (refused: evalsha"),
    (["CONFIG", "SET", "replica-read-only", "no"], "replica-writable", "replica-read-only is no"),
]


@pytest.mark.parametrize("command, name, words", REPLICAS, ids=[row[2] for row in REPLICAS])
def test_a_replica_that_is_worse_than_its_master(deploy, doctor, command, name, words):
    replicas = deploy(Replicas)
    replicas.servers[2].call(*command)
    report = doctor("--url", replicas.url)
    assert told(report) == [name] and words in detail(report, name)
    assert node(report, name).endswith(f":{replicas.servers[2].port}")


def test_what_all_have_is_told_once(deploy, doctor):
    replicas = deploy(Replicas, appendfsync="everysec")
    assert told(doctor("--url", replicas.url)) == ["appendfsync-everysec"]


def test_a_replica_that_lost_its_master(deploy, doctor):
    replicas = deploy(Replicas)
    replicas.servers[1].call("REPLICAOF", "127.0.0.1", refused_port())
    report = doctor("--url", replicas.url)
    # What the master says of its replicas may still count it.
    assert "replica-behind" in told(report) and "is down" in detail(report, "replica-behind")


def test_a_replica_of_another(deploy, doctor, folder):
    replicas = deploy(Replicas)
    place = folder / "other"
    place.mkdir()
    other = Server(place, {**SAFE, "repl-diskless-sync-delay": 0}).start_anywhere()
    try:
        stray = replicas.servers[1]
        stray.call("REPLICAOF", "127.0.0.1", other.port)
        until(lambda: stray.info("master_link_status") == "up", 20, "it follows the other")
        report = doctor("--url", replicas.url)
        assert "replica-astray" in told(report)
        assert detail(report, "replica-astray") == f"it follows 127.0.0.1:{other.port}"
    finally:
        other.stop()


def test_two_masters(deploy, doctor):
    replicas = deploy(Replicas, count=2)
    replicas.servers[1].call("REPLICAOF", "NO", "ONE")
    report = doctor("--url", replicas.url)
    assert told(report) == ["unusable", "replica-astray", "replica-astray"]
    assert "two of the listed servers say that they are the master" in detail(report, "unusable")
    assert "no lock can be taken" in report["promise"]


def test_a_replica_that_is_down(deploy, doctor):
    watched = deploy(Watched)
    replica = watched.replicas()[0]
    replica.kill()
    report = doctor("--url", watched.url)
    assert told(report) == ["replica-unreachable"]
    assert node(report, "replica-unreachable") == f"redis://127.0.0.1:{replica.port}"
    assert "a master with 1 replica and" in report["promise"]


def test_a_replica_that_is_never_promoted(deploy, doctor):
    watched = deploy(Watched, count=2)
    watched.replicas()[0].call("CONFIG", "SET", "replica-priority", 0)
    assert told(doctor("--url", watched.url)) == ["replica-never-promoted"]


def test_sentinels_that_are_down(deploy, doctor):
    watched = deploy(Watched)
    watched.sentinels[0].kill()
    report = doctor("--url", watched.url)
    assert told(report) == ["sentinel-unreachable"]
    watched.sentinels[1].kill()

    def no_failover():
        report = doctor("--url", watched.url)
        return report if "sentinel-no-failover" in told(report) else None

    report = until(no_failover, 20, "the last one knows that it is alone")
    assert told(report) == ["sentinel-no-failover", "sentinel-unreachable", "sentinel-unreachable"]
    assert detail(report, "sentinel-no-failover").startswith("NOQUORUM")
    assert report["promise"].endswith("; there would be no failover now")


def test_a_sentinel_that_does_not_watch_the_master(deploy, doctor):
    watched = deploy(Watched)
    watched.sentinels[2].call("SENTINEL", "REMOVE", MASTER)
    report = doctor("--url", watched.url)
    assert told(report) == ["sentinel-astray"]
    assert "No such master" in detail(report, "sentinel-astray")


def test_sentinels_that_are_slower_than_a_lease(deploy, doctor):
    watched = deploy(Watched, count=2, sentinels=1)
    assert "is 500" in detail(doctor("--url", watched.url), "sentinel-hasty")
    watched.sentinels[0].call("SENTINEL", "SET", MASTER, "down-after-milliseconds", 30000)
    report = doctor("--url", watched.url)
    assert "sentinel-hasty" not in ids(report)
    assert told(report) == ["sentinels-few", "sentinel-slow"]
    assert detail(report, "sentinel-slow") == (
        "down-after-milliseconds is 30000, so a failover may take 34000 ms; watchdog_ms is 30000, "
        "which leaves 14500 ms for it, and 60000 is safe")
    assert told(doctor("--url", watched.url, LOCKKEEPER_WATCHDOG_MS="60000")) == ["sentinels-few"]


def test_a_cluster_that_is_slower_than_a_lease(deploy, doctor):
    cluster = deploy(Cluster)
    master, replica = cluster.master(1), cluster.replicas(1)[0]
    replica.set("cluster-node-timeout", 20000)
    report = doctor("--url", cluster.url)
    assert told(report) == ["replica-differs"]
    assert "cluster-slow" in detail(report, "replica-differs")
    master.set("cluster-node-timeout", 20000)
    report = doctor("--url", cluster.url)
    assert told(report) == ["cluster-slow"] and node(report, "cluster-slow").endswith(
        f":{master.port}")
    assert detail(report, "cluster-slow") == (
        "cluster-node-timeout is 20000, so a failover may take 32000 ms; watchdog_ms is 30000, "
        "which leaves 14500 ms for it, and 57000 is safe")
    assert told(doctor("--url", cluster.url, LOCKKEEPER_WATCHDOG_MS="57000")) == []


def lose_slot(cluster, slot: int) -> None:
    """Until no node knows an owner; one may hear of it from another meanwhile."""
    def is_lost() -> bool:
        for one in cluster.nodes:
            with contextlib.suppress(ErrorReply):
                one.call("CLUSTER", "DELSLOTS", slot)
        return not any(row.has(slot) for one in cluster.nodes for row in one.view().values())

    until(is_lost, 20, f"nobody has slot {slot}")


def test_slots_without_a_master(deploy, doctor):
    cluster = deploy(Cluster, replicas=0)
    lose_slot(cluster, 7)
    lose_slot(cluster, 16383)
    report = doctor("--url", cluster.url)
    assert told(report) == ["cluster-slots"] and report["worst"] == "error"
    assert detail(report, "cluster-slots") == "no master has 2 of the 16384 slots, the first of " \
                                              "them 7"
    assert report["promise"].endswith("; but some slots have no master")


FOLLOWS = "+role +wait"
IN_A_CLUSTER = f"{FOLLOWS} +cluster|myid +cluster|slots +asking"
SHARDED = "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub"
LISTENS = "-publish -subscribe -unsubscribe -pubsub|numsub"


def limit(server, changes: str) -> None:
    """The user of the documented list, with changes."""
    _, _, *rules = (ROOT / "docs" / "acl" / "locks.acl").read_text().split()
    server.call("ACL", "SETUSER", "limited", "reset", *rules, "+acl|dryrun", "+info", "+config|get",
                *changes.split())


def as_limited(url: str) -> dict:
    return {"LOCKKEEPER_URL": url.replace("://", "://limited:change-me@"),
            "LOCKKEEPER_KEY_PREFIX": "app:"}


def refused(deployment, doctor, servers, rights: str, **environment) -> dict[str, str]:
    """What the doctor says of the rights of a user who has the documented ones with changes: by id,
    all that is told."""
    for server in servers:
        limit(server, rights)
    report = doctor(**as_limited(deployment.url), **environment)
    return {name: detail(report, name) for name in told(report)}


@pytest.mark.parametrize("kind", [Replicas, Watched])
def test_rights_that_a_master_with_replicas_needs(deploy, doctor, kind):
    made = deploy(kind)
    assert refused(made, doctor, made.servers, FOLLOWS) == {}
    found = refused(made, doctor, made.servers, f"{FOLLOWS} -wait")
    assert found == {"rights": "refused: wait"}
    found = refused(made, doctor, made.servers, f"{FOLLOWS} -role")
    assert "role" in found["rights"].lower()
    found = refused(made, doctor, made.servers, "+role", LOCKKEEPER_REPLICA_ACKS="0")
    assert list(found) == ["replicas-unguarded"], "nobody waits for them"
    for server in made.servers:
        limit(server, FOLLOWS)
    found = refused(made, doctor, made.replicas()[:1], f"{FOLLOWS} -wait")
    assert found == {"replica-differs": "unlike its master: rights (refused: wait)"}


CLUSTER_RIGHTS = [
    ("plain", "-wait", "rights", "refused: wait"),
    ("plain", "-cluster|myid", "rights-partial", "refused: cluster myid"),
    ("plain", "-asking", "rights-partial", "refused: asking"),
    ("sharded", "-spublish", "messages-refused",
     "spublish on the channel redisson_lock__channel:{app:"),
    ("sharded", "-ssubscribe", "messages-refused", "ssubscribe on the channel"),
    ("sharded", "-sunsubscribe", "messages-refused", "sunsubscribe on the channel"),
    ("sharded", "-pubsub|shardnumsub", "rights-partial", "refused: pubsub shardnumsub"),
]


def test_rights_that_a_cluster_needs(deploy, doctor):
    cluster = deploy(Cluster, node_timeout_ms=PATIENT_MS)
    listening = {"plain": IN_A_CLUSTER, "sharded": f"{IN_A_CLUSTER} {SHARDED} {LISTENS}",
                 "both": f"{IN_A_CLUSTER} {SHARDED}"}

    def look(messages, change, nodes=cluster.nodes):
        return refused(cluster, doctor, nodes, f"{listening[messages]} {change}",
                       LOCKKEEPER_MESSAGES=messages, LOCKKEEPER_WATCHDOG_MS="45000")

    for messages in listening:
        assert look(messages, "") == {}, messages
    for messages, change, name, words in CLUSTER_RIGHTS:
        found = look(messages, change)
        assert name in found and words in found[name], (change, found)
    for change in ("-spublish", "-publish"):
        assert "messages-refused" in look("both", change)
    assert look("plain", "") == {}
    found = look("plain", "-cluster|slots", cluster.nodes[:1])
    assert found == {"rights": "refused: cluster slots"}, "the other nodes tell it"


def test_rights_for_replicas_that_are_to_acknowledge(deploy, doctor):
    master = deploy(Replicas, count=2).servers[0]
    limit(master, "")
    assert told(doctor(**as_limited(master.url))) == ["replicas-unguarded"]
    report = doctor(**as_limited(master.url), LOCKKEEPER_REPLICA_ACKS="1")
    assert detail(report, "rights") == "refused: wait"
    assert report["promise"] == "none: the user lacks rights that every lock needs"
    limit(master, "+wait")
    assert told(doctor(**as_limited(master.url), LOCKKEEPER_REPLICA_ACKS="1")) == []


def test_rights_for_disks_that_are_to_acknowledge(deploy, doctor):
    made = deploy(Replicas)
    if made.servers[0].call("COMMAND", "INFO", "WAITAOF") == [None]:
        pytest.skip("it has no WAITAOF")
    local, replicas = ({"LOCKKEEPER_FSYNC_ACKS": disks} for disks in ("local", "replicas"))
    assert refused(made, doctor, made.servers, f"{FOLLOWS} +waitaof", **local) == {}
    assert refused(made, doctor, made.servers, "+role +waitaof", **replicas) == {}, "not WAIT too"
    found = refused(made, doctor, made.servers, "+role +waitaof", **local)
    assert found == {"rights": "refused: wait"}
    for server in made.servers:
        limit(server, f"{FOLLOWS} +waitaof")
    found = refused(made, doctor, made.replicas()[:1], FOLLOWS, **local)
    assert found == {"replica-differs": "unlike its master: rights (refused: waitaof)"}


def test_a_sentinel_that_refuses(deploy, doctor):
    rights = "-@all +auth +subscribe +sentinel|myid +sentinel|get-master-addr-by-name" \
             " +sentinel|replicas +sentinel|sentinels &*"
    watched = deploy(Watched, count=2, sentinels=1, more=f"user less on >pw {rights}")
    login = {"LOCKKEEPER_SENTINEL_USERNAME": "less", "LOCKKEEPER_SENTINEL_PASSWORD": "pw"}
    report = doctor("--url", watched.url, **login)
    assert told(report) == ["sentinels-few", "not-looked-at"]
    assert "SENTINEL MASTER: NOPERM" in detail(report, "not-looked-at")
    assert "replica" in roles(report)
    report = doctor("--url", watched.url, **{**login, "LOCKKEEPER_SENTINEL_PASSWORD": "wrong"})
    assert told(report) == ["sentinels-few", "sentinel-unusable"]
    assert "wrong" not in str(report).replace("WRONGPASS", "")
