"""redis-cluster://: each name is locked on the master that has its slot."""
from __future__ import annotations

import json
import subprocess

import pytest

import moving
from clusters import PATIENT_MS, slot_of
from deployments import refused_port
from keeper import BUILD, ROOT
from moving import EVERY_LOCK, Contest, rival_of
from servers import channel_of, free_port
from waiting import boottime_ns, until

SHARDS = range(3)
LEASE_MS = 2000
COUNTERS = ("semaphore", "permits", "latch")


def is_there(cluster, name: str) -> bool:
    return cluster.node_of(name).call("EXISTS", name) == 1


def test_no_kind_is_forgotten(make_keeper):
    operations = make_keeper().call("list").operations.split()
    kinds = {operation.split(":")[0] for operation in operations}
    assert kinds - {"client", "red", "red-plain"} == {*EVERY_LOCK, *COUNTERS}


@pytest.mark.parametrize("queued", [0, 1])
def test_held_and_renewed(cluster, make_keeper, queued):
    """Each kind on each master: alone, for longer than the first lease, and free afterwards."""
    names = [(kind, cluster.name_on(index, kind)) for kind in EVERY_LOCK for index in SHARDS]
    holder, other = make_keeper(cluster.url, watchdog_ms=LEASE_MS), make_keeper(cluster.url)
    first = [holder.call("acquire", name, kind=kind, queue=queued).ok() for kind, name in names]
    for number, (_, name) in enumerate(names):
        assert cluster.master(number % len(SHARDS)).call("EXISTS", name) == 1
    until(lambda: boottime_ns() > max(grant.deadline_ns for grant in first), 10)
    for kind, name in names:
        assert holder.call("is_held", name, kind=kind, queue=queued).result == 1
        other.call("try", name, kind=rival_of(kind), queue=queued).is_code("LK_EBUSY")
        holder.call("release", name, kind=kind, queue=queued).ok()
        assert not is_there(cluster, name)
        other.call("try", name, kind=rival_of(kind), queue=queued).ok()
        other.call("release", name, kind=rival_of(kind), queue=queued).ok()


@pytest.mark.parametrize("index", SHARDS)
def test_a_release_wakes_the_waiter(cluster, make_keeper, index):
    """Of every kind: by a message, or by a poll, but not by the end of a lease."""
    names = {kind: cluster.name_on(index, kind) for kind in EVERY_LOCK}
    contest = Contest(make_keeper, cluster.url, names, lease_ms=30_000)
    until(lambda: cluster.master(index).channels(), 10, "it listens at the slot's master")
    contest.hand_over()


def test_sharded_messages(cluster, make_keeper):
    """Of every kind, on each master; and nobody listens to plain ones."""
    for index in SHARDS:
        names = {kind: cluster.name_on(index, kind) for kind in EVERY_LOCK}
        contest = Contest(make_keeper, cluster.url, names, 30_000, messages="sharded")
        master = cluster.master(index)
        until(lambda node=master: node.call("PUBSUB", "SHARDCHANNELS"), 10, "it listens there")
        assert not master.channels()
        contest.hand_over()


def test_sharded_messages_as_java_sends_them(cluster, make_keeper):
    """A release of ours is heard by who listens as Redisson does; and the reverse."""
    name = cluster.name_on(1)
    node, channel = cluster.node_of(name), f"redisson_lock__channel:{{{name}}}"
    keeper = make_keeper(cluster.url, messages="sharded")
    with node.connect() as java:
        java.call("SSUBSCRIBE", channel)
        keeper.call("acquire", name).ok()
        assert int(keeper.call("release", name).ok().result) == 0
        assert java.read() == [b"smessage", channel.encode(), b"0"]
    node.call("HSET", name, "java:1", 1)
    node.call("PEXPIRE", name, 60_000)
    waits = keeper.say("acquire", name, thread="w")
    until(lambda: node.call("PUBSUB", "SHARDNUMSUB", channel)[1] == 1, 10, "it listens")
    node.call("DEL", name)
    node.call("SPUBLISH", channel, "0")
    assert waits.result(10).ok().took < 10


MIXED = pytest.mark.parametrize("one, other", [
    ("both", "plain"), ("both", "sharded"), ("plain", "both"), ("sharded", "both"),
    ("both", "both")])


@MIXED
def test_messages_of_both_kinds(cluster, make_keeper, one, other):
    """Clients with both wake, and are woken by, those with either: every kind, on each master."""
    for index in SHARDS:
        names = {kind: cluster.name_on(index, kind) for kind in EVERY_LOCK}
        Contest(make_keeper, cluster.url, names, 30_000, messages=one,
                waiter={"messages": other}).hand_over()


@MIXED
def test_counters_with_messages_of_both_kinds(cluster, make_keeper, one, other):
    test_counters(cluster, make_keeper, 1, one, other)


def test_a_release_publishes_both_kinds_once(cluster, make_keeper):
    """By scripts and by commands of the server's own; nobody needs to listen to both."""
    keeper = make_keeper(cluster.url, messages="both")
    for kind in ("lock", "plain", "write"):
        name = cluster.name_on(1, kind)
        channel = f"redisson_rwlock:{{{name}}}" if kind == "write" else channel_of(name)
        with cluster.node_of(name).connect() as plain, cluster.node_of(name).connect() as sharded:
            plain.call("SUBSCRIBE", channel)
            sharded.call("SSUBSCRIBE", channel)
            for _ in range(2):
                keeper.call("acquire", name, kind=kind).ok()
                keeper.call("release", name, kind=kind).ok()
                assert plain.read()[:2] == [b"message", channel.encode()]
                assert sharded.read()[:2] == [b"smessage", channel.encode()]


@pytest.mark.parametrize("verb", ["SUBSCRIBE", "SSUBSCRIBE"])
def test_who_listens_to_either_kind_is_let_in_first(cluster, make_keeper, verb):
    """Both kinds count: the client that releases holds off before it tries again."""
    name = cluster.name_on(0, f"hold-off-{verb}")
    keeper = make_keeper(cluster.url, messages="both", holdoff_ms=1000)
    with cluster.node_of(name).connect() as other:
        other.call(verb, channel_of(name))
        keeper.call("acquire", name).ok()
        keeper.call("release", name).ok()
        assert keeper.call("within", name, wait=20_000).ok().took > 0.9


def test_own_subscriptions_are_nobody_elses(cluster, make_keeper):
    """A client that waits is counted twice where it releases, and need not hold off for itself."""
    name, took = cluster.name_on(0, "own"), []
    keeper = make_keeper(cluster.url, messages="both", holdoff_ms=1000, term_ms=0)
    home = cluster.node_of(name)
    for turn in range(3):
        home.call("HSET", name, "java:1", 1)
        home.call("PEXPIRE", name, 60_000)
        waits = [keeper.say("within", name, thread=f"t{number}", wait=20_000)
                 for number in range(2)]
        until(lambda: keeper.stats().waiting == 2, 10, "both wait")
        until(lambda: home.call("PUBSUB", "SHARDNUMSUB", channel_of(name))[1], 10, "it listens")
        home.call("DEL", name)
        home.call("SPUBLISH", channel_of(name), "0")
        first = next(number for number in until(lambda: [
            number for number in range(2) if waits[number].done], 10))
        waits[first].result().ok()
        released = keeper.call("release", name, thread=f"t{first}").ok()
        granted = waits[1 - first].result().ok()
        took.append((granted.end_ns - released.end_ns) / 1e9)
        keeper.call("release", name, thread=f"t{1 - first}").ok()
    assert min(took) < 0.9, took


def test_the_command_counts_waiters_of_both_kinds(cluster, make_keeper):
    """A client that listens to both kinds counts as one."""
    names = {kind: cluster.name_on(2, f"counted-{kind}") for kind in ("lock", "plain")}
    Contest(make_keeper, cluster.url, names, 30_000, messages="both")
    for name in names.values():
        seen = command(cluster, "show", "-o", "messages=both", "--json", name)
        assert json.loads(seen.stdout)["waiting_clients"] == 1, seen


def test_counters_with_sharded_messages(cluster, make_keeper):
    test_counters(cluster, make_keeper, 2, "sharded", "sharded")


@pytest.mark.parametrize("url, messages, words", [
    ("redis://127.0.0.1", "sharded", "cluster"), ("redis://127.0.0.1", "both", "cluster"),
    ("redis-cluster://127.0.0.1", "loud", "sharded or both")])
def test_messages_that_there_are_not(make_keeper, url, messages, words):
    seen = make_keeper().call("open", url=url, messages=messages).is_code("LK_EINVAL")
    assert "messages" in seen.message and words in seen.message, seen.message


def test_both_ways_of_calls(cluster, make_keeper):
    moving.use_every_kind(make_keeper(cluster.url))


@pytest.mark.parametrize("index", SHARDS)
def test_counters(cluster, make_keeper, index, messages="plain", others="plain"):
    """Permits that one client has, another waits for; and a latch that one counts down."""
    one, other = (make_keeper(cluster.url, messages=kind) for kind in (messages, others))
    for kind in ("semaphore", "permits"):
        name = cluster.name_on(index, kind)
        one.call("set", name, kind=kind, count=1).ok()
        ids = one.call("acquire", name, kind=kind, count=1).ok().get("ids", "")
        waits = other.say("within", name, thread=kind, kind=kind, count=1, wait=20_000)
        until(lambda: other.stats().waiting == 1, 10, "it waits")
        one.call("release", name, kind=kind, count=1, ids=ids).ok()
        waits.result().ok()
    name = cluster.name_on(index, "latch")
    one.call("set", name, kind="latch", count=1).ok()
    waits = other.say("within", name, thread="latch", kind="latch", wait=20_000)
    one.call("down", name, kind="latch", count=1).ok()
    waits.result().ok()


def test_a_multi_lock_across_shards(cluster, make_keeper):
    """All of them or none, and woken by the release of the one that was busy."""
    names = [cluster.name_on(index, "part") for index in (0, 1, 2, 0)]
    multi = ",".join(names)
    keeper, other = make_keeper(cluster.url), make_keeper(cluster.url)
    keeper.call("acquire", multi, kind="multi").ok()
    for name in names:
        other.call("try", name).is_code("LK_EBUSY")
    other.call("try", multi, kind="multi").is_code("LK_EBUSY")
    keeper.call("release", multi, kind="multi").ok()
    other.call("acquire", names[1]).ok()
    keeper.call("try", multi, kind="multi").is_code("LK_EBUSY")
    assert [is_there(cluster, name) for name in names] == [False, True, False, False]
    waits = keeper.say("within", multi, kind="multi", wait=20_000)
    until(lambda: keeper.stats().waiting == 1, 10, "it waits")
    other.call("release", names[1]).ok()
    waits.result().ok()
    assert all(is_there(cluster, name) for name in names)


def test_one_node_tells_of_all(cluster, make_keeper):
    """A replica will do, and a listed node that is dead does no harm."""
    names = [cluster.name_on(index) for index in SHARDS]
    replica = f"127.0.0.1:{cluster.replicas(0)[0].port}"
    for places in (replica, f"127.0.0.1:{refused_port()},{replica}"):
        keeper = make_keeper(f"valkey-cluster://{places}")
        for name in names:
            keeper.call("acquire", name).ok()
            keeper.call("release", name).ok()


def test_bad_input(make_server, make_keeper):
    """Each has its own error, which names the node and what it said."""
    lone, nobody = make_server(), refused_port()
    empty = make_server(cluster_enabled="yes", cluster_port=free_port())
    for port, code, words in ((lone.port, "LK_EREFUSED", "it is not a node of a cluster"),
                              (nobody, "LK_EUNREACHABLE", "Connection refused"),
                              (empty.port, "LK_EUNAVAILABLE", "slots")):
        keeper = make_keeper(f"redis-cluster://127.0.0.1:{port}", retry_ms=300)
        seen = keeper.call("acquire", "some").is_code(code)
        assert f"127.0.0.1:{port}" in seen.message and words in seen.message, seen.message


def test_what_a_cluster_has_not(make_keeper):
    """It is said when the client is opened, before a node is asked."""
    url = f"redis-cluster://127.0.0.1:{refused_port()}/1"
    seen = make_keeper().call("open", url=url).is_code("LK_EINVAL")
    assert "database" in seen.message and url in seen.message, seen.message


@pytest.mark.parametrize("verb", ["try", "acquire"])
def test_the_url_of_a_single_server(cluster, make_keeper, verb):
    """The name is on another node, or the node is a replica: it is said at once, and what to do."""
    for node in (cluster.master(1), cluster.replicas(0)[0]):
        seen = make_keeper(node.url).call(verb, cluster.name_on(0)).is_code("LK_EREFUSED")
        assert "redis-cluster://" in seen.message and seen.took < 5, seen.message


def test_tls(clusters, make_keeper, certificates):
    """Each node is verified by the name that the map has of it."""
    made = clusters(replicas=0, tls=certificates.files("good"))
    url = made.url.replace("redis-", "rediss-")
    keeper, names = make_keeper(url, tls_ca_file=certificates.ca), [made.name_on(i) for i in SHARDS]
    for name in names:
        keeper.call("acquire", name).ok()
    waits = keeper.say("acquire", names[2], thread="w")
    until(lambda: keeper.stats().waiting == 1, 10, "it waits")
    keeper.call("release", names[2]).ok()
    waits.result().ok()
    seen = make_keeper(url, retry_ms=5000).call("acquire", names[0]).is_code("LK_ETLS")
    assert "certificate" in seen.message, seen.message


def test_tls_by_a_name_that_no_map_has(clusters, make_keeper, certificates):
    """The map has addresses, and so have redirects; the certificates have a host name only."""
    made = clusters(replicas=0, tls=certificates.files("wrong_host"), node_timeout_ms=PATIENT_MS)
    url, names = made.url.replace("redis-", "rediss-"), [made.name_on(i) for i in SHARDS]
    options = {"tls_ca_file": certificates.ca}
    keeper = make_keeper(url, **options, tls_server_name="elsewhere.example")
    for name in names:
        keeper.call("acquire", name).ok()
        keeper.call("release", name).ok()
    for name in names[:2]:
        made.move_slot(slot_of(name), made.master(2))
        keeper.call("acquire", name).ok()
        assert made.master(2).holders(name)
    refused = make_keeper(url, **options).call("try", names[0]).is_code("LK_ETLS")
    assert "127.0.0.1" in refused.message, refused.message
    other = make_keeper(url, **options, tls_server_name="other.example")
    other.call("try", names[0]).is_code("LK_ETLS")


def test_tls_by_the_name_of_a_seed(clusters, make_keeper, certificates):
    """Only the URL has the name that is in the certificates; replicas and redirects have none."""
    made = clusters(tls=certificates.files("named"), node_timeout_ms=PATIENT_MS)
    addresses = made.url.replace("redis-", "rediss-")
    url, names = addresses.replace("127.0.0.1", "localhost"), [made.name_on(i) for i in SHARDS]
    options = {"tls_ca_file": certificates.ca}
    keeper = make_keeper(url, **options)
    for name in names:
        keeper.call("acquire", name).ok()
        keeper.call("release", name).ok()
    made.move_slot(slot_of(names[0]), made.master(2))
    keeper.call("acquire", names[0]).ok()
    assert made.master(2).holders(names[0])
    made.failover(1)
    keeper.call("acquire", names[1]).ok()
    seen = command(made, "doctor", "--json", url=f"{url}?tls_ca_file={certificates.ca}")
    facts = json.loads(seen.stdout)
    known = [node["server"] for node in facts["nodes"]]
    assert len(known) == 6 and all(known), facts["nodes"]
    refused = make_keeper(addresses, **options).call("try", names[0]).is_code("LK_ETLS")
    assert "127.0.0.1" in refused.message, refused.message


def test_least_rights(clusters, make_keeper):
    """Those that docs/options.md names; without one of them the error says which."""
    made, locks = clusters(replicas=0), ROOT / "docs" / "acl" / "locks.acl"
    page = (ROOT / "docs" / "options.md").read_text()
    more = ["+role", "+wait", "+cluster|myid", "+cluster|slots", "+asking"]
    sharded = ["+spublish", "+ssubscribe", "+sunsubscribe", "+pubsub|shardnumsub"]
    assert all(f"`{right}`" in page for right in more + sharded)
    for node in made.nodes:
        for name, rights in (("lk", more), ("less", more[:3]), ("sharded", more + sharded)):
            node.call("ACL", "SETUSER", name, *locks.read_text().split()[2:], ">pw", *rights)
    keeper = make_keeper(made.url.replace("://", "://lk:pw@"))
    for index in SHARDS:
        keeper.call("acquire", made.name_on(index, "app:some")).ok()
    contest = Contest(make_keeper, made.url.replace("://", "://sharded:pw@"),
                      {"lock": "app:other"}, 30_000, messages="sharded")
    until(lambda: made.node_of("app:other").call("PUBSUB", "SHARDCHANNELS"), 10, "it listens")
    contest.hand_over()
    seen = make_keeper(made.url.replace("://", "://less:pw@"), retry_ms=300)
    seen = seen.call("acquire", "app:some").is_code("LK_EDENIED")
    assert "cluster|slots" in seen.message, seen.message


def command(cluster, *words: str, url: str | None = None) -> subprocess.CompletedProcess:
    environment = {"LOCKKEEPER_URL": url or cluster.url, "PATH": "/usr/bin:/bin"}
    return subprocess.run([BUILD / "cli" / "lockkeeper", *words], capture_output=True, text=True,
                          timeout=60, env=environment)


def test_the_command_runs(cluster, make_keeper):
    """Alone for a name of each shard, and for all of them at once."""
    keeper, names = make_keeper(cluster.url), [cluster.name_on(index, "job") for index in SHARDS]
    also = ("--also", names[1], "--also", names[2], names[0])
    for words in [(name,) for name in names] + [also]:
        seen = command(cluster, "run", *words, "echo", "alone")
        assert (seen.returncode, seen.stdout) == (0, "alone\n"), seen
    for name in names:
        keeper.call("acquire", name).ok()
        assert command(cluster, "run", "-n", name, "true").returncode == 124
        assert command(cluster, "run", "-n", *also, "true").returncode == 124
        keeper.call("release", name).ok()


def test_the_doctor_looks_at_each_node(cluster):
    seen = json.loads(command(cluster, "doctor", "--json").stdout)
    masters = {node.port for node in cluster.masters()}
    assert {node["url"] for node in seen["nodes"]} == {
        f"{'redis-cluster' if node.port in masters else 'redis'}://127.0.0.1:{node.port}"
        for node in cluster.nodes}
    assert "3 masters, of which 3 serve" in seen["promise"]
    assert "a failover to a replica that is connected loses no lock" in seen["promise"]
    seen = json.loads(command(cluster, "doctor", "--json", url=cluster.master(0).url).stdout)
    assert seen["worst"] == "error" and "cluster-node" in {row["id"] for row in seen["findings"]}


def test_the_command_lists_all_shards(cluster, make_keeper):
    keeper, names = make_keeper(cluster.url), [cluster.name_on(i, "listed") for i in SHARDS]
    for name in names:
        keeper.call("acquire", name).ok()
    seen = command(cluster, "ls", "listed-*")
    assert seen.returncode == 0, seen
    assert sorted(line.split("\t")[0] for line in seen.stdout.splitlines()[1:]) == sorted(names)
    for name in names:
        shown = command(cluster, "show", name)
        assert shown.returncode == 0 and name in shown.stdout, shown
