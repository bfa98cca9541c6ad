"""What managed services and proxies do, and what the locks do there: docs/servers.md."""
from __future__ import annotations

import contextlib
import time

import pytest

import moving
from keeper import BUILD, DRIVER, EVENT_LOST
from moving import EVERY_LOCK, Contest, Stress, acknowledged
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


def test_quorums_without_script_commands(make_server, folder, make_keeper):
    (folder / "renamed.conf").write_text(RENAMED)
    keeper, other = make_keeper(), make_keeper()
    for number in range(3):
        server = make_server(include=folder / "renamed.conf")
        for each in (keeper, other):
            each.open(server.url, c=f"n{number}", watchdog_ms=LEASE_MS)
    for kind in ("red", "red-plain"):
        about = {"kind": kind, "nodes": "n0,n1,n2", "c": "n0"}
        keeper.call("acquire", kind, **about).ok()
        other.call("try", kind, **about).is_code("LK_EBUSY")
        waits = other.say("within", kind, wait=30_000, **about)
        keeper.call("release", kind, **about).ok()
        waits.result().ok()
        other.call("release", kind, **about).ok()


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
