"""The lock of one library in the hands of a Python program: reads commands from stdin and runs each
on the named thread, made at first use ("-" is the reading thread), as tests/system/driver does.

usage: peer.py LIBRARY
"""
from __future__ import annotations

import json
import pathlib
import queue
import sys
import threading
import time
from urllib.parse import unquote

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = sys.argv[1]
sys.path.insert(0, str(HERE / "packages"))
if LIBRARY == "redis-lock-py":  # its package has the name of python-redis-lock's
    sys.path.insert(0, str(HERE / "packages-alone"))

import redis  # noqa: E402  (behind the path)

client: redis.Redis
locks: dict[str, object] = {}
output = threading.Lock()


def make(name: str, lease_s: int | None):
    """A lock of the library. None: without a lease, as most of them are by default."""
    if LIBRARY == "python-redis-lock":
        import redis_lock
        return redis_lock.Lock(client, name, expire=lease_s)
    if LIBRARY == "redis-lock-py":
        import redis_lock
        return redis_lock.RedisLock(client, name, blocking_timeout=50, expire_timeout=lease_s)
    if LIBRARY == "pottery":
        import pottery
        return pottery.Redlock(key=name, masters={client}, auto_release_time=lease_s or 30)
    if LIBRARY == "sherlock":
        import sherlock
        return sherlock.RedisLock(name, client=client, expire=lease_s or 30, timeout=50)
    if LIBRARY == "walrus":
        import walrus
        database = walrus.Database(connection_pool=client.connection_pool)
        return database.lock(name, ttl=lease_s * 1000 if lease_s else None)
    raise ValueError("unknown library")


def acquire(lock, waits: bool) -> bool:
    if LIBRARY == "redis-lock-py":
        return bool(lock.acquire() if waits else lock._try_acquire())
    if LIBRARY == "walrus":
        return bool(lock.acquire(block=waits))
    if LIBRARY == "pottery" and not waits:
        return bool(lock.acquire(blocking=False, raise_on_redis_errors=True))
    return bool(lock.acquire(blocking=waits))


def call(verb: str, given: dict[str, str]) -> dict:
    global client
    if verb == "open":
        client = redis.Redis.from_url(given["url"], socket_timeout=None)
        return {"version": redis.__version__}
    name = given["name"]
    if verb == "release":
        locks.pop(name).release()
        return {}
    lock = make(name, int(given["lease_s"]) if "lease_s" in given else None)
    if not acquire(lock, verb == "acquire"):
        return {"code": "LK_EBUSY"}
    locks[name] = lock
    return {}


def run(line: str) -> None:
    number, _, verb, *words = line.split()
    given = {key: unquote(value) for key, value in (word.split("=", 1) for word in words)}
    answer = {"id": int(number), "code": "OK", "result": 0,
              "start_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}
    try:
        answer |= call(verb, given)
    except Exception as problem:  # whatever it is, the test is to see it
        answer |= {"code": "EXCEPTION", "message": repr(problem)}
    with output:
        answer["end_ns"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main() -> None:
    workers: dict[str, queue.Queue] = {}

    def work(lines: queue.Queue) -> None:
        while True:
            run(lines.get())

    for line in sys.stdin:
        thread, verb = line.split()[1:3]
        if verb == "quit":
            break
        if thread == "-":
            run(line)
            continue
        if thread not in workers:
            workers[thread] = queue.Queue()
            threading.Thread(target=work, args=(workers[thread],), daemon=True).start()
        workers[thread].put(line)


if __name__ == "__main__":
    main()
