"""What servers say and do when they are not well (reliability: error replies, server states)."""
from __future__ import annotations

import re
import threading
import time

import pytest

import checker
import moving
import resp
from keeper import EVENT_AT_RISK, EVENT_LOST
from redisson import ask_raw
from servers import channel_of
from waiting import never, until

MS = 1_000_000


@pytest.fixture
def stress(history):
    """stress(keeper): threads on a few names while a fault goes on; every call must succeed."""
    def run(keeper, threads=8, pairs=150, **options):
        path = history()
        answer = keeper.call("stress", thread="s", name="s", names=3, threads=threads,
                             pairs=pairs, history=path, limit=120, **options)
        total = threads * pairs
        assert (answer.get("acquire_OK"), answer.get("release_OK")) == (total, total), dict(answer)
        checker.check(checker.read(path))
        return answer
    return run


def scripts_asked(server) -> tuple[int, int]:
    """How many SCRIPT LOAD and SCRIPT EXISTS the server has seen."""
    stats = server.call("INFO", "commandstats").decode()
    calls = re.findall(r"cmdstat_script\|(load|exists):calls=(\d+)", stats)
    return tuple(int(dict(calls).get(what, 0)) for what in ("load", "exists"))


def test_scripts_travel_when_they_are_used(server, make_keeper):
    """A call that the server has not seen brings its script; what is there is not sent again."""
    first = make_keeper(server.unix_url)
    first.call("ping").ok()
    assert scripts_asked(server) == (0, 1)
    first.call("acquire", "used").ok()
    assert scripts_asked(server)[0] == 1
    first.call("release", "used").ok()
    assert scripts_asked(server)[0] == 2
    second = make_keeper(server.unix_url)
    second.call("acquire", "used").ok()
    second.call("release", "used").ok()
    assert scripts_asked(server)[0] == 2


def test_script_flush(server, keeper, stress, background):
    background(lambda: server.call("SCRIPT", "FLUSH"), 0.01)
    stress(keeper, pairs=500)
    assert server.call("DBSIZE") == 0


def test_restart_without_data_is_reported_at_once(server, make_keeper):
    """A lost connection puts its grants in doubt: they are verified, long before the lease."""
    keeper = make_keeper(server.unix_url)
    keeper.listen()
    keeper.call("acquire", "gone", tag=7).ok()
    server.restart()
    event = until(lambda: keeper.events_of(EVENT_LOST, "gone"), 8, "the holder learns of it")[0]
    assert event.tag == 7
    assert keeper.call("is_held", "gone").result == 0
    keeper.call("acquire", "gone").is_code("LK_ELOST")
    keeper.call("release", "gone").is_code("LK_ELOST")
    keeper.call("acquire", "gone").ok()
    assert server.call("HLEN", "gone") == 1


def test_server_stays_away(server, make_keeper):
    """Waits end at their limit, with the reason; not *timed out*: nobody said busy."""
    keeper = make_keeper(server.unix_url)
    keeper.call("ping").ok()
    server.kill()
    answer = keeper.call("within", "away", wait=700)
    answer.is_code("LK_EUNREACHABLE", "LK_EMAYBEHELD")  # it may have been sent before the loss
    assert 0.6 < answer.took < 4
    until(lambda: keeper.call("within", "away", wait=100).code == "LK_EUNREACHABLE", 6)
    assert keeper.call("try", "away").is_code("LK_EUNREACHABLE").took < 4


def test_wait_without_limit_gives_up_after_retry_ms(server, make_keeper):
    keeper = make_keeper(server.unix_url, retry_ms=800)
    keeper.call("ping").ok()
    server.kill()
    answer = keeper.call("acquire", "away")
    answer.is_code("LK_EUNREACHABLE")
    assert 0.6 < answer.took < 5


@pytest.mark.parametrize("command", [("FLUSHALL",), ("DEL", "erased")])
def test_erased_under_its_holder(server, make_keeper, command):
    keeper, other = make_keeper(server.unix_url, watchdog_ms=1500), make_keeper(server.unix_url)
    keeper.listen()
    keeper.call("acquire", "erased").ok()
    server.call(*command)
    other.call("acquire", "erased").ok()
    until(lambda: keeper.events_of(EVENT_LOST, "erased"), 5, "the next renewal tells")
    assert keeper.call("is_held", "erased").result == 0
    keeper.call("remaining", "erased").is_code("LK_ELOST")
    keeper.call("release", "erased").is_code("LK_ELOST")
    assert other.call("is_held", "erased").result == 1
    assert server.call("HLEN", "erased") == 1
    other.call("release", "erased").ok()


def test_persisted_key_gets_its_lease_back(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=1200)
    keeper.call("acquire", "persisted").ok()
    server.call("PERSIST", "persisted")
    until(lambda: server.call("PTTL", "persisted") > 0, 5)


def test_out_of_memory(server, make_keeper):
    holder, other = make_keeper(server.unix_url, watchdog_ms=1500), make_keeper(server.unix_url)
    holder.listen()
    holder.call("acquire", "held").ok()
    other.call("ping").ok()
    server.set("maxmemory", 1)
    answer = other.call("try", "more").is_code("LK_EUNAVAILABLE", "LK_EREFUSED")
    assert "OOM" in answer.message
    other.call("within", "more", wait=500).is_code("LK_EUNAVAILABLE", "LK_EREFUSED")
    never(lambda: holder.events_of(EVENT_LOST), 3, "not renewed")
    assert server.call("EXISTS", "held") == 1
    holder.call("release", "held").ok()
    assert server.call("DBSIZE") == 0
    server.set("maxmemory", 0)
    other.call("try", "more").ok()


def test_read_only(server, make_server, make_keeper):
    replica = make_server(replicaof=f"127.0.0.1 {server.port}")
    until(lambda: replica.info("master_link_status") == "up", 15)
    keeper = make_keeper(replica.unix_url)
    answer = keeper.call("try", "ro").is_code("LK_EUNAVAILABLE")
    assert "READONLY" in answer.message
    answer = keeper.call("within", "ro", wait=400).is_code("LK_EUNAVAILABLE")
    assert answer.took < 3
    for _ in range(20):
        keeper.call("try", "ro").is_code("LK_EUNAVAILABLE")
    assert keeper.stats().connects < 60, "each call connects anew twice at most"
    replica.call("REPLICAOF", "NO", "ONE")
    keeper.call("acquire", "ro").ok()
    keeper.call("release", "ro").ok()


def test_loading(make_server, make_keeper):
    server = make_server()
    keeper = make_keeper(server.unix_url)
    keeper.call("ping").ok()
    server.call("DEBUG", "POPULATE", 20000)
    server.set("loading-process-events-interval-bytes", 1024)
    server.set("key-load-delay", 20)
    reload = threading.Thread(target=lambda: server.call("DEBUG", "RELOAD"))
    reload.start()

    def says_loading():
        with server.connect() as connection:
            connection.send("GET", "x")
            return str(connection.read()).startswith("LOADING")
    until(says_loading, 10)
    answer = keeper.call("try", "load")
    if answer.code != "OK":
        answer.is_code("LK_EUNAVAILABLE")
        assert "LOADING" in answer.message
    keeper.call("within", "load", wait=20000, limit=30).ok()
    keeper.call("release", "load").ok()
    if answer.code == "OK":
        keeper.call("release", "load").ok()
    reload.join(30)


def test_busy_script(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.listen()
    granted = keeper.call("acquire", "held").ok()
    server.set("busy-reply-threshold", 20)
    with server.connect() as connection:
        connection.send("EVAL", "while true do end", 0)

        def busy():
            with server.connect() as other:
                other.send("GET", "x")
                return str(other.read()).startswith("BUSY")
        until(busy, 5)
        answer = keeper.call("try", "more", thread="t").is_code("LK_EUNAVAILABLE")
        assert "BUSY" in answer.message
        event = until(lambda: keeper.events_of(EVENT_LOST, "held"), 5, "lost by the local clock")[0]
        assert event.at_ns - granted.end_ns < 3000 * MS
        server.call("SCRIPT", "KILL")
        assert isinstance(connection.read(), resp.ErrorReply)
    keeper.call("release", "held").is_code("LK_ELOST")
    keeper.call("within", "more", wait=5000).ok()


def test_max_clients(make_server, make_keeper):
    server = make_server(maxclients=12)
    keeper = make_keeper(server.unix_url, connect_timeout_ms=1000)
    others = []
    with server.connect() as control:
        for _ in range(40):
            connection = resp.Connection(server.path)
            others.append(connection)
            try:
                connection.call("PING")
            except (OSError, resp.Closed, resp.ErrorReply):
                break  # full
        answer = keeper.call("try", "full").is_code("LK_EUNAVAILABLE", "LK_EUNREACHABLE")
        assert "max number of clients" in answer.message, answer.message
        before = int(server_info(control, "total_connections_received"))
        keeper.call("within", "full", wait=500)
        made = int(server_info(control, "total_connections_received")) - before
        assert made < 40, "connects in a storm"
    for connection in others:
        connection.close()
    until(lambda: keeper.call("within", "full", wait=2000).code == "OK", 10)


def server_info(connection, name: str) -> str:
    text = connection.call("INFO", "stats").decode()
    return next(line.split(":")[1] for line in text.splitlines() if line.startswith(name))


SECRET = "S3cr3tMARKER"


@pytest.mark.parametrize("options, code, says", [
    ({}, "LK_EAUTH", "NOAUTH"),
    ({"password": SECRET + "x"}, "LK_EAUTH", "WRONGPASS"),
    ({"username": "nobody", "password": SECRET}, "LK_EAUTH", "WRONGPASS"),
])
def test_authentication_refused(make_server, make_keeper, options, code, says):
    server = make_server(requirepass="correct")
    keeper = make_keeper(server.unix_url, log_level=4, **options)
    for verb in ("ping", "try", "within"):
        answer = keeper.call(verb, "auth", wait=1500).is_code(code)
        assert answer.took < 2 and says in answer.message
        assert SECRET not in answer.message
    assert int(server.info("total_connections_received")) < 20, "a storm"
    assert not [line for line in keeper.logs if SECRET in line]


@pytest.mark.parametrize("how", ["url", "option", "file", "user"])
def test_authentication(make_server, make_keeper, folder, how):
    server = make_server(requirepass=SECRET)
    server.call("ACL", "SETUSER", "app", "on", ">" + SECRET, "~*", "&*", "+@all")
    (folder / "password").write_text(SECRET + "\n")
    options = {"url": {}, "option": {"password": SECRET},
               "file": {"password_file": folder / "password"},
               "user": {"username": "app", "password": SECRET}}[how]
    url = f"redis://:{SECRET}@127.0.0.1:{server.port}" if how == "url" else server.unix_url
    keeper = make_keeper(log_level=4)
    answer = keeper.open(url, log_level=4, **options)
    assert SECRET not in answer.node
    keeper.call("acquire", "in").ok()
    keeper.call("release", "in").ok()
    assert not [line for line in keeper.logs if SECRET in line]


def test_password_changed_under_a_client(make_server, make_keeper):
    server = make_server(requirepass="one")
    keeper = make_keeper(server.unix_url, password="one", watchdog_ms=1500)
    keeper.listen()
    keeper.call("acquire", "held").ok()
    server.config["requirepass"] = "two"
    with resp.Connection(server.path) as control:
        control.call("AUTH", "one")
        control.call("CONFIG", "SET", "requirepass", "two")
        before = int(server_info(control, "total_connections_received"))
        control.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        keeper.call("within", "more", thread="t", wait=1500).is_code("LK_EAUTH")
        until(lambda: keeper.events_of(EVENT_LOST, "held"), 5)
        made = int(server_info(control, "total_connections_received")) - before
    assert made < 20, "authentication is retried in a storm"


RIGHTS = "+evalsha +eval +script|load +ping +select +client|setname +time +hello " \
         "+hset +hdel +hexists +exists +pttl +pexpire +publish +subscribe +unsubscribe +hlen +del"


def restrict(server, *rules) -> None:
    server.call("ACL", "SETUSER", "app", "reset", "on", ">app", "~*", "&*", "-@all",
                *RIGHTS.split(), *rules)


def test_least_rights(server, make_keeper):
    """The rights that the manual lists are enough."""
    restrict(server)
    keeper = make_keeper(server.unix_url, username="app", password="app", watchdog_ms=900)
    keeper.call("acquire", "least").ok()
    waits = keeper.say("acquire", "least", thread="w")
    never(lambda: server.call("EXISTS", "least") != 1, 1.5, "not renewed")
    keeper.call("release", "least").ok()
    waits.result(5).ok()
    keeper.call("release", "least", thread="w").ok()


@pytest.mark.parametrize("right", ["evalsha", "hset", "pexpire", "exists", "time"])
def test_right_missing_for_acquire(server, make_keeper, right):
    """Refused, and nothing stays behind: above all no key without a time to live."""
    restrict(server, "-" + right)
    keeper = make_keeper(server.unix_url, username="app", password="app")
    answer = keeper.call("within", "refused", wait=1000).is_code("LK_EDENIED")
    assert answer.took < 2
    assert server.call("EXISTS", "refused") == 0


def test_right_missing_for_scripts(server, make_keeper):
    """Who may send one in no way is told that, at once; who finds them there needs no right."""
    restrict(server, "-script|load", "-eval")
    keeper = make_keeper(server.unix_url, username="app", password="app")
    answer = keeper.call("acquire", "refused").is_code("LK_EDENIED")
    assert answer.took < 2 and "SCRIPT LOAD" in answer.message
    other = make_keeper(server.unix_url)
    other.call("acquire", "warm").ok()
    other.call("release", "warm").ok()
    keeper.call("acquire", "refused").ok()
    keeper.call("release", "refused").ok()
    server.call("SCRIPT", "FLUSH")
    keeper.call("try", "refused").is_code("LK_EDENIED")
    server.call("ACL", "SETUSER", "app", "+script|load")
    server.call("SCRIPT", "FLUSH")
    keeper.call("acquire", "refused").ok()
    keeper.call("release", "refused").ok()


def test_right_missing_for_the_key(server, make_keeper):
    restrict(server, "resetkeys", "~allowed:*")
    keeper = make_keeper(server.unix_url, username="app", password="app")
    keeper.call("try", "refused").is_code("LK_EDENIED")
    keeper.call("try", "allowed:x").ok()


@pytest.mark.parametrize("right", ["-subscribe", "resetchannels"])
def test_right_missing_for_waiting(server, make_keeper, right):
    """Without subscriptions a wait either says so, or goes by the holder's time to live."""
    restrict(server, right)
    keeper = make_keeper(server.unix_url, username="app", password="app")
    with server.connect() as connection:
        assert ask_raw(connection, "deaf", "java:1", 1000) is None
    answer = keeper.call("within", "deaf", wait=5000).is_code("OK", "LK_EDENIED")
    assert answer.took < 5


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("right", ["-subscribe", "resetchannels"])
def test_right_is_lost_while_waiting(server, make_keeper, right, queue):
    """The waiter looks again from time to time, not all the time; and listens when it may again."""
    restrict(server)
    keeper = make_keeper(server.unix_url, username="app", password="app")
    with server.connect() as connection:
        assert ask_raw(connection, "deaf", "java:1", 60_000) is None
    wait = keeper.say("within", "deaf", wait=60_000, queue=queue)
    until(server.channels, 5, "it listens")
    restrict(server, right)
    before = moving.scripts_run(server)
    server.call("CLIENT", "KILL", "TYPE", "pubsub")
    end = time.monotonic() + 1.5
    until(lambda: time.monotonic() > end, 5)
    assert moving.scripts_run(server) - before < 25 and not wait.done
    restrict(server)
    until(server.channels, 10, "it listens again")
    server.call("DEL", "deaf")
    server.call("PUBLISH", channel_of("deaf"), "0")
    assert wait.result(20).ok().took < 20


def test_right_missing_for_release(server, make_keeper):
    restrict(server)
    keeper = make_keeper(server.unix_url, username="app", password="app", watchdog_ms=1000)
    keeper.call("acquire", "stuck").ok()
    server.call("ACL", "SETUSER", "app", "-hdel")
    keeper.call("release", "stuck").is_code("LK_EMAYBEHELD")
    until(lambda: server.call("EXISTS", "stuck") == 0, 4, "it ends with its lease")


@pytest.mark.parametrize("key", [("SET", "wrong", "x"), ("LPUSH", "wrong", "x"),
                                 ("SADD", "wrong", "x")])
def test_wrong_type(server, keeper, key):
    server.call(*key)
    before = server.call("DUMP", "wrong")
    keeper.call("try", "wrong").is_code("LK_EWRONGTYPE")
    assert keeper.call("within", "wrong", wait=2000).is_code("LK_EWRONGTYPE").took < 1.5
    keeper.call("force", "wrong").is_code("LK_EWRONGTYPE")
    assert server.call("DUMP", "wrong") == before


def test_becomes_wrong_type_under_a_holder(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=900)
    keeper.listen()
    keeper.call("acquire", "turned").ok()
    keeper.call("acquire", "fine", thread="f").ok()
    server.call("SET", "turned", "x")
    until(lambda: keeper.events_of(EVENT_LOST, "turned"), 5)
    keeper.call("release", "turned").is_code("LK_ELOST", "LK_EWRONGTYPE")
    assert server.call("GET", "turned") == b"x"
    never(lambda: keeper.call("is_held", "fine", thread="f").result != 1, 1,
          "one wrong key in a batch stops the renewal of others")


def test_lock_without_a_time_to_live(server, keeper):
    """A ttl of -1 still polls: the holder may be gone without a message."""
    server.call("HSET", "forever", "someone:1", 1)
    waits = keeper.say("within", "forever", wait=6000)
    until(lambda: server.channels(), 5)
    server.call("DEL", "forever")
    assert waits.result(8).ok().took < 5


def test_events_come_in_time_when_the_server_hangs(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=2000)
    keeper.listen()
    keeper.call("acquire", "hung", margin=500, tag=3).ok()
    until(lambda: server.call("PTTL", "hung") > 1500, 5)
    server.pause()
    risk = until(lambda: keeper.events_of(EVENT_AT_RISK, "hung"), 6)[0]
    lost = until(lambda: keeper.events_of(EVENT_LOST, "hung"), 6)[0]
    assert risk.at_ns < lost.deadline_ns
    assert abs(risk.at_ns - (lost.deadline_ns - 500 * MS)) < 450 * MS
    assert -50 * MS < lost.at_ns - lost.deadline_ns < 1000 * MS
    assert risk.tag == lost.tag == 3
    server.resume()
    keeper.call("release", "hung").is_code("LK_ELOST")
    until(lambda: server.call("EXISTS", "hung") == 0, 5)


def test_longest_hold(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    keeper.listen()
    granted = keeper.call("acquire", "long", max_hold=1500).ok()
    never(lambda: server.call("EXISTS", "long") != 1, 1.2, "not kept")
    lost = until(lambda: keeper.events_of(EVENT_LOST, "long"), 5)[0]
    assert 1400 * MS < lost.at_ns - granted.end_ns < 4000 * MS
    until(lambda: server.call("EXISTS", "long") == 0, 2)
