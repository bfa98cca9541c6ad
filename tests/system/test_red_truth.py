"""What a red lock says when it is not granted: that another has it, or which nodes failed."""
from __future__ import annotations

import pytest

from proxy import Park, Replace, reply_to
from test_red import MAJORITY, NODES, erring, quorum  # noqa: F401  (a fixture)
from waiting import until

WAIT_MS = 60_000
ERROR = Replace(b"-ERR whatever it is\r\n")
WAYS = {"calls": {}, "queue": {"queue": 1}}


def taken_by_a_stranger(quorum, numbers) -> None:  # noqa: F811
    for number in numbers:
        quorum.servers[number].call("HSET", "q", "stranger:1", "1")
        quorum.servers[number].call("PEXPIRE", "q", 60_000)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("slow", [(1,), (2, 4)], ids=["one", "two"])
def test_held_by_another_beside_dead_nodes(quorum, slow, way):  # noqa: F811
    """The answers of the healthy nodes are waited for, though none of them can bring a majority:
    they tell *held* from *no quorum*."""
    quorum.open().know_all()
    dead = {0, 3}
    taken_by_a_stranger(quorum, set(range(NODES)) - dead)
    for number in dead:
        quorum.proxies[number].rule = erring("OOM command not allowed")
    for number in slow:
        quorum.proxies[number].rule = lambda m: Park(0.3) if reply_to("acquire")(m) else None
    for _ in range(3):
        told = quorum.call("try", node_limit=10_000, **WAYS[way]).is_code("LK_EBUSY")
        for number in dead:
            assert f"{quorum.urls[number]}: OOM" in told.message


@pytest.mark.parametrize("way", WAYS)
def test_no_quorum_blames_no_healthy_node(quorum, way):  # noqa: F811
    """Without a majority whatever the rest says, nobody waits for that, and it is no reason."""
    quorum.open().know_all()
    healthy = 4
    for number in range(MAJORITY):
        quorum.proxies[number].rule = erring("OOM command not allowed")
    quorum.proxies[healthy].rule = lambda m: Park(2) if reply_to("acquire")(m) else None
    told = quorum.call("try", node_limit=10_000, **WAYS[way]).is_code("LK_ENOQUORUM")
    assert told.took < 2
    assert quorum.urls[healthy] not in told.message
    for number in range(MAJORITY):
        assert f"{quorum.urls[number]}: OOM" in told.message
    quorum.proxies[healthy].rule = None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb, limit", [("acquire", {}), ("within", {"wait": WAIT_MS})])
def test_an_unknown_error_of_a_majority_is_told_at_once(quorum, verb, limit, way):  # noqa: F811
    """It would be the same the next time. What the tries did is undone."""
    quorum.open().know_all()
    for number in range(MAJORITY):
        quorum.proxies[number].rule = lambda m: ERROR if reply_to("acquire")(m) else None
    told = quorum.call(verb, **limit, **WAYS[way]).is_code("LK_EMAYBEHELD")
    assert "whatever it is" in told.message
    assert told.took < 10
    for proxy in quorum.proxies:
        proxy.rule = None
    quorum.gone()


@pytest.mark.parametrize("text", ["NOPERM this user has no permissions", "OOM command not allowed"])
def test_what_stays_is_told_at_once(quorum, text):  # noqa: F811
    """As by a lock on one node."""
    quorum.open().know_all()
    for number in range(MAJORITY):
        quorum.proxies[number].rule = erring(text)
    told = quorum.call("within", wait=WAIT_MS).is_code("LK_ENOQUORUM")
    assert text in told.message
    assert told.took < 10


def is_multi(message) -> bool:
    """The answer to an acquire of several locks by one script."""
    return message.reply and message.what == "evalsha" and int(message.argv[2]) > 1


@pytest.mark.parametrize("way", ["calls", "queue", "loop"])
@pytest.mark.parametrize("verb, limit", [("acquire", {}), ("within", {"wait": WAIT_MS})])
def test_an_unknown_error_for_several_locks(server, proxy, make_keeper, verb, limit, way):
    """Each alone could be had: only their own script is answered so."""
    keeper = make_keeper()
    keeper.open(proxy.unix_url, threadless=int(way == "loop"))
    asynchronous = {} if way == "calls" else {"queue": 1}
    proxy.rule = lambda m: ERROR if is_multi(m) else None
    told = keeper.call(verb, "a,b", kind="multi", **limit, **asynchronous)
    assert "whatever it is" in told.is_code("LK_EMAYBEHELD").message
    assert told.took < 10
    proxy.rule = None
    until(lambda: server.call("DBSIZE") == 0, 10, "given back")
