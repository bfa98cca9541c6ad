"""All faults at once, by a seed: LOCKKEEPER_SEED repeats a run, LOCKKEEPER_SECONDS prolongs it.

Three processes with threads of every kind use a few locks through a proxy that cuts, parks and
drips messages, while servers and clients are stopped, connections killed and scripts forgotten.
"""
from __future__ import annotations

import os
import random
import time

import pytest

import checker
from keeper import CLOSE_ABANDON
from proxy import Cut, Drip, Park
from waiting import until

SEED = int(os.environ.get("LOCKKEEPER_SEED", "20261121"))
SECONDS = float(os.environ.get("LOCKKEEPER_SECONDS", "10"))
KINDS = [
    {"threads": 6, "lease": 150, "hold_us": 1000},
    {"threads": 6, "hold_us": 500},
    {"threads": 4, "lease": 200, "no_wait": 1, "hold_us": 200},
    {"threads": 4, "wait": 30, "lease": 300, "hold_us": 2000},
    {"threads": 4, "wait": 0, "pause_us": 1000},
    {"threads": 4, "cancel_us": 3000, "hold_us": 300},
]


def bad_wire(generator: random.Random, hits: dict):
    """A rule that treats about one message in a hundred badly."""
    def rule(message):
        dice = generator.random()
        if dice > 0.012:
            return None
        hits[message.what] = hits.get(message.what, 0) + 1
        if dice < 0.004:
            return Cut(generator.randrange(len(message.data) + 1), generator.random() < 0.5)
        if dice < 0.010:
            return Park(generator.uniform(0, 0.35))
        return Drip(0.002)
    return rule


def trouble(generator: random.Random, server, keepers) -> None:
    """One fault of servers or processes."""
    kind = generator.choice(["kill", "flush", "server", "client", "pubsub", "nothing"])
    if kind == "kill":
        server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    elif kind == "pubsub":
        server.call("CLIENT", "KILL", "TYPE", "pubsub")
    elif kind == "flush":
        server.call("SCRIPT", "FLUSH")
    elif kind in ("server", "client"):
        victim = server if kind == "server" else generator.choice(keepers)
        victim.pause()
        time.sleep(generator.uniform(0.05, 0.4))
        victim.resume()


@pytest.mark.slow
def test_everything_at_once(server, proxy, make_keeper, history):
    generator, hits = random.Random(SEED), {}
    keepers = [make_keeper(proxy.unix_url, command_timeout_ms=250, watchdog_ms=400)
               for _ in range(3)]
    for keeper in keepers:
        keeper.call("ping").ok()
    runs, paths = [], []
    for number, keeper in enumerate(keepers):
        for place, kind in enumerate(KINDS):
            paths.append(history())
            runs.append(keeper.say("stress", thread=f"s{place}", name="all", names=3,
                                   pairs=1_000_000, run=number * 10 + place, history=paths[-1],
                                   capacity=200_000, **kind))
    proxy.rule = bad_wire(generator, hits)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(generator.uniform(0.02, 0.3))
        trouble(generator, server, keepers)
    proxy.rule = None
    for keeper in keepers:
        keeper.call("stop", thread="-")
    answers = [run.result(40) for run in runs]
    print(f"seed {SEED}, {sum(hits.values())} messages hit, {proxy.accepted} connections,",
          f"{sum(answer['grants'] for answer in answers)} grants")
    records = checker.read(*paths)
    checker.check(records, over_allowed=3)
    assert sum(hits.values()) > 50 and sum(answer["grants"] for answer in answers) > 200
    until(lambda: server.call("DBSIZE") == 0, 10, "nothing stays locked")
    assert all(keeper.stats().waiting == 0 for keeper in keepers)
    for keeper in keepers:
        keeper.call("within", "all0", wait=10000, lease=200, thread="after").ok()
        keeper.call("release", "all0", thread="after").ok()
        keeper.call("close", how=CLOSE_ABANDON)
    until(lambda: server.channels() == [], 5, "nobody listens any more")
