"""lockkeeper doctor: servers with each bad setting, what it says of them, and how it exits."""
from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import subprocess
import threading

import pytest

import resp
from command import BUILD, ROOT, SANITIZED, Command
from examination import detail, ids
from fake_server import DENIED, FakeServer
from proxy import Cut, Park, Proxy
from servers import Server, free_port
from waiting import until

SAFE = {"appendonly": "yes", "appendfsync": "always"}
SKEW = BUILD / "tests" / "history" / "skew.so"


@pytest.fixture
def make(folder):
    """Starts a server that is safe but for the settings named."""
    made = []

    def start(config: dict | None = None, **settings) -> Server:
        place = folder / str(len(made))
        place.mkdir()
        changed = {name.replace("_", "-"): value for name, value in settings.items()}
        server = Server(place, {**SAFE, **changed, **(config or {})})
        if "cluster-port" in server.config:
            server.config["cluster-port"] = free_port()  # the default may be beyond the last port
        made.append(server)
        return server.start()

    yield start
    for server in made:
        server.stop()


def urls(*addresses: str) -> list[str]:
    return [word for address in addresses for word in ("--url", address)]


def test_a_safe_server(make, doctor):
    server = make()
    report = doctor("--url", server.unix_url)
    assert ids(report) == [] and report["worst"] == "note"
    assert report["promise"].startswith("one server: a crash loses no lock")
    node = report["nodes"][0]
    assert (node["url"], node["role"]) == (server.unix_url, "master")
    assert node["server"] in ("redis", "valkey") and node["version"][0].isdigit()
    assert 0 <= node["round_trip_us"] < 1_000_000 and abs(node["clock_ahead_us"]) < 1_000_000


SETTINGS = [
    ({"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"}, "eviction", 5, "104857600"),
    ({"maxmemory-policy": "volatile-ttl", "maxmemory": "100mb"}, "eviction", 5, "volatile-ttl"),
    ({"maxmemory-policy": "allkeys-lru"}, "eviction-latent", 4, "maxmemory is 0"),
    ({"appendonly": "no"}, "persistence-off", 4, "save is empty"),
    ({"appendonly": "no", "save": "3600 1"}, "persistence-snapshots", 4, "save is set"),
    ({"appendfsync": "no"}, "appendfsync-no", 4, "appendfsync is no"),
    ({"appendfsync": "everysec"}, "appendfsync-everysec", 4, "everysec"),
    ({"timeout": "300"}, "idle-timeout", 0, "300"),
    ({"client-output-buffer-limit": "pubsub 64kb 32kb 60"}, "pubsub-buffer", 4, "65536"),
    ({"cluster-enabled": "yes", "cluster-port": 0}, "cluster-node", 5, "has no slots"),
]


@pytest.mark.parametrize("config, name, code, words", SETTINGS,
                         ids=[f"{row[1]}-{index}" for index, row in enumerate(SETTINGS)])
def test_each_bad_setting(make, doctor, config, name, code, words):
    server = make(config)
    report = doctor("--url", server.unix_url)
    assert ids(report) == [name] and words in detail(report, name)
    done = doctor.command("doctor", "--url", server.unix_url)
    assert done.returncode == code
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{report['worst']}: {name}: {server.unix_url}: ")
    assert " Fix: " in lines[0] and words in lines[0]
    assert lines[-1] == f"promise: {report['promise']}."
    assert len(lines) == len(report["findings"]) + 1


def test_nothing_is_written(make, doctor):
    server = make()
    server.call("SET", "other", "1")
    monitor = server.monitor()
    doctor("--url", server.unix_url)
    server.call("ECHO", "over")
    until(lambda: any("over" in line for line in monitor.lines), 5, "the monitor has seen it")
    # MONITOR leaves out what administrators do: ACL DRYRUN and CONFIG GET.
    sent = {words[0].upper() for words in monitor.commands()} - {"ECHO"}
    most = {"TIME", "INFO", "ROLE", "SUBSCRIBE"}
    assert most <= sent <= most | {"SCRIPT", "CLIENT", "HELLO", "UNSUBSCRIBE"}
    assert server.info("rdb_changes_since_last_save") == "1"
    assert server.call("KEYS", "*") == [b"other"]
    assert "cmdstat_config|set" not in server.call("INFO", "commandstats").decode()


def test_replicas(make, doctor):
    master = make()
    replica = make({"replicaof": f"127.0.0.1 {master.port}"})
    until(lambda: master.info("connected_slaves") == "1" and
          replica.info("master_link_status") == "up", 30, "the replica follows")
    report = doctor("--url", replica.unix_url)
    assert ids(report) == ["replica"] and str(master.port) in detail(report, "replica")
    assert report["nodes"][0]["role"] == "replica" and "no lock can be" in report["promise"]
    report = doctor("--url", master.unix_url)
    assert ids(report) == ["replicas-unguarded"] and "without a limit" in report["promise"]
    report = doctor("--url", master.unix_url, "-o", "replica_acks=1")
    assert not ids(report) and "that is connected loses no lock" in report["promise"]
    master.set("min-replicas-to-write", "1")
    assert ids(doctor("--url", master.unix_url)) == ["replicas-lag"]
    third = make()
    report = doctor(*urls(master.unix_url, replica.unix_url, third.unix_url))
    assert {"replica", "quorum-replicas"} <= set(ids(report))
    assert report["promise"].startswith("none:")


def grant(server: Server, *changes: str) -> None:
    _, _, *rules = (ROOT / "docs" / "acl" / "locks.acl").read_text().split()
    server.call("ACL", "SETUSER", "limited", "reset", *rules, "+info", "+config|get", "+role",
                *changes)


def limited(server: Server, folder) -> dict:
    secret = folder / "secret"
    secret.write_text("change-me\n")
    return {"LOCKKEEPER_URL": f"unix://limited@{server.path}", "LOCKKEEPER_KEY_PREFIX": "app:",
            "LOCKKEEPER_PASSWORD_FILE": str(secret)}


@pytest.mark.parametrize("dryrun", [True, False])
@pytest.mark.parametrize("change, name, words", [
    ("-hset", "rights", "hset"),
    ("-publish", "messages-refused",
     "publish on the channel redisson_lock__channel:{app:lockkeeper-doctor}"),
    ("-subscribe", "messages-refused", "subscribe on the channel"),
    ("resetchannels", "messages-refused", "subscribe on the channel"),
    ("-zadd", "rights-partial", "refused: zadd"),
    ("-client|setname", "rights-partial", "client setname"),
    ("resetkeys ~webapp:*", "rights", "every command on the key app:lockkeeper-doctor"),
    ("resetkeys ~app:*", "rights-partial", "the key redisson_lock_queue:{app:lockkeeper-doctor}"),
    ("resetchannels &redisson_lock__channel:{app:*", "messages-refused", "channel redisson_sc:{"),
], ids=lambda value: re.sub(r"\W+", "-", value) if isinstance(value, str) else value)
def test_missing_rights(make, doctor, folder, dryrun, change, name, words):
    server = make()
    allowed = ["+acl|dryrun"] if dryrun else []
    grant(server, *allowed)
    environment = limited(server, folder)
    assert ids(doctor(**environment)) == [], "the documented list is enough"
    server.call("ACL", "LOG", "RESET")
    grant(server, *allowed, *change.split())
    report = doctor(**environment)
    assert name in ids(report) and words in detail(report, name)
    assert name == "rights" or (report["worst"], "none:" in report["promise"]) == ("warning", False)
    assert "change-me" not in json.dumps(report)
    log = [dict(zip(entry[::2], entry[1::2])) for entry in server.call("ACL", "LOG")]
    refused = {entry[b"object"] for entry in log}
    assert refused <= {b"acl|dryrun", b"client|setname"}, "asking about a right does not use it"


@pytest.mark.parametrize("change", ["-subscribe", "-publish", "-unsubscribe", "resetchannels"])
def test_without_messages_who_waits_gets_it(make, cli, folder, change):
    """What messages-refused says."""
    server = make()
    grant(server, change)
    environment = {**limited(server, folder), "LOCKKEEPER_LOOK_AGAIN_MS": "1000"}
    holder = cli.start("run", "job", "sleep", "0.5", **environment)
    until(lambda: server.call("EXISTS", "app:job"), 10, "it is held")
    waited = cli("run", "-w", "40", "job", "echo", "mine", **environment)
    assert (waited.returncode, waited.stdout, waited.stderr) == (0, "mine\n", "")
    assert holder.wait(10) == 0


@pytest.mark.parametrize("change, words", [("-evalsha", "evalsha"),
                                           ("-script|load", "script load")])
def test_rights_without_which_nobody_can_be_asked(make, doctor, folder, change, words):
    server = make()
    grant(server, change)
    report = doctor(**limited(server, folder))
    assert words in detail(report, "rights")
    assert "some rights" in detail(report, "not-looked-at")
    grant(server, change, "+acl|dryrun")
    report = doctor(**limited(server, folder))
    assert ids(report) == ["rights"] and words in detail(report, "rights")


@pytest.mark.parametrize("dryrun", [True, False])
def test_scripts_may_come_with_their_calls(make, doctor, folder, dryrun):
    """Who may not send them alone can use every lock with EVAL."""
    server = make()
    grant(server, "-script|load", "+eval", *(["+acl|dryrun"] if dryrun else []))
    report = doctor(**limited(server, folder))
    assert "rights" not in ids(report) and "script load" not in json.dumps(report), report


def test_a_user_of_some_names_names_one(make, doctor, folder):
    server = make()
    grant(server, "resetkeys", "~app:jobs*", "~{app:jobs*}:*", "~*:{app:jobs*}")
    environment = limited(server, folder)
    assert "rights" in ids(doctor(**environment))
    assert ids(doctor("jobs-1", **environment)) == []


def test_the_rights_are_those_of_the_documented_lists():
    rows = re.findall(r'^LK__RIGHT\(\w+, (\w+), \w+, "(\w+)"(?:, "(\w+)")?',
                      (ROOT / "src/api/doctor/rights.def").read_text(), re.MULTILINE)
    asked: dict[bool, set[str]] = {True: set(), False: set()}
    for when, verb, word in rows:
        one = f"{verb}|{word}" if verb in ("script", "client", "cluster", "pubsub") else verb
        asked[when in ("ALWAYS", "PLAIN", "TRACKED")].add(one)
    granted = set(re.findall(r"\+([\w|]+)", (ROOT / "docs/acl/locks.acl").read_text()))
    assert asked[True] - {"eval"} == granted - {"auth", "time"}  # which the handshake has used
    page = (ROOT / "docs/options.md").read_text()
    first, behind = (page.index(f"A user of the {whose} needs")
                     for whose in ("servers", "sentinels"))
    besides = page[first:behind]
    # What `notify` pushes to is another library's list, which the doctor does not know.
    assert asked[False] == set(re.findall(r"\+([\w|]+)", besides)) - {"lpush"}


def test_what_is_refused_is_not_guessed(make, doctor, folder):
    server = make()
    grant(server, "-info", "-config", "-role")
    report = doctor(**limited(server, folder))
    assert ids(report) == ["not-looked-at"] and report["worst"] == "warning"
    assert "INFO is refused" in detail(report, "not-looked-at")
    assert "CONFIG GET is refused" in detail(report, "not-looked-at")
    assert "could not be looked at" in report["promise"]
    grant(server, "-config")
    report = doctor(**limited(server, folder))
    assert "persistence" in detail(report, "not-looked-at")
    assert "INFO" not in detail(report, "not-looked-at")


def test_a_server_that_is_down(make, doctor):
    server = make()
    server.kill()
    report = doctor("--url", server.url)
    assert ids(report) == ["unreachable"] and "no lock can be taken" in report["promise"]
    assert report["nodes"][0]["server"] is report["nodes"][0]["round_trip_us"] is None


@pytest.fixture
def proxy(make, folder):
    made = Proxy(make().path, str(folder / "proxy.sock"))
    yield made
    made.stop()


def test_a_server_that_is_far_away(doctor, proxy):
    proxy.rule = lambda message: Park(0.06) if message.reply and message.what == "time" else None
    report = doctor("--url", proxy.unix_url, "-o", "watchdog_ms=500")
    assert ids(report) == ["lease-short"] and "500" in detail(report, "lease-short")
    assert report["nodes"][0]["round_trip_us"] >= 50_000
    assert ids(doctor("--url", proxy.unix_url)) == []


def test_a_server_that_is_lost_meanwhile(doctor, proxy):
    proxy.rule = lambda message: Cut() if message.reply and message.what == "info" else None
    report = doctor("--url", proxy.unix_url, "-o", "command_timeout_ms=300")
    assert ids(report) == ["unreachable"] and "no lock can be taken" in report["promise"]
    cut = []

    def once(message):
        if message.reply and message.what == "info" and not cut:
            cut.append(message)
            return Cut()
        return None

    proxy.rule = once
    assert ids(doctor("--url", proxy.unix_url)) == [] and cut


def test_where_no_message_can_be_heard(doctor, proxy):
    """A proxy that cuts who subscribes: a free lock is acquired, and no wait for one works."""
    def rule(message):
        return Cut() if not message.reply and message.what == "subscribe" else None

    proxy.rule = rule
    report = doctor("--url", proxy.unix_url, "-o", "command_timeout_ms=300")
    assert ids(report) == ["no-messages"] and report["worst"] == "error"


def test_subscriptions_are_tried_where_no_right_can_be_asked_about(folder, doctor):
    """Before 7.0 nobody says whether SUBSCRIBE is allowed. This one answers a question about rights
    with what is no answer, too."""
    class OldServer(OtherServer):
        denied_too = DENIED

        def do_acl(self, _client, verb, *_words):
            return [b"flags", [b"on", b"allkeys", b"allchannels", b"allcommands"]]

        def do_subscribe(self, _client, *_words):
            return self.denied_too

    other = OldServer(str(folder / "other.sock"), b"redis_version:6.2.14\r\n", {})
    try:
        report = doctor("--url", other.unix_url)
        assert detail(report, "messages-refused") == "refused: " \
            "subscribe on the channel redisson_lock__channel:{lockkeeper-doctor}"
        other.denied_too = resp.ErrorReply("ERR no room")
        report = doctor("--url", other.unix_url)
        assert "no room" in detail(report, "messages-refused")
        assert not {"rights", "no-messages"} & set(ids(report))
    finally:
        other.stop()


def test_a_server_that_answers_and_refuses(make, doctor):
    server = make(maxclients=1)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as only:
        only.connect(str(server.path))
        only.sendall(b"PING\r\n")
        assert only.recv(100)
        report = doctor("--url", server.unix_url)
        assert ids(report) == ["unusable"]
        assert "max number of clients" in detail(report, "unusable")


def test_a_server_that_hangs(make, doctor):
    server = make()
    server.pause()
    report = doctor("--url", server.unix_url, "-o", "connect_timeout_ms=300")
    assert ids(report) == ["unreachable"] and "300 ms" in detail(report, "unreachable")


def printed(doctor, *words: str, **environment: str) -> list[str]:
    return doctor.command("doctor", *words, **environment).stdout.splitlines()


def test_a_line_is_made_of_sentences(make, doctor):
    """One full stop behind what the server said, and the URL once."""
    server = make(requirepass="the right one")
    line = printed(doctor, "--url", server.unix_url)[0]
    assert line.startswith(f"error: login-refused: {server.unix_url}: ") and ".." not in line
    assert "NOAUTH" in line and line.count(server.unix_url) == 1
    assert "Give the name and the password" in line
    server.pause()
    line = printed(doctor, "--url", server.unix_url, "-o", "connect_timeout_ms=300")[0]
    assert line.startswith(f"error: unreachable: {server.unix_url}: ") and ".." not in line
    assert line.count(server.unix_url) == 1


def test_files_that_a_fix_names_are_installed(make, doctor):
    place = re.compile(r"docs/[\w/]+\.\w+")
    table = (ROOT / "src/api/doctor/findings.def").read_text()
    fixes = re.findall(r'^LK__FINDING\(.*, "([^"]*)"\)$', table, re.MULTILINE)
    named = [fix for fix in fixes if place.search(fix)]
    assert named and all("share/doc/lockkeeper" in fix for fix in named)
    assert all((ROOT / path).exists() for fix in named for path in place.findall(fix))


@pytest.mark.parametrize("requirepass", ["", "a word"])
def test_tls_to_a_port_without(make, doctor, requirepass):
    """Redis does not answer to what begins TLS. It answers, so it is reached."""
    server = make(requirepass=requirepass)
    url = server.url.replace("redis://", "rediss://")
    report = doctor("--url", url, "-o", "connect_timeout_ms=400")
    assert ids(report) == ["unusable"]
    assert re.search(r"TLS.*; without TLS it answers$", detail(report, "unusable"))
    server.pause()
    report = doctor("--url", url, "-o", "connect_timeout_ms=400")
    assert ids(report) == ["unreachable"]
    assert "does the port speak TLS?" in detail(report, "unreachable")


def test_no_password_goes_without_tls(doctor):
    """To a port that asks for one, and does not speak TLS."""
    heard = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            while more := self.request.recv(65536):
                heard.append(more)
                if not more.startswith(b"*"):
                    return
                self.request.sendall(b"-NOAUTH Authentication required.\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        report = doctor("--url", f"rediss://127.0.0.1:{listener.server_address[1]}",
                        LOCKKEEPER_PASSWORD="secret")
        listener.shutdown()
    assert "without TLS it answers" in detail(report, "unusable")
    assert b"*1\r\n$4\r\nPING\r\n" in heard and b"secret" not in b"".join(heard)


def test_a_wrong_password(make, doctor):
    server = make(requirepass="the right one")
    report = doctor(LOCKKEEPER_URL=server.unix_url, LOCKKEEPER_PASSWORD="a wrong one")
    assert ids(report) == ["login-refused"]
    assert "a wrong one" not in json.dumps(report)
    report = doctor(LOCKKEEPER_URL=f"unix://:the%20right%20one@{server.path}")
    assert ids(report) == [] and "right" not in json.dumps(report)


def test_a_sentinel(folder, doctor, make):
    port, master = free_port(), make()
    place = folder / "sentinel"
    place.mkdir()
    config = place / "sentinel.conf"
    path = place / "s.sock"
    config.write_text(f"port {port}\nunixsocket {path}\nlogfile {place}/log\ndir {place}\n"
                      f"sentinel monitor shop 127.0.0.1 {master.port} 1\n")
    sentinel = subprocess.Popen(["redis-server", str(config), "--sentinel"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(path.exists, 10, "the sentinel listens")
        other = doctor("--url", f"redis-sentinel://127.0.0.1:{master.port}/shop")
        assert ids(other) == ["unusable", "sentinels-few", "sentinel-unusable"]
        assert "it is no sentinel" in detail(other, "sentinel-unusable")
        report = doctor("--url", f"unix://{path}")
        assert ids(report) == ["sentinel"] and "no lock can be taken" in report["promise"]
        report = doctor("--url", f"redis-sentinel://127.0.0.1:{port}/shop")
        # A sentinel takes 30 s to miss a master, unless it is told otherwise.
        assert ids(report) == ["sentinels-few", "sentinel-slow"]
        assert [node["role"] for node in report["nodes"]] == ["master", "sentinel"]
    finally:
        sentinel.kill()
        sentinel.wait()


class OtherServer(FakeServer):
    """A server of another kind: what it tells of itself, and nothing of ACL or scripts."""

    def __init__(self, path: str, info: bytes, settings: dict[str, str]):
        self.info, self.settings = info, settings
        super().__init__(path)

    def do_info(self, _client, *_words):
        return self.info

    def do_role(self, _client):
        return DENIED

    def do_config(self, _client, _get, name):
        value = self.settings.get(name.decode(), self.settings.get("*"))
        return [] if value is None else [name, value.encode()]


class StandIn(OtherServer):
    """A proxy or a test server, by what it says of itself in HELLO."""

    def __init__(self, path: str, name: bytes):
        self.name = name
        super().__init__(path, b"redis_version:7.0.15\r\nredis_mode:cluster\r\n", {})

    def do_hello(self, _client, *_words):
        return [b"server", self.name, b"version", b"6.0.0", b"proto", 2, b"id", 0]


@pytest.mark.parametrize("name, found, said", [
    (b"envoy-redis-proxy", "proxy", "it is Envoy's redis_proxy: it has no SUBSCRIBE"),
    (b"fakeredis", "test-server", "it is fakeredis: up to version 2.40"),
    (b"miniredis", "test-server", "it is miniredis: times to live stand still"),
])
def test_a_proxy_and_test_servers_are_named(folder, doctor, name, found, said):
    other = StandIn(str(folder / "other.sock"), name)
    try:
        report = doctor("--url", other.unix_url)
        assert said in detail(report, found)
        if found == "test-server":  # what else seems wrong follows from it
            assert ids(report) == [found] and report["promise"].startswith("none:")
        else:  # what is behind it is judged as well
            assert len(ids(report)) > 1
    finally:
        other.stop()


def test_infinispan_is_an_error(folder, doctor):
    other = StandIn(str(folder / "other.sock"), b"infinispan")
    try:
        report = doctor("--url", other.unix_url)
        assert ids(report) == ["unusable"] and "no lock can be taken" in report["promise"]
        assert "it is Infinispan, whose scripts are not atomic" in detail(report, "unusable")
    finally:
        other.stop()


OTHERS = [
    (b"redis_version:6.3.4\r\nrole:active-replica\r\nconnected_slaves:1\r\n",
     {"active-replica": "yes", "multi-master": "no"}, "keydb",
     ["active-replication", "unknown-server"]),
    (b"redis_version:6.3.4\r\nrole:master\r\nconnected_slaves:0\r\n",
     {"active-replica": "no", "multi-master": "no"}, "keydb", ["unknown-server"]),
    (b"redis_version:7.4.0\r\ndragonfly_version:df-v1.27\r\n", {}, "dragonfly",
     ["unknown-server"]),
    (b"redis_version:7.0.15\r\n", {"*": ""}, "redis", []),  # to every question
    (b"redis_version:7.0.15\r\n", {"*": "no"}, "redis", []),
    (b"redis_version:6.0.16\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", {}, "redis",
     ["version-old"]),
    (b"redis_version:\x1b[2J\xff\r\n", {}, "redis", []),
    (b"", {}, None, ["unknown-server"]),
]


@pytest.mark.parametrize("info, settings, kind, found", OTHERS)
def test_other_servers(folder, doctor, info, settings, kind, found):
    other = OtherServer(str(folder / "other.sock"), info, settings)
    try:
        report = doctor("--url", other.unix_url)
        assert report["nodes"][0]["server"] == kind
        assert "hexists" in detail(report, "rights")  # which it does not know
        assert [name for name in ids(report) if not name.startswith(("rights", "not-"))] == found
        assert "could not be looked at" in detail(report, "not-looked-at")
        assert report["promise"].startswith("none:")
        printed = doctor.command("doctor", "--url", other.unix_url).stdout
        assert "\x1b" not in printed
        wrote = {words[0].upper() for words in other.seen} & {"SET", "DEL", "PEXPIRE", "PUBLISH"}
        assert not wrote
        if b":6." in info:  # such a server would send the script to its replicas
            assert ["SCRIPT", "LOAD"] not in [words[:2] for words in other.seen]
    finally:
        other.stop()


def test_a_cure_that_works(folder, doctor):
    """INFO names a cluster, and CLUSTER SLOTS says that there is none: redis-cluster:// would be
    refused."""
    class Emulated(OtherServer):
        slots: list | resp.ErrorReply = resp.ErrorReply(
            "ERR This instance has cluster support disabled")

        def do_cluster(self, _client, verb, *_words):
            return self.slots if verb == b"SLOTS" else DENIED

    other = Emulated(str(folder / "other.sock"), b"redis_version:7.0.15\r\ncluster_enabled:1\r\n",
                     {})
    try:
        assert "cluster-node" not in ids(doctor("--url", other.unix_url))
        other.slots = [[0, 16383, [b"127.0.0.1", 1, b"id"]]]
        report = doctor("--url", other.unix_url)
        assert detail(report, "cluster-node") == "cluster-enabled is yes"
        other.slots = DENIED
        assert "cluster-node" in ids(doctor("--url", other.unix_url)), "INFO is all there is"
    finally:
        other.stop()


@pytest.mark.parametrize("flags, all_known", [
    ([b"on", b"allkeys", b"allchannels", b"allcommands"], True),
    ([b"on", b"allkeys", b"allcommands"], False),
])
def test_who_may_do_everything_is_asked_nothing_more(folder, doctor, flags, all_known):
    class OldServer(OtherServer):
        def do_acl(self, _client, verb, *_words):
            if verb != b"GETUSER":
                return resp.ErrorReply("ERR Unknown subcommand or wrong number of arguments")
            return [b"flags", flags, b"passwords", []]

    other = OldServer(str(folder / "other.sock"), b"redis_version:6.2.14\r\n", {})
    try:
        report = doctor("--url", other.unix_url)
        assert ("rights" not in ids(report)) == all_known
        assert ("some rights" not in detail(report, "not-looked-at")) == all_known
    finally:
        other.stop()


def test_a_quorum(make, doctor):
    servers = [make() for _ in range(3)]
    report = doctor(*urls(*(server.unix_url for server in servers)))
    assert ids(report) == ["quorum-same-host"] * 2 and len(report["nodes"]) == 3
    assert "a quorum of 3 servers, of which 3 serve" in report["promise"]
    listed = ",".join(server.url for server in servers)
    assert doctor(LOCKKEEPER_URL=listed)["promise"] == report["promise"]
    servers[0].call("ACL", "SETUSER", "default", "-info")
    report = doctor(LOCKKEEPER_URL=listed)
    assert "quorum-no-identity" in ids(report) and "of which 2 serve" in report["promise"]
    servers[0].kill()
    report = doctor(LOCKKEEPER_URL=listed)
    assert ids(report) == ["unreachable"] + ["quorum-same-host"] * 2
    assert "0 more may fail" in report["promise"]
    servers[1].kill()
    assert "only 1 serve" in doctor(LOCKKEEPER_URL=listed)["promise"]


def test_two_addresses_of_one_server(make, doctor):
    servers = [make(), make()]
    report = doctor(*urls(servers[0].unix_url, servers[1].unix_url, servers[0].url))
    assert ids(report)[0] == "quorum-same-server" and report["promise"].startswith("none:")
    report = doctor(*urls(servers[0].unix_url, servers[0].url))
    assert ids(report) == ["quorum-same-server", "quorum-too-few"]
    report = doctor(*urls(servers[0].unix_url, servers[0].unix_url, servers[1].unix_url))
    assert ids(report)[0] == "quorum-same-server"


def test_an_even_number_and_nodes_that_forget(make, doctor):
    servers = [make(appendfsync="everysec") for _ in range(4)]
    report = doctor(*urls(*(server.unix_url for server in servers)))
    assert sorted(set(ids(report))) == ["quorum-even", "quorum-no-vote", "quorum-restart-wait",
                                        "quorum-same-host"]
    assert re.match(r"it started \d+ s ago, and appendonly is yes, appendfsync is everysec: "
                    r"no vote for (2\d|30) s more", detail(report, "quorum-no-vote"))
    assert re.match(r"a quorum of 4 servers: no lock can be taken for (2\d|30) s, because only 0 "
                    r"of them have a vote yet", report["promise"])
    together = [finding["node"] for finding in report["findings"] if finding["id"] == "quorum-even"]
    assert together == [None]


@pytest.mark.skipif(SANITIZED, reason="the server loads no library that is instrumented")
@pytest.mark.parametrize("ahead_ms", [5000, -5000])
def test_clocks_apart(make, doctor, folder, ahead_ms):
    place = folder / "skewed"
    place.mkdir()
    skewed = Server(place, SAFE)
    skewed.environment = {"LD_LIBRARY_PATH": str(SKEW.parent), "LD_PRELOAD": SKEW.name,
                          "LOCKKEEPER_TEST_CLOCK_MS": str(ahead_ms)}
    try:
        skewed.start()
        report = doctor("--url", skewed.unix_url)
        assert ids(report) == ["clock-apart"]
        assert ("ahead of" if ahead_ms > 0 else "behind") in detail(report, "clock-apart")
        assert abs(report["nodes"][0]["clock_ahead_us"] - ahead_ms * 1000) < 1_000_000
        report = doctor(*urls(skewed.unix_url, make().unix_url, make().unix_url))
        assert {"clock-apart", "quorum-clocks-apart"} <= set(ids(report))
    finally:
        skewed.stop()


def test_bad_input(doctor):
    command = doctor.command
    for words in (["a", "b"], [""], ["--url", ""], ["--url", "http://a"],
                  ["--url", "redis://:secret@a"], ["--nothing"]):
        done = command("doctor", *words)
        assert done.returncode == 125 and done.stdout == "", words
        assert len(done.stderr.splitlines()) == 1 and "secret" not in done.stderr
