"""What managed services and proxies do, and what the locks do there: docs/servers.md."""
from __future__ import annotations

import contextlib
import time

import pytest

import lua
import moving
from clusters import Cluster
from deployments import Replicas
from keeper import BUILD, DRIVER, EVENT_LOST, ROOT
from moving import EVERY_LOCK, Contest, Stress, acknowledged
from proxy import HELLO_OF_SEVERAL, Cut, Replace
from resp import ErrorReply
from servers import Server
from waiting import until

LEASE_MS = 2000
RENAMED = 'rename-command SCRIPT ""\nrename-command CLIENT ""\n'


@pytest.fixture(params=["renamed", "refused"])
def without_script(request, make_server, folder):
    """A server that has no SCRIPT and no CLIENT command, or does not let our user call them; and
    that user's URL."""
    if request.param == "renamed":
        (folder / "renamed.conf").write_text(RENAMED)
        server = make_server(include=folder / "renamed.conf")
        return server, server.url
    server = make_server()
    server.call("ACL", "SETUSER", "app", "on", ">pw", "+@all", "~*", "&*", "-script", "-client")
    return server, server.url.replace("://", "://app:pw@")


def test_every_kind_without_script_commands(without_script, make_keeper):
    """Calls, asynchronous calls, counters; renewed by the background, and waited for."""
    _, url = without_script
    moving.use_every_kind(make_keeper(url))
    contest = Contest(make_keeper, url, {kind: f"{kind}-long" for kind in EVERY_LOCK}, LEASE_MS)
    contest.is_kept()
    contest.hand_over()


def hands_over_a_quorum(keeper, other, kind: str) -> None:
    about = {"kind": kind, "nodes": "n0,n1,n2", "c": "n0"}
    keeper.call("acquire", kind, **about).ok()
    other.call("try", kind, **about).is_code("LK_EBUSY")
    waits = other.say("within", kind, wait=30_000, **about)
    keeper.call("release", kind, **about).ok()
    waits.result().ok()
    other.call("release", kind, **about).ok()


def test_quorums_without_script_commands(make_server, folder, make_keeper):
    (folder / "renamed.conf").write_text(RENAMED)
    keeper, other = make_keeper(), make_keeper()
    for number in range(3):
        server = make_server(include=folder / "renamed.conf")
        for each in (keeper, other):
            each.open(server.url, c=f"n{number}", watchdog_ms=LEASE_MS)
    for kind in ("red", "red-plain"):
        hands_over_a_quorum(keeper, other, kind)


def test_scripts_that_are_forgotten_without_script_commands(server, make_keeper, history,
                                                            background):
    """Under load, while connections break as well: nobody else gets in, and all go on."""
    server.call("ACL", "SETUSER", "app", "on", ">pw", "+@all", "~*", "&*", "-script", "-client")
    url = server.unix_url.replace("://", "://app:pw@")
    stress = Stress([make_keeper(url) for _ in range(2)], history, name="hot", kind="lock")
    with server.connect() as admin:
        def disturb():
            admin.call("SCRIPT", "FLUSH")
            with contextlib.suppress(ErrorReply):
                admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        stop = background(disturb, 0.2)
        stress.goes_on(200)
        stop.set()
    stress.goes_on(200)
    stress.end()


def evals(server) -> int:
    with contextlib.suppress(KeyError):
        return int(server.info("cmdstat_eval").split("calls=")[1].split(",")[0])
    return 0


def test_a_script_is_spelled_out_once(without_script, make_keeper):
    """EVAL leaves it in the server's cache, where EVALSHA finds it."""
    server, url = without_script
    keeper = make_keeper(url)
    for _ in range(10):
        keeper.call("acquire", "some").ok()
        keeper.call("release", "some").ok()
    assert evals(server) == 2
    keeper = make_keeper(url)
    for _ in range(10):
        keeper.call("acquire", "some").ok()
        keeper.call("release", "some").ok()
    assert evals(server) == 2, "the second client found them"


def test_neither_script_nor_eval(server, make_keeper):
    """The error names both rights; either one, once given, is enough without a new connection."""
    def grant(*rules):
        server.call("SCRIPT", "FLUSH")
        server.call("ACL", "SETUSER", "app", "on", ">pw", "+@all", "~*", "&*", *rules)

    grant("-script", "-eval")
    keeper = make_keeper(server.unix_url.replace("://", "://app:pw@"))
    for _ in range(2):
        seen = keeper.call("within", "some", wait=1000).is_code("LK_EDENIED")
        assert "eval" in seen.message and "SCRIPT LOAD" in seen.message, seen.message
        assert seen.took < 5 and server.call("EXISTS", "some") == 0
    for rules in (("+eval", "-script"), ("-eval", "+script"), ("+eval", "-script")):
        grant(*rules)
        until(lambda: keeper.call("try", "some")["code"] == "OK", 10, f"it works with {rules}")
        keeper.call("release", "some").ok()


IDLE_S = 0.5


@pytest.fixture(params=["end", "reset"])
def cuts_idle(request, proxy, background):
    """The proxy ends each connection that has been idle for so long, also subscriptions."""
    since: dict = {}
    proxy.rule = lambda message: since.__setitem__(message.connection, time.monotonic())

    async def cut():
        now = time.monotonic()
        for pipe in list(proxy.pipes):
            if now - since.setdefault(pipe, now) > IDLE_S:
                pipe.close(rst=request.param == "reset")

    background(lambda: proxy.on_loop(cut()), 0.05)
    return proxy


def test_idle_connections_are_cut(cuts_idle, make_keeper):
    """While every kind is held and waited for: nothing is lost, and each release is heard."""
    names = {kind: f"{kind}-idle" for kind in EVERY_LOCK}
    contest = Contest(make_keeper, cuts_idle.url, names, 6000)
    contest.is_kept()
    until(lambda: all(each.stats().disconnects > 5 for each in (contest.holder, contest.waiter)),
          20, "their connections are cut again and again")
    contest.hand_over()
    assert not contest.holder.events_of(EVENT_LOST)


def test_a_lock_is_kept_while_all_is_idle(cuts_idle, make_keeper):
    """Nothing is sent for longer than the service allows: neither renewals nor calls."""
    keeper = make_keeper(cuts_idle.url)
    keeper.listen()
    keeper.call("acquire", "quiet").ok()
    until(lambda: keeper.stats().disconnects >= 2, 10, "calls' and background's are cut")
    until(lambda: not cuts_idle.pipes or keeper.stats().connects > 2, 10, "and it is quiet")
    assert keeper.call("is_held", "quiet").result == 1
    keeper.call("release", "quiet").ok()
    assert not keeper.events_of(EVENT_LOST)


@pytest.fixture
def moves(make_server, folder):
    """Two servers of one port, the second one a replica; moves.test is the first one's name, until
    to_the_second() makes the other one the master and gives it the name."""
    class Moves:
        names = folder / "names"
        first = make_server()
        second = Server(folder / "second", {"bind": "127.0.0.2"})
        url = f"redis://moves.test:{first.port}"
        program = ("env", f"LD_PRELOAD={BUILD}/tests/system/libtest-names.so",
                   f"LK_TEST_NAMES={folder}/names", DRIVER)

        def to_the_second(self) -> None:
            acknowledged(self.first, 1)
            self.second.call("REPLICAOF", "NO", "ONE")
            self.names.write_text("127.0.0.2\n")

    moves = Moves()
    moves.names.write_text("127.0.0.1\n")
    (folder / "second").mkdir()
    moves.second.port = moves.second.config["port"] = moves.first.port
    moves.second.start()
    moves.second.call("REPLICAOF", "127.0.0.1", moves.first.port)
    until(lambda: moves.second.info("master_link_status") == "up", 20, "it follows")
    yield moves
    moves.second.kill()


@pytest.mark.parametrize("old", ["ends", "is demoted", "is cut off"])
def test_a_name_whose_address_changes(moves, make_keeper, old):
    """The service makes a replica the master, and gives it the name. The old master ends, or stays
    as a replica with all its connections, perhaps one that hears nothing of the new master. In each
    case every lock is kept, and changes hands."""
    names = {kind: f"{kind}-moves" for kind in EVERY_LOCK}
    contest = Contest(make_keeper, moves.url, names, 4000, program=moves.program)
    moves.to_the_second()
    if old == "ends":
        moves.first.kill()
    else:
        there = "127.0.0.2" if old == "is demoted" else "127.0.0.3"
        moves.first.call("REPLICAOF", there, moves.second.port)
    contest.is_kept()
    assert all(moves.second.call("EXISTS", name) for name in names.values())
    contest.hand_over()


FOLLOWS = ["+role", "+wait"]
IN_A_CLUSTER = [*FOLLOWS, "+cluster|myid", "+cluster|slots", "+asking"]
SHARDED = ["+spublish", "+ssubscribe", "+sunsubscribe", "+pubsub|shardnumsub"]
PLACES = {
    "single": (lambda make_server, deploy: [make_server()], "locks", [], {}),
    "replicas": (lambda make_server, deploy: deploy(Replicas), "locks", FOLLOWS, {}),
    "cluster": (lambda make_server, deploy: deploy(Cluster), "locks", IN_A_CLUSTER, {}),
    "cluster-both": (lambda make_server, deploy: deploy(Cluster), "locks",
                     IN_A_CLUSTER + SHARDED, {"messages": "both"}),
    "quorum": (lambda make_server, deploy: [make_server() for _ in range(3)], "quorum", [], {}),
}


@pytest.fixture(params=PLACES)
def limited(request, make_server, deploy):
    """A deployment whose user "lockkeeper" has the documented rights and no other: its URLs, the
    client's options; nothing was refused in the end."""
    make, acl, more, options = PLACES[request.param]
    page = (ROOT / "docs" / "options.md").read_text()
    assert all(f"`{right}`" in page for right in more)
    _, user, *rules = (ROOT / "docs" / "acl" / f"{acl}.acl").read_text().split()
    made = make(make_server, deploy)
    nodes = made if isinstance(made, list) else getattr(made, "nodes", None) or made.servers
    for node in nodes:
        node.call("ACL", "SETUSER", user, "reset", *rules, *more)
    urls = [each.url for each in (made if isinstance(made, list) else [made])]
    yield ([url.replace("://", f"://{user}:change-me@") for url in urls],
           {"key_prefix": "app:", **options})
    assert [entry for node in nodes for entry in node.call("ACL", "LOG")] == []


def test_the_documented_rights_are_enough(limited, make_keeper):
    """For every kind: called, queued, renewed, waited for; and for the counters."""
    urls, options = limited
    if len(urls) > 1:
        keeper, other = make_keeper(), make_keeper()
        for number, url in enumerate(urls):
            for each in (keeper, other):
                each.open(url, c=f"n{number}", watchdog_ms=LEASE_MS, **options)
        for kind in ("red", "red-plain"):
            hands_over_a_quorum(keeper, other, kind)
        return
    names = {kind: f"{kind}-1" for kind in EVERY_LOCK} | {"multi": "multi-1,multi-2"}
    contest = Contest(make_keeper, urls[0], names, LEASE_MS, **options)
    contest.is_kept()
    contest.hand_over()
    for kind in EVERY_LOCK:
        contest.holder.call("acquire", f"{kind}-2", kind=kind, queue=1).ok()
        contest.holder.call("release", f"{kind}-2", kind=kind, queue=1).ok()
    moving.use_counters(contest.holder, contest.waiter)


def test_names_with_a_hash_tag_need_patterns_of_their_own(server, make_keeper):
    """What belongs to app:{tag}job has no braces of ours around it: the lists do not cover that."""
    _, user, *rules = (ROOT / "docs" / "acl" / "locks.acl").read_text().split()
    server.call("ACL", "SETUSER", user, "reset", *rules)
    keeper = make_keeper(server.url.replace("://", f"://{user}:change-me@"), key_prefix="app:")
    keeper.call("acquire", "{tag}job", kind="fair").is_code("LK_EDENIED")
    more = [rule.replace("{app:", "app:") for rule in rules if rule[:1] in "~&"]
    server.call("ACL", "SETUSER", user, *more)
    server.call("ACL", "LOG", "RESET")
    for kind in EVERY_LOCK:
        keeper.call("acquire", f"{{tag}}{kind}", kind=kind).ok()
        keeper.call("release", f"{{tag}}{kind}", kind=kind).ok()
    assert server.call("ACL", "LOG") == []


@pytest.mark.parametrize("hello", [HELLO_OF_SEVERAL, HELLO_OF_SEVERAL.replace(b"$-1", b":0")],
                         ids=["no-id", "an-id-of-none"])
@pytest.mark.parametrize("queued", [0, 1])
def test_a_proxy_that_spreads_keys(server, proxy, make_keeper, queued, hello):
    """It would run a script about several locks at the server of the first: such a script is never
    sent. One lock is one server's."""
    renewed = []

    def rule(message):
        if not message.reply and message.what == "renew":
            renewed.append(int(message.argv[2]))
        if message.reply and message.what == "hello":
            return Replace(hello)

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url, watchdog_ms=LEASE_MS)
    said = keeper.call("try", "a,b", kind="multi", queue=queued).is_code("LK_EINVAL").message
    assert "spreads keys" in said and "redis-cluster://" in said, said
    keeper.call("within", "a,b", kind="multi", queue=queued, wait=20_000).is_code("LK_EINVAL")
    assert server.call("EXISTS", "a", "b") == 0
    for name in "abc":
        keeper.call("acquire", name, queue=queued).ok()
    until(lambda: keeper.stats().renewals >= 6, 20, "all are renewed twice")
    assert set(renewed) == {1}
    for name in "abc":
        keeper.call("release", name, queue=queued).ok()


def test_a_server_without_hello(proxy, make_keeper):
    """It is asked once a client: some close the connection over a command they do not know."""
    asked = []

    def rule(message):
        if message.what == "hello":
            asked.append(message)
            return Replace(b"-ERR unknown command 'HELLO'\r\n") if message.reply else None

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    keeper.call("ping").ok()
    keeper.call("try", "a,b", kind="multi").ok()
    until(lambda: len(asked) % 2 == 0, 10, "what was asked is answered")
    before = len(asked)
    proxy.cut_all()
    keeper.call("release", "a,b", kind="multi").ok()
    keeper.call("try", "a,b", kind="multi").ok()
    keeper.call("release", "a,b", kind="multi").ok()
    assert len(asked) == before


@pytest.mark.parametrize("hello, said", [
    (b"-NOPROTO sorry this protocol version is not supported\r\n", "it speaks RESP3 alone"),
    (b"*2\r\n$6\r\nserver\r\n$10\r\ninfinispan\r\n", "it is Infinispan")],
    ids=["RESP3 alone", "by its name"])
def test_infinispan(server, proxy, make_keeper, hello, said):
    """Other scripts run between the commands of one: two owners. It is refused at the greeting."""
    def rule(message):
        if message.reply and message.what == "hello":
            assert message.argv[1:] == [b"2"], message.argv
            return Replace(hello)

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    for queued in (0, 1):
        refused = keeper.call("within", "a", wait=60_000, queue=queued).is_code("LK_EREFUSED")
        assert said in refused.message, refused.message
        assert "scripts are not atomic: use Redis or Valkey" in refused.message, refused.message
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("verb, words, code, hint", [
    ("auth", "ERR wrong number of arguments for 'auth' command", "LK_EAUTH", "no users"),
    ("select", "ERR SELECT is not allowed in cluster mode", "LK_EINVAL", "redis-cluster://"),
    ("select", "ERR invalid database index.", "LK_EINVAL", ""),
], ids=["users", "databases", "another-text"])
def test_what_a_server_refuses_in_words_of_its_own(server, proxy, make_keeper, verb, words, code,
                                                   hint):
    """The code says that nothing but another URL can change it."""
    server.call("ACL", "SETUSER", "app", "on", ">pw", "+@all", "~*", "&*")
    said = b"-%s\r\n" % words.encode()
    proxy.rule = lambda m: Replace(said) if m.reply and m.what == verb else None
    keeper = make_keeper(proxy.unix_url.replace("://", "://app:pw@"), database=1)
    refused = keeper.call("try", "n").is_code(code)
    assert words in refused.message and hint in refused.message


def bulk(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                              for word in words)


@pytest.fixture(params=["unknown", "in other words"])
def without_subscribe(request, make_server, folder, proxy):
    """The URL of a server that has no SUBSCRIBE, as Envoy's redis_proxy and twemproxy say it, or
    refuses it in words that no Redis has."""
    if request.param == "unknown":
        (folder / "renamed.conf").write_text('rename-command SUBSCRIBE ""\n')
        return make_server(include=folder / "renamed.conf").url
    def rule(message):
        if message.what == "subscribe" and not message.reply:
            return Replace(bulk(b"SUBSCRIBE"))
        if message.reply and message.data.startswith(b"-ERR wrong number of arguments for 'subs"):
            return Replace(b"-invalid request\r\n")
    proxy.rule = rule
    return proxy.url


@pytest.mark.parametrize("queued", [0, 1])
def test_every_kind_without_subscribe(without_subscribe, make_keeper, queued):
    """Who waits asks from time to time."""
    holder = make_keeper(without_subscribe, watchdog_ms=1500)
    waiter = make_keeper(without_subscribe)
    holder.listen()
    moving.hand_over_all(holder, waiter, EVERY_LOCK, queued)
    moving.use_counters(holder, waiter)
    assert not holder.events_of(EVENT_LOST)


def test_the_fair_order_without_subscribe(make_server, folder, make_keeper):
    """Nobody can be told that it has the lock: each is served when it asks, in its turn."""
    (folder / "renamed.conf").write_text('rename-command SUBSCRIBE ""\n')
    url = make_server(include=folder / "renamed.conf").url
    holder, keepers = make_keeper(url), [make_keeper(url) for _ in range(3)]
    holder.call("acquire", "n", kind="fair").ok()
    waits = []
    for keeper in keepers:
        waits.append(keeper.say("within", "n", kind="fair", wait=60_000))
        until(lambda keeper=keeper: keeper.stats().busy >= 2, 10, "it stands in the queue")
    holder.call("release", "n", kind="fair").ok()
    for at, keeper in enumerate(keepers):
        waits[at].result(20).ok()
        assert not any(wait.done for wait in waits[at + 1:])
        keeper.call("release", "n", kind="fair").ok()


def test_scripts_are_missing_in_other_words(server, proxy, make_keeper):
    """As servers for tests say it. Each call goes out again, with its script."""
    refused = []

    def rule(message):
        if message.reply and message.data.startswith(b"-NOSCRIPT"):
            refused.append(message)
            return Replace(b"-ERR NOSCRIPT No matching script. Please use EVAL.\r\n")

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    for kind in moving.LOCKS:
        keeper.call("acquire", f"{{k}}{kind}", kind=kind).ok()
        server.call("SCRIPT", "FLUSH")
        keeper.call("release", f"{{k}}{kind}", kind=kind).ok()
    assert refused
    assert server.call("DBSIZE") <= 1, "nothing but the last fence token"


def test_a_proxy_that_needs_a_key(server, proxy, make_keeper):
    """Envoy sends a script to the server of its first key: one without is refused."""
    def rule(message):
        if not message.reply and message.argv[0].upper() in (b"EVALSHA", b"EVAL") and \
                message.argv[2] == b"0":
            return Replace(bulk(b"EVALSHA"))

    proxy.rule = rule
    moving.use_every_kind(make_keeper(proxy.unix_url))


@pytest.mark.parametrize("queued", [0, 1])
def test_a_server_that_ends_the_connection_over_an_error(server, proxy, make_keeper, queued):
    """As fakeredis does. What it can do is asked twice, and then done by scripts."""
    def rule(message):
        if message.reply and message.data.startswith(b"-"):
            return Cut(len(message.data))

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    for kind in moving.LOCKS:
        keeper.call("within", f"{{k}}{kind}", kind=kind, wait=20_000, queue=queued).ok()
        keeper.call("release", f"{{k}}{kind}", kind=kind, queue=queued).ok()
    server.call("SET", "string", "x")
    keeper.call("try", "string", kind="lock").is_code("LK_EWRONGTYPE")
    before = proxy.accepted
    for _ in range(5):
        keeper.call("within", "plain", kind="plain", wait=20_000, queue=queued).ok()
        keeper.call("release", "plain", kind="plain", queue=queued).ok()
    assert proxy.accepted - before < 5, "it is not asked again"


@pytest.mark.parametrize("ahead_s", [-86400, 0, 86400])
@pytest.mark.parametrize("kind", ["lock", "plain"])
def test_a_proxy_that_answers_time_itself(server, proxy, make_keeper, kind, ahead_s):
    """Envoy tells its own clock, and the whole time as the second number. Deadlines are told in the
    server's time, which a script asks for: from the first request on, and while it is connected."""
    deadlines, asked = [], []

    def rule(message):
        if message.reply and message.what == "time":
            us = int((time.time() + ahead_s) * 1e6)
            return Replace(bulk(b"%d" % (us // 10**6), b"%d" % us))
        if not message.reply and message.what == "acquire":
            deadlines.append(int(message.argv[6]) / 1e6 - time.time())
        if not message.reply and message.argv[0].upper() == b"EVAL":
            asked.append(message.argv)

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url, key_prefix="app:", watchdog_ms=LEASE_MS)
    keeper.call("acquire", "n", kind=kind).ok()
    first = len(asked)
    until(lambda: keeper.stats().renewals >= 3 and len(asked) > first, 20, "it asks again")
    keeper.call("release", "n", kind=kind).ok()
    assert deadlines and all(0 < deadline < 60 for deadline in deadlines), deadlines
    assert all(words[3].startswith(b"app:") for words in asked), asked


def test_a_proxy_that_loads_scripts_at_one_server(server, proxy, make_keeper):
    """Envoy does, whatever server has the key. There the script is spelled out."""
    def rule(message):
        if not message.reply and message.argv[0].upper() == b"SCRIPT" and \
                message.argv[1].upper() == b"LOAD":
            return Replace(bulk(b"SCRIPT", b"LOAD", b"return 1"))
        if message.reply and message.argv[:1] == [b"EVALSHA"]:
            server.call("SCRIPT", "FLUSH")

    proxy.rule = rule
    keeper = make_keeper(proxy.unix_url)
    moving.use_every_kind(keeper)
    assert evals(server) > len(moving.LOCKS)


# What LuaJ makes of '%.0f'.
OF_LUAJ = ("local _VERSION, plain = 'Luaj 3.0', string "
           "local string = setmetatable({format = function(how, number) "
           "return how == '%.0f' and number .. '.0' or plain.format(how, number) end}, "
           "{__index = plain}) ")


@pytest.mark.parametrize("script, words", [
    ("lock/acquire", "me:1 30000 soon"), ("lock/exchange", "me:1 30000 soon me:2 channel"),
    ("fair/queue", "acquire me:1 channel 30000 30000 soon abc"),
    ("fenced/acquire", "me:1 30000 soon 1 1 1"), ("multi/acquire", "me:1 30000 soon"),
    ("plain/acquire", "me:1 30000 soon"), ("plain/exchange", "me:1 30000 soon me:2 channel"),
    ("rw/read_acquire", "me:1 30000 soon 0 0 0"), ("rw/write_acquire", "me:1 30000 soon 0 0 0"),
    ("permits/acquire", "1 30000 soon 12345678901234 channel 1"),
    ("permits/set", "soon channel 1 all"), ("semaphore/acquire", "1 soon 1"),
    ("semaphore/set", "soon channel 1 0"), ("semaphore/add", "soon channel 1 0 0"),
    ("latch/set", "soon channel 1"), ("latch/count_down", "soon channel 1"),
    ("latch/await", "")])
def test_a_server_whose_lua_writes_numbers_in_another_way(server, script, words):
    """It is told by the first call, and nothing is written."""
    soon = str(int((time.time() + 10) * 1e6))
    text = OF_LUAJ + lua.text_of(*script.split("/"))
    with pytest.raises(ErrorReply, match="LOCKKEEPER unfit: its Lua writes 1 as 1.0"):
        server.call("EVAL", text, 4, *"abcd", *words.replace("soon", soon).split())
    assert server.call("DBSIZE") == 0
