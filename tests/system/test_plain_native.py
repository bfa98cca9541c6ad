"""The plain lock where scripts are refused, or the server has commands that make them needless.

On a small server of the tests' own, and on each real one that LOCKKEEPER_SERVERS names
(programs, divided by ":") if it has the commands.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time

import pytest

import checker
import resp
from fake_server import FakeServer
from keeper import CLOSE_RELEASE, EVENT_LOST
from proxy import Replace
from servers import Server
from waiting import until

KIND = {"kind": "plain"}
FAKES = {"delex": ("DELEX", "IFEQ"), "delifeq": ("DELIFEQ", "IFEQ"), "set": ("IFEQ",)}
PROGRAMS = [name for name in os.environ.get("LOCKKEEPER_SERVERS", "").split(":") if name]
NATIVE = ("DELEX", "DELIFEQ")


class RealServer(Server):
    """A real server of another version, used by somebody who may run no scripts."""

    def __init__(self, program: str, folder, scripts: bool):
        super().__init__(folder, {})
        self.program, self.scripts = program, scripts

    def start(self) -> RealServer:
        super().start()
        self.call("ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all",
                  "+@all" if self.scripts else "-@scripting")
        return self


@pytest.fixture(params=[*FAKES, *(f"{os.path.dirname(name)[-12:]}" for name in PROGRAMS)])
def native(request, folder):
    """A server without scripts but with the commands."""
    if request.param in FAKES:
        server = FakeServer(str(folder / "fake.sock"), FAKES[request.param])
        yield server
        server.stop()
    else:
        place = folder / "real"
        place.mkdir()
        program = next(name for name in PROGRAMS if os.path.dirname(name)[-12:] == request.param)
        server = RealServer(program, place, scripts=False)
        server.start()
        if not server.has_ifeq():
            server.kill()
            pytest.skip("it has no SET with IFEQ")
        yield server
        server.kill()


@pytest.fixture
def fake(folder):
    server = FakeServer(str(folder / "fake.sock"), FAKES["delex"])
    yield server
    server.stop()


@pytest.fixture
def make_user(native, make_keeper):
    """make_user(**options): a client that may run no scripts."""
    def make(**options):
        if isinstance(native, RealServer):
            options |= {"username": "app", "password": "word"}
        return make_keeper(native.unix_url, **options)
    return make


def test_taken_held_and_freed(native, make_user):
    keeper = make_user()
    keeper.call("acquire", "n", **KIND).ok()
    token = keeper.call("export", "n", **KIND).ok().field
    assert native.call("GET", "n") == token.encode()
    assert 25000 < native.call("PTTL", "n") <= 30000, "the lease, not the deadline of the try"
    assert keeper.call("is_locked", "n", **KIND).result == 1
    assert keeper.call("is_held_by", "n", field=token, **KIND).result == 1
    keeper.call("try", "n", thread="b", **KIND).is_code("LK_EBUSY")
    make_user().call("try", "n", **KIND).is_code("LK_EBUSY")
    keeper.call("release", "n", **KIND).ok()
    assert native.call("EXISTS", "n") == 0
    keeper.call("release", "n", **KIND).is_code("LK_ENOTOWNER")


def test_kept_after_its_release(native, make_user):
    keeper, waiter = make_user(), make_user()
    keeper.call("acquire", "n", **KIND).ok()
    keeper.call("release", "n", keep=60_000, **KIND).ok()
    assert b":kept:" in native.call("GET", "n") and 50_000 < native.call("PTTL", "n") <= 60_000
    keeper.call("try", "n", **KIND).is_code("LK_EBUSY")
    native.call("DEL", "n")
    keeper.call("acquire", "n", **KIND).ok()
    keeper.call("release", "n", keep=300, **KIND).ok()
    waiter.call("within", "n", wait=20_000, **KIND).ok()
    native.call("DEL", "n")
    waiter.call("release", "n", keep=300, **KIND).is_code("LK_ELOST")
    assert native.call("EXISTS", "n") == 0


def test_named_lease_and_its_end(native, make_user):
    a, b = make_user(), make_user()
    a.listen()
    a.call("acquire", "n", lease=400, **KIND).ok()
    b.call("acquire", "n", **KIND).ok()
    until(lambda: a.events_of(EVENT_LOST, "n"), 5)
    a.call("release", "n", **KIND).is_code("LK_ELOST")
    assert b.call("is_held", "n", **KIND).result == 1
    b.call("release", "n", **KIND).ok()
    assert native.call("EXISTS", "n") == 0


def test_waiter_is_woken(native, make_user):
    a, b = make_user(), make_user()
    a.call("acquire", "n", **KIND).ok()
    waits = b.say("acquire", "n", **KIND)
    until(lambda: native.channels(), 5, "B listens")
    a.call("release", "n", **KIND).ok()
    waits.result(5).ok()
    b.call("release", "n", **KIND).ok()


def test_stranger_is_polled(native, make_user):
    keeper = make_user()
    native.call("SET", "n", "stranger", "PX", 60000)
    waits = keeper.say("acquire", "n", **KIND)
    until(lambda: keeper.stats().busy >= 3, 10)
    assert native.call("GET", "n") == b"stranger"
    native.call("DEL", "n")
    waits.result(5).ok()
    keeper.call("release", "n", **KIND).ok()


def test_renewed_and_extended_never_shortened(native, make_user):
    keeper = make_user(watchdog_ms=600)
    keeper.call("acquire", "n", **KIND).ok()
    until(lambda: keeper.stats().renewals >= 4, 10)
    keeper.call("extend", "n", lease=60000, **KIND).ok()
    assert native.call("PTTL", "n") > 50000
    keeper.call("extend", "n", lease=100, **KIND).ok()
    assert native.call("PTTL", "n") > 50000
    token = keeper.call("export", "n", **KIND).field
    keeper.call("extend_field", "n", field=token, lease=100, **KIND).ok()
    assert native.call("PTTL", "n") > 50000
    keeper.call("extend_field", "n", field=token, lease=90000, **KIND).ok()
    assert native.call("PTTL", "n") > 80000
    keeper.call("release", "n", **KIND).ok()


def test_lost_to_a_thief(native, make_user):
    keeper = make_user(watchdog_ms=600)
    keeper.listen()
    keeper.call("acquire", "n", **KIND).ok()
    native.call("SET", "n", "thief")
    until(lambda: keeper.events_of(EVENT_LOST, "n"), 5)
    keeper.call("release", "n", **KIND).is_code("LK_ELOST")
    assert native.call("GET", "n") == b"thief" and native.call("PTTL", "n") == -1


def test_fields_and_force_in_a_process_that_has_asked_nothing(native, make_user):
    a = make_user()
    a.call("acquire", "n", **KIND).ok()
    token = a.call("export", "n", **KIND).field
    make_user().call("release_field", "n", field="other", **KIND).is_code("LK_ENOTOWNER")
    make_user().call("release_field", "n", field=token, **KIND).ok()
    assert native.call("EXISTS", "n") == 0
    native.call("SET", "n", "stranger")
    assert make_user().call("force", "n", **KIND).result == 1
    assert native.call("EXISTS", "n") == 0
    assert make_user().call("force", "n", **KIND).result == 0
    native.call("RPUSH", "n", "x")
    make_user().call("force", "n", **KIND).is_code("LK_EWRONGTYPE")
    answer = make_user().call("try", "n", **KIND).is_code("LK_EWRONGTYPE")
    assert "not a plain lock" in answer.message
    assert native.call("EXISTS", "n") == 1


@pytest.mark.parametrize("how", ["release", "no_wait", "field"])
def test_a_key_of_another_type_is_lost(native, make_user, how):
    """Each command has its own words for it; Redis' DELEX says no WRONGTYPE."""
    keeper = make_user()
    keeper.call("acquire", "n", **KIND).ok()
    token = keeper.call("export", "n", **KIND).field
    native.call("DEL", "n")
    native.call("RPUSH", "n", "x")
    if how == "field":
        make_user().call("release_field", "n", field=token, **KIND).is_code("LK_EWRONGTYPE")
        keeper.call("release", "n", **KIND).is_code("LK_ELOST")
    elif how == "release":
        keeper.call("release", "n", **KIND).is_code("LK_ELOST")
    else:
        keeper.call("release", "n", no_wait=1, **KIND).ok()
    assert keeper.call("close", how=CLOSE_RELEASE).result == 0
    assert native.call("TYPE", "n") in ("list", b"list")


def test_named_leases_are_handed_on_in_one_step(native, make_user):
    keeper = make_user()
    keeper.call("acquire", "n", thread="a", **KIND).ok()
    first = native.call("GET", "n")
    waits = keeper.say("acquire", "n", thread="b", lease=9000, **KIND)
    until(lambda: keeper.stats().waiting == 1, 5)
    keeper.call("release", "n", thread="a", **KIND).ok()
    waits.result(5).ok()
    assert native.call("GET", "n") not in (first, None)
    assert 5000 < native.call("PTTL", "n") <= 9000
    keeper.call("release", "n", thread="b", **KIND).ok()
    assert native.call("EXISTS", "n") == 0


def test_exclusion_by_history(native, make_user, history):
    keepers, paths, runs = [make_user() for _ in range(3)], [], []
    for number, keeper in enumerate(keepers):
        paths.append(history())
        runs.append(keeper.say("stress", thread="s", name="both", threads=2, pairs=150,
                               hold_us=200, history=paths[-1], run=number, **KIND))
    for run in runs:
        answer = run.result(60)
        assert answer["acquire_OK"] == answer["release_OK"] == 300, dict(answer)
    checker.check([record for path in paths for record in checker.read(path)])
    assert native.call("EXISTS", "both") == 0


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_stray_copy_does_not_shorten_a_lease(native, make_proxy, make_keeper, exchanged):
    """What took the lock runs once more, in parts and whole, after the lease was made longer."""
    proxy, options, sent = make_proxy(native.path), {}, []
    if isinstance(native, RealServer):
        options = {"username": "app", "password": "word"}
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=30000, term_ms=1000, **options)
    keeper.call("acquire", "n", lease=5000, **KIND).ok()
    waits = keeper.say("acquire", "n", thread="b", lease=5000, **KIND) if exchanged else None
    until(lambda: keeper.stats().waiting == int(exchanged), 5)
    if not exchanged:
        keeper.call("release", "n", **KIND).ok()
    proxy.rule = lambda m: sent.append(m.argv) if not m.reply and m.what == "set" else None
    if exchanged:
        keeper.call("release", "n", **KIND).ok()
        waits.result(5).ok()
    else:
        keeper.call("acquire", "n", thread="b", lease=5000, **KIND).ok()
    keeper.call("extend", "n", thread="b", lease=90000, **KIND).ok()
    holder = native.call("GET", "n")
    assert len(sent) == 2
    for words in [*sent, *reversed(sent)]:
        native.call(*words)
        assert native.call("GET", "n") == holder and native.call("PTTL", "n") > 80000
    keeper.call("release", "n", thread="b", **KIND).ok()


@pytest.mark.parametrize("second", [False, True])
def test_a_try_that_runs_late_leaves_nothing(native, make_proxy, make_keeper, second):
    """Each of its two commands alone, when its deadline is over."""
    proxy, options, sent = make_proxy(native.path), {}, []
    if isinstance(native, RealServer):
        options = {"username": "app", "password": "word"}
    keeper = make_keeper(proxy.unix_url, command_timeout_ms=300, **options)
    keeper.call("ping").ok()
    proxy.rule = lambda m: sent.append(m.argv) if not m.reply and m.what == "set" else None
    keeper.call("acquire", "n", **KIND).ok()
    (taken, leased) = sent[-2:]
    keeper.call("release", "n", **KIND).ok()
    deadline_s = int(taken[taken.index(b"PXAT") + 1]) / 1000
    if second:
        native.call(*taken)
        assert native.call("EXISTS", "n") in (0, 1), "until the deadline, if that is still to come"
    until(lambda: time.time() > deadline_s + 0.05, 5)
    native.call(*(leased if second else taken))
    assert native.call("EXISTS", "n") == 0


# ---- what only a server of our own does ----

def test_what_is_sent(fake, make_keeper):
    keeper = make_keeper(fake.unix_url)
    for _ in range(2):
        keeper.call("acquire", "n", **KIND).ok()
        keeper.call("release", "n", **KIND).ok()
    asked = ["DELEX", "DELIFEQ", "SET"]
    assert fake.verbs("n") == [*asked, *(["SET", "SET", "TYPE", "DELEX"] * 2)], "asked once"
    take, lease = [words for words in fake.seen if words[0] == "SET" and "NX" in words
                   or "PX" in words][:2]
    assert take[1] == "n" and take[3:6] == ["NX", "GET", "PXAT"]
    assert take[2] == lease[2] + ":taking"
    assert lease[3:] == ["IFEQ", take[2], "PX", "30000"]


def test_late_try_leaves_no_key(fake, make_keeper):
    """The server's clock goes ahead: the try is late, its answer teaches, the next is granted."""
    keeper = make_keeper(fake.unix_url)
    keeper.call("acquire", "n", **KIND).ok()
    keeper.call("release", "n", **KIND).ok()
    fake.ahead_ms = 3_600_000
    keeper.call("try", "n", **KIND).ok()
    assert 25000 < fake.call("PTTL", "n") <= 30000
    keeper.call("release", "n", **KIND).ok()
    fake.ahead_ms = -3_600_000  # behind: the deadline is far, the lease is not
    keeper.call("try", "n", **KIND).ok()
    assert 25000 < fake.call("PTTL", "n") <= 30000
    keeper.call("release", "n", **KIND).ok()


def test_late_hand_over_gives_up(fake, make_keeper):
    """The exchange comes after its deadline: what the giver had is free, and the next one tries."""
    keeper = make_keeper(fake.unix_url, term_ms=1000)
    keeper.call("acquire", "n", lease=9000, **KIND).ok()
    waits = keeper.say("acquire", "n", thread="b", lease=9000, **KIND)
    until(lambda: keeper.stats().waiting == 1, 5)

    def leap(words):
        if words[0] == b"SET" and b"IFEQ" in words and b"PXAT" in words:
            fake.ahead_ms = 3_600_000
            fake.hook = lambda _: None
            fake.ends[b"n"] += 3_600_000  # it is not over yet
    fake.hook = leap
    keeper.call("release", "n", **KIND).ok()
    waits.result(10).ok()
    keeper.call("release", "n", thread="b", **KIND).ok()
    assert fake.call("EXISTS", "n") == 0


def test_late_tries_alone_grant_nothing(fake, make_keeper):
    keeper = make_keeper(fake.unix_url)
    keeper.call("acquire", "warm", **KIND).ok()

    def leap(words):
        if words[0] == b"SET" and b"NX" in words:
            fake.ahead_ms += 600_000
    fake.hook = leap
    keeper.call("try", "n", **KIND).is_code("LK_EUNAVAILABLE")
    assert fake.call("EXISTS", "n") == 0
    fake.hook = lambda words: None


@pytest.mark.parametrize("has, denied, missing", [
    ((), (), "SET with IFEQ"), (("DELEX",), (), "SET with IFEQ"), (("IFEQ",), ("SET",), "SET"),
])
def test_nothing_fits(folder, make_keeper, has, denied, missing):
    fake = FakeServer(str(folder / "bare.sock"), has)
    fake.denied |= set(denied)
    keeper = make_keeper(fake.unix_url)
    answer = keeper.call("acquire", "n", **KIND).is_code("LK_EDENIED")
    assert "scripts are refused" in answer.message and missing in answer.message
    keeper.call("force", "n", **KIND).is_code("LK_EDENIED")
    assert fake.call("DBSIZE") == 0
    fake.stop()


def test_a_user_without_the_right_to_delete_can_release(fake, make_keeper):
    fake.denied.add("DELEX")
    keeper = make_keeper(fake.unix_url)
    keeper.call("acquire", "n", **KIND).ok()
    keeper.call("release", "n", **KIND).ok()
    assert fake.call("DBSIZE") == 0 and "DELIFEQ" not in fake.verbs("n")[3:]


def test_full_server_renews_and_releases(native, make_user):
    """Memory runs out while it is held: what is held stays so, and is given up."""
    if not isinstance(native, RealServer):
        pytest.skip("the small server has no limit")
    keeper = make_user(watchdog_ms=900)
    keeper.call("acquire", "n", **KIND).ok()
    native.set("maxmemory", "1")
    keeper.call("try", "other", **KIND).is_code("LK_EREFUSED")
    before = keeper.stats().renewals
    until(lambda: keeper.stats().renewals >= before + 3, 10)
    if native.call("COMMAND", "INFO", "DELIFEQ") == [None]:
        keeper.call("release", "n", **KIND)
    else:
        keeper.call("release", "n", **KIND).ok()
    native.set("maxmemory", "0")
    until(lambda: native.call("EXISTS", "n") == 0, 5)


def test_answers_that_come_in_parts_and_a_connection_that_ends(fake, make_keeper):
    """The connection is cut between the commands of one try: it is sent again, and granted once."""
    keeper = make_keeper(fake.unix_url)
    keeper.call("acquire", "warm", **KIND).ok()
    cut = threading.Event()

    def hook(words):
        if words[0] == b"SET" and b"PX" in words and not cut.is_set():
            cut.set()
            raise resp.Closed()
    fake.hook = hook
    keeper.call("acquire", "n", **KIND).ok()
    stats = keeper.stats()
    assert cut.is_set() and stats.resent == 1 and stats.compensations == 0, dict(stats)
    assert 20000 < fake.call("PTTL", "n") <= 30000
    keeper.call("release", "n", **KIND).ok()
    until(lambda: fake.call("EXISTS", "n") == 0, 5)
    keeper.call("release", "warm", **KIND).ok()


@pytest.mark.skipif(not PROGRAMS, reason="LOCKKEEPER_SERVERS names none")
@pytest.mark.parametrize("program", PROGRAMS)
def test_commands_are_preferred_to_scripts(program, folder, make_keeper):
    assert shutil.which(program), program
    server = RealServer(program, folder, scripts=True).start()
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    keeper.call("acquire", "n", **KIND).ok()
    until(lambda: keeper.stats().renewals >= 2, 10)
    keeper.call("release", "n", **KIND).ok()
    known = server.call("COMMAND", "INFO", *NATIVE) != [None, None]
    calls = server.call("INFO", "commandstats").decode()
    assert ("cmdstat_delifeq" in calls or "cmdstat_delex" in calls) == known
    assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout
    server.kill()


@pytest.mark.parametrize("refusal", [b"-NOPERM no right to read it\r\n", b"-LOADING it starts\r\n"])
def test_an_extension_without_a_usable_answer_is_not_a_loss(fake, make_proxy, make_keeper, refusal):
    """PEXPIRE is answered, GET behind it is not: the hold stays what it was."""
    proxy = make_proxy(fake.path)
    keeper = make_keeper(proxy.unix_url)
    keeper.listen()
    keeper.call("acquire", "kept", lease=20000, **KIND).ok()
    field = keeper.call("export", "kept", **KIND).ok()["field"]
    proxy.rule = lambda m: Replace(refusal) if m.reply and m.what == "get" else None
    keeper.call("extend", "kept", lease=30000, **KIND).is_code("LK_EMAYBEHELD")
    keeper.call("extend_field", "kept", field=field, lease=30000, **KIND).is_code("LK_EMAYBEHELD")
    proxy.rule = None
    assert keeper.call("is_held", "kept", **KIND).result == 1
    keeper.call("extend", "kept", lease=30000, **KIND).ok()
    assert not keeper.events
    keeper.call("release", "kept", **KIND).ok()
