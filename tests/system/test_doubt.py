"""An answer that contradicts a hold of the same client: it is verified at once, whoever asked.

The key goes without a message, and the next look at it would be a third of a lease away.
"""
from __future__ import annotations

import pytest

from waiting import until

KINDS = ["lock", "fenced", "plain", "fair", "write", "read", "multi"]
WATCHDOG_MS = 90_000
SOON_S = 5
QUESTIONS = {
    "is_locked": {}, "ttl": {}, "is_held_by": {"field": 1}, "force": {}, "show": {},
    "extend_field": {"field": 1, "lease": 9000}, "release_field": {"field": 1},
}
MULTI = ("is_locked", "force", "show")


@pytest.fixture
def keeper(server, make_keeper):
    made = make_keeper(server.unix_url, watchdog_ms=WATCHDOG_MS, look_again_ms=60_000)
    made.listen()
    return made


def ask(keeper, verb: str, kind: str, field: str, name: str = "some") -> None:
    words = {key: field if key == "field" else value for key, value in QUESTIONS[verb].items()}
    if verb == "show":
        keeper.call("show", "some", thread="other")
    else:
        keeper.call(verb, name, thread="other", kind=kind, **words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", QUESTIONS)
def test_the_hold_is_lost_at_once(server, keeper, kind, verb):
    if kind == "multi" and verb not in MULTI:
        pytest.skip("a multi lock has no single field")
    name = "other,some" if kind == "multi" else "some"
    keeper.call("acquire", name, kind=kind).ok()
    field = "" if kind == "multi" else keeper.call("export", name, kind=kind).ok()["field"]
    waits = keeper.say("within", name, thread="waits", kind=kind, wait=20_000)
    until(lambda: keeper.stats().waiting or waits.done, 5, "it waits, or reads as well")
    if kind in ("fair", "write"):
        until(server.channels, 5, "it listens")
        until(keeper.is_asleep, 5, "it has looked since it listens")
    server.call("DEL", "some")
    ask(keeper, verb, kind, field, name)
    until(lambda: keeper.call("is_held", name, kind=kind).result == 0, SOON_S, "it is lost")
    until(lambda: keeper.events_of(2), SOON_S, "its owner is told")
    if kind != "multi":
        waits.result(SOON_S).ok()


@pytest.mark.parametrize("kind", ["lock", "plain", "fair", "write", "read"])
def test_who_frees_a_field_of_its_own_client_tells_it(server, keeper, kind):
    keeper.call("acquire", "some", kind=kind).ok()
    field = keeper.call("export", "some", kind=kind).ok()["field"]
    keeper.call("release_field", "some", thread="other", kind=kind, field=field).ok()
    until(lambda: keeper.call("is_held", "some", kind=kind).result == 0, SOON_S, "it is lost")


def test_a_hold_that_stands_is_not_lost(server, keeper):
    """What is said of another field, or key, contradicts nothing."""
    keeper.call("acquire", "some").ok()
    for verb in ("is_held_by", "extend_field", "release_field"):
        ask(keeper, verb, "lock", "somebody:1")
    ask(keeper, "show", "lock", "")
    keeper.call("ping").ok()
    until(lambda: keeper.stats().renewals > 0, SOON_S, "it is verified")
    assert keeper.call("is_held", "some").result == 1


@pytest.mark.parametrize("held, granted", [("lock", "fenced"), ("lock", "fair"), ("fair", "fair"),
                                           ("fair", "lock"), ("write", "write"), ("read", "write"),
                                           ("write", "read")])
def test_a_grant_to_another_owner_contradicts_the_hold(server, keeper, held, granted):
    """The key is gone, and another thread of the same client gets it without any wait."""
    keeper.call("acquire", "some", kind=held).ok()
    server.call("DEL", "some")
    keeper.call("acquire", "some", thread="other", kind=granted).ok()
    until(lambda: keeper.call("is_held", "some", kind=held).result == 0, SOON_S, "it is lost")
    keeper.call("ping").ok()
    assert keeper.call("is_held", "some", thread="other", kind=granted).result == 1


def test_a_permit_that_is_not_in_use_is_lost(server, keeper):
    """The others of its semaphore stay as they are."""
    keeper.call("set", "pool", kind="permits", count=2).ok()
    ids = [keeper.call("acquire", "pool", kind="permits").ok()["ids"] for _ in range(2)]
    server.call("ZREM", "{pool}:timeout", bytes.fromhex(ids[0]))
    keeper.call("lease", "pool", kind="permits", ids=ids[0]).ok()
    until(lambda: keeper.events_of(2), SOON_S, "its owner is told")
    keeper.call("remaining", "pool", kind="permits", ids=ids[1]).ok()
    keeper.call("remaining", "pool", kind="permits", ids=ids[0]).is_code("LK_ELOST")
