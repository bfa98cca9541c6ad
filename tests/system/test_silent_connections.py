"""The connections that there are fall silent, and new ones work: a firewall has forgotten them.

Neither side is told. What waits for an answer on one of them must not wait for as long on the next.
"""
from __future__ import annotations

import subprocess

import pytest

import networks
from keeper import DRIVER, EVENT_AT_RISK, EVENT_LOST
from waiting import until

KINDS = ("lock", "fair", "fenced", "plain", "write")
FIRST_PORTS, OTHER_PORTS = "20000 29999", "30000 39999"
LEASE_MS = 900
COMMAND_MS = 3000  # longer than each lease here


def renewed_twice(keeper, before: int) -> None:
    until(lambda: keeper.stats().renewals >= before + 2 * len(KINDS), 20, "they are renewed")


@pytest.mark.parametrize("threadless", [0, 1], ids=["threads", "threadless"])
def test_every_kind_is_renewed(server, proxy, make_keeper, threadless):
    keeper = make_keeper(proxy.url, watchdog_ms=LEASE_MS, command_timeout_ms=COMMAND_MS,
                         threadless=threadless)
    keeper.listen()
    for kind in KINDS:
        keeper.call("acquire", f"held-{kind}", kind=kind, owner="task", queue=threadless).ok()
    renewed_twice(keeper, 0)
    assert proxy.forget_all() >= 2
    renewed_twice(keeper, keeper.stats().renewals)
    assert not keeper.events_of(EVENT_LOST) and not keeper.events_of(EVENT_AT_RISK)
    for kind in KINDS:
        assert keeper.call("is_held", f"held-{kind}", kind=kind, owner="task").result == 1
        keeper.call("release", f"held-{kind}", kind=kind, owner="task", queue=threadless).ok()


def test_who_listens_is_woken(server, proxy, make_keeper):
    """The silence of one connection that is asked shows that of the one that only listens."""
    stranger = make_keeper(server.unix_url)
    keeper = make_keeper(proxy.url, watchdog_ms=LEASE_MS, command_timeout_ms=COMMAND_MS)
    stranger.call("acquire", "wanted", lease=600_000).ok()
    keeper.call("acquire", "held").ok()
    waits = keeper.say("acquire", "wanted", thread="waiter")
    until(lambda: server.channels() and keeper.stats().renewals > 0, 10, "it listens, and renews")
    before = keeper.stats().connects
    proxy.forget_all()
    until(lambda: keeper.stats().connects >= before + 3 and server.channels(), 20, "it is noticed")
    stranger.call("release", "wanted").ok()
    waits.result(10).ok()
    for name, thread in (("wanted", "waiter"), ("held", "main")):
        keeper.call("release", name, thread=thread).ok()


@pytest.fixture
def sites():
    reason = networks.why_not()
    if reason:
        pytest.skip(reason)
    made = networks.Networks("server", "client")
    try:
        made.use_ports("client", FIRST_PORTS)
        yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the ports of connections cannot be chosen here: {error.stderr.strip()}")
    finally:
        made.close()


def test_packets_are_dropped(sites, make_server, make_keeper):
    """The kernel drops what belongs to the ports that are in use."""
    server, here = make_server(site=sites["server"]), sites["client"]
    keeper = make_keeper(f"redis://{server.host}:{server.port}", program=(*here.prefix, DRIVER),
                         watchdog_ms=LEASE_MS, command_timeout_ms=COMMAND_MS)
    keeper.listen()
    keeper.call("acquire", "held").ok()
    until(lambda: keeper.stats().renewals > 1, 10, "it is renewed")
    sites.use_ports("client", OTHER_PORTS)
    sites.drop_ports("client", FIRST_PORTS)
    before = keeper.stats().renewals
    until(lambda: keeper.stats().renewals > before + 2, 20, "it is renewed again")
    assert not keeper.events_of(EVENT_LOST)
    keeper.call("release", "held").ok()
    assert server.call("EXISTS", "held") == 0
