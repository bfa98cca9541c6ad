#!/usr/bin/env python3
"""The Python package beside redis-py and python-redis-lock, on a server that this starts.

usage: BUILD/venv/bin/python bench/python.py [--rounds N]    (behind `make check-python`)

    threads   8 threads, each with a name of its own, acquire and release as fast as they can
    tasks     1,000 tasks on ten names, each acquires once and releases
    waiting   commands of a second in which 1,000 of our tasks wait for ten held names

Each measurement is a process of its own. The sides run in turn, so that what else the machine does
falls on all of them, and the ratio is of one run. python-redis-lock is measured where it is
installed. Its locks and redis-py's have a time to live of 30 s, as ours do.
"""
from __future__ import annotations

import argparse
import asyncio
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

SECONDS = 2.0
THREADS, TASKS, NAMES = 8, 1000, 10
LIMIT_S = 120
LEASE_S = 30


def threads(hold: Callable[[int], Callable[[], object]]) -> float:
    """Pairs in a second. `hold(i)` makes what acquires and releases the name of thread i."""
    pairs = [0] * THREADS
    begin = threading.Barrier(THREADS + 1)
    end = [0.0]

    def work(number: int) -> None:
        pair = hold(number)
        pair()  # connects
        begin.wait()
        while time.monotonic() < end[0]:
            pair()
            pairs[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    end[0] = time.monotonic() + LIMIT_S
    begin.wait()
    begun = time.monotonic()
    end[0] = begun + SECONDS
    for worker in workers:
        worker.join()
    return sum(pairs) / (time.monotonic() - begun)


def our_threads(path: str) -> float:
    import lockkeeper
    client = lockkeeper.Client(f"unix://{path}")

    def hold(number: int) -> Callable[[], object]:
        lock = client.lock(f"ours-{number}")

        def pair() -> None:
            with lock.hold(wait=10):
                pass
        return pair
    return threads(hold)


def redis_threads(path: str) -> float:
    import redis
    client = redis.Redis(unix_socket_path=path)

    def hold(number: int) -> Callable[[], object]:
        def pair() -> None:
            with client.lock(f"theirs-{number}", timeout=LEASE_S, blocking_timeout=10):
                pass
        return pair
    return threads(hold)


def redis_lock_threads(path: str) -> float:
    import redis
    import redis_lock
    client = redis.Redis(unix_socket_path=path)

    def hold(number: int) -> Callable[[], object]:
        def pair() -> None:
            with redis_lock.Lock(client, f"third-{number}", expire=LEASE_S):
                pass
        return pair
    return threads(hold)


async def all_tasks(hold: Callable[[int], object]) -> float:
    """Tasks in a second, until the last has had its lock."""
    inside = [0] * NAMES

    async def task(number: int) -> None:
        async with hold(number % NAMES):
            inside[number % NAMES] += 1
            assert inside[number % NAMES] == 1
            await asyncio.sleep(0)
            inside[number % NAMES] -= 1

    begun = time.monotonic()
    await asyncio.gather(*(task(number) for number in range(TASKS)))
    return TASKS / (time.monotonic() - begun)


async def our_tasks(path: str) -> float:
    import lockkeeper
    with lockkeeper.Client(f"unix://{path}") as client:
        locks = [client.lock(f"ours-{number}") for number in range(NAMES)]
        return await all_tasks(lambda number: locks[number].hold(wait=LIMIT_S))


def pool(path: str) -> object:
    """Of 100 connections, which is what redis-py takes; more tasks wait for one."""
    from redis import asyncio as redis
    return redis.BlockingConnectionPool(
        connection_class=redis.UnixDomainSocketConnection, path=path, max_connections=100,
        timeout=LIMIT_S)


async def redis_tasks(path: str) -> float:
    import redis.asyncio
    client = redis.asyncio.Redis(connection_pool=pool(path))
    rate = await all_tasks(lambda number: client.lock(f"theirs-{number}", timeout=LEASE_S))
    await client.aclose()
    return rate


async def waiting(lock: Callable[[int], object], count: Callable[[], int]) -> float:
    """Commands that the server counts in a second of waiting, but for those that count them."""
    async def wait(number: int) -> None:
        async with lock(number % NAMES):
            pass

    held = [lock(number) for number in range(NAMES)]
    for one in held:
        await one.__aenter__()
    tasks = [asyncio.ensure_future(wait(number)) for number in range(TASKS)]
    await asyncio.sleep(2)
    before, begun = count(), time.monotonic()
    await asyncio.sleep(3)
    rate = (count() - before - 1) / (time.monotonic() - begun)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in held:
        await one.__aexit__(None, None, None)
    return rate


def counter(path: str) -> Callable[[], int]:
    import redis
    client = redis.Redis(unix_socket_path=path)
    client.ping()
    return lambda: client.info("stats")["total_commands_processed"]


async def our_waiting(path: str) -> float:
    import lockkeeper
    with lockkeeper.Client(f"unix://{path}") as client:
        locks = [client.lock(f"ours-{number}") for number in range(NAMES)]
        return await waiting(lambda number: locks[number].hold(wait=LIMIT_S), counter(path))


SIDES: dict[str, dict[str, Callable]] = {
    "threads": {"lockkeeper": our_threads, "redis-py": redis_threads,
                "python-redis-lock": redis_lock_threads},
    "tasks": {"lockkeeper": our_tasks, "redis.asyncio": redis_tasks},
    "waiting": {"lockkeeper": our_waiting},
}
UNITS = {"threads": "pairs/s", "tasks": "tasks/s", "waiting": "commands/s"}


def measure(row: str, side: str, path: str) -> float:
    """By a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--side", row, side, path], check=True,
                          capture_output=True, text=True, timeout=LIMIT_S)
    return float(done.stdout)


def measured(row: str, path: str, rounds: int) -> None:
    sides = [side for side in SIDES[row] if side != "python-redis-lock"
             or importlib.util.find_spec("redis_lock")]
    figures: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            figures[side].append(measure(row, side, path))
    ours = figures[sides[0]]
    print(f"{row:8} {statistics.median(ours):10,.0f} {UNITS[row]}", flush=True)
    for side in sides[1:]:
        ratio = statistics.median(a / b for a, b in zip(ours, figures[side], strict=True))
        print(f"{'':8} {statistics.median(figures[side]):10,.0f} {side}: {ratio:.1f} ×", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", nargs=3, metavar=("ROW", "SIDE", "SOCKET"))
    arguments = parser.parse_args()
    if arguments.side:
        row, side, path = arguments.side
        made = SIDES[row][side](path)
        print(asyncio.run(made) if asyncio.iscoroutine(made) else made)
        return
    with tempfile.TemporaryDirectory(prefix="lk-") as folder:
        path = pathlib.Path(folder) / "redis.sock"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(path),
                                   "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 10
            while not path.exists():
                assert time.monotonic() < until, "no server"
                time.sleep(0.01)
            for row in SIDES:
                measured(row, str(path), arguments.rounds)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
