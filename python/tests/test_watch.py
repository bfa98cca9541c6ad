"""Watching locks from outside."""
from __future__ import annotations

import asyncio
import os
import threading

import lockkeeper


def test_a_grant_and_a_release(client, other):
    watch = client.watch("job", b"other")
    states = {watch.next(10).name: None, watch.next(10).name: None}
    assert states == {b"job": None, b"other": None}
    with other.fenced_lock("job").hold() as hold:
        field = hold.field
        change = watch.next(10)
        assert (change.kind, change.owner, change.was) == ("acquired", field, None)
        assert change.fence == hold.fence and change.holders == 1 and 0 < change.ttl <= 30
        assert change.client is None or change.client.pid == os.getpid()
    change = watch.next(10)
    assert (change.kind, change.owner, change.was) == ("released", None, field)
    assert watch.next(0.05) is None
    watch.remove("job")
    with other.lock("job").hold():
        assert watch.next(0.05) is None


def test_the_end_of_its_client_ends_it(client, other):
    kinds = []
    ready = threading.Event()

    def read():
        for change in other.watch("job"):
            kinds.append(change.kind)
            ready.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert ready.wait(10)
    other.close()
    thread.join(10)
    assert not thread.is_alive() and kinds == ["state"]


def test_tasks(client, other):
    async def run():
        kinds = []
        async for change in client.watch("job"):
            kinds.append(change.kind)
            if change.kind == "state":
                hold = await other.lock("job").aacquire()
            elif change.kind == "acquired":
                await hold.arelease()
            else:
                return kinds

    assert asyncio.run(asyncio.wait_for(run(), 20)) == ["state", "acquired", "released"]


def test_a_task_that_is_cancelled(client):
    async def run():
        watch = client.watch("job")
        await watch.anext()
        task = asyncio.ensure_future(watch.anext())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=10)
        assert task.cancelled()
        return watch.next(0)

    assert asyncio.run(run()) is None
