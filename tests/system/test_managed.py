"""What managed services and proxies do, and what the locks do there: docs/servers.md."""
from __future__ import annotations

import contextlib

import pytest

import moving
from moving import EVERY_LOCK, Contest, Stress
from resp import ErrorReply
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
