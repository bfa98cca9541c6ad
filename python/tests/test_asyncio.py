"""Holds from tasks: waits, cancels, losses, loops."""
from __future__ import annotations

import asyncio
import gc
import random
import threading

import pytest

import lockkeeper


def run(main):
    return asyncio.run(asyncio.wait_for(main, 60))


def test_async_with(client, other, redis):
    async def main():
        async with client.lock("task").hold(wait=10) as hold:
            assert hold.held and await client.lock("task").alocked()
            await hold.aextend(60)
            assert hold.remaining() > 50
            with pytest.raises(lockkeeper.Busy):
                async with other.lock("task").hold(wait=0.05):
                    pass

    run(main())
    assert redis("EXISTS", "task") == "0"


def test_without_a_block(client, redis):
    async def main():
        hold = await client.lock("await").hold(wait=1)
        hold.check()
        await hold.arelease()
        hold = await client.lock("await").aacquire(wait=1)
        del hold

    run(main())
    gc.collect()
    assert redis("EXISTS", "await") == "0"


def test_many_tasks(client):
    inside, most = [0] * 10, 0

    async def task(number):
        nonlocal most
        async with client.lock(f"many {number % 10}").hold():
            inside[number % 10] += 1
            most = max(most, *inside)
            await asyncio.sleep(0)
            inside[number % 10] -= 1

    async def main():
        await asyncio.gather(*map(task, range(1000)))

    run(main())
    assert most == 1


def test_random_cancels(client, redis, eventually):
    async def task():
        async with client.lock("cancels").hold():
            await asyncio.sleep(0)

    async def main():
        tasks = [asyncio.create_task(task()) for _ in range(400)]
        for _ in range(200):
            random.choice(tasks).cancel()
            await asyncio.sleep(random.random() / 2000)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError)
                   for result in results)
        assert None in results

    run(main())
    eventually(lambda: redis("EXISTS", "cancels") == "0")
    with client.lock("cancels").hold(wait=0):
        pass


def test_wait_for(client, other, redis):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.lock("timeout").aacquire(), 0.1)

    with other.lock("timeout").hold():
        run(main())
    assert redis("EXISTS", "timeout") == "0"


def test_a_loss_cancels_the_body(client, redis):
    async def main():
        begun = asyncio.Event()

        async def body():
            async with client.lock("lost").hold():
                begun.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(body())
        await begun.wait()
        redis("DEL", "lost")
        with pytest.raises(lockkeeper.Lost):
            await task
        if hasattr(task, "cancelling"):
            assert task.cancelling() == 0

    run(main())


def test_a_cancel_by_another_goes_on(client, redis):
    async def main():
        begun = asyncio.Event()

        async def body():
            async with client.lock("other").hold():
                begun.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(body())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert redis("EXISTS", "other") == "0"

    run(main())


def test_notices(client, redis):
    async def main():
        async def lose():
            with pytest.raises(lockkeeper.Lost):
                async with client.lock("noticed").hold():
                    redis("DEL", "noticed")
                    await asyncio.sleep(30)

        task = asyncio.create_task(lose())
        async for notice in client.notices():
            if notice.type == "lost":
                break
        await task

    run(main())


def test_several_loops_and_threads(client):
    inside, most = 0, 0

    async def task():
        nonlocal inside, most
        for _ in range(20):
            async with client.lock("loops").hold():
                inside += 1
                most = max(most, inside)
                inside -= 1

    async def main():
        await asyncio.gather(*(task() for _ in range(5)))

    def blocking():
        nonlocal inside, most
        for _ in range(50):
            with client.lock("loops").hold():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(2)]
    threads += [threading.Thread(target=blocking) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1


def test_a_loop_that_is_left_behind(client, redis, eventually):
    """Its task waits when the loop is closed: nothing is granted to nobody."""
    loop = asyncio.new_event_loop()
    with client.lock("left").hold():
        task = loop.create_task(client.lock("left").aacquire())
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
        del task, loop
        gc.collect()
    eventually(lambda: redis("EXISTS", "left") == "0")


def test_counts(client):
    async def main():
        pool = client.semaphore("pool", 2)
        async with pool.hold(2, wait=1):
            with pytest.raises(lockkeeper.Busy):
                await pool.aacquire(1, 0.05)
        assert await pool.aavailable() == 2
        permits = client.permit_semaphore("permits", 1)
        async with permits.hold(wait=1) as permit:
            assert len(permit.id) == 32
            with pytest.raises(lockkeeper.Busy):
                await permits.hold(wait=0.05)
        assert permits.count() == (1, 0)
        latch = client.latch("latch")
        assert await latch.atry_set(1)
        waiting = asyncio.create_task(latch.await_open(10))
        assert await latch.acount_down() == 0
        await waiting
        first, second = client.barrier("step", 2), client.barrier("step", 2)
        assert len(set(await asyncio.gather(first.await_all(10), second.await_all(10)))) == 1
        assert len(set(await asyncio.gather(first.aenter(10), second.aenter(10)))) == 1
        await asyncio.gather(first.aleave(10), second.aleave(10))

    run(main())
