"""redis-py's Lock in the hands of a Python program: reads commands from stdin and runs each on the
named thread, made at first use ("-" is the reading thread), as tests/system/driver does for C.
"""
from __future__ import annotations

import json
import pathlib
import queue
import sys
import threading
import time
from urllib.parse import unquote

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "packages"))

import redis  # noqa: E402  (behind the path)
import redis.exceptions  # noqa: E402
from redis.lock import Lock  # noqa: E402

INVOKE, GRANTED, FAILED, RELEASE, RELEASED = range(1, 6)
SLEEP_S = 0.02  # between two tries
client: redis.Redis
locks: dict[tuple[str, str], Lock] = {}  # by thread and name
stops = 0
output = threading.Lock()


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Command:
    def __init__(self, line: str):
        number, self.thread, self.verb, *words = line.split()
        self.id = int(number)
        self.given = {key: unquote(value) for key, value in
                      (word.split("=", 1) for word in words)}

    def number(self, key: str, otherwise: int) -> int:
        return int(self.given.get(key, otherwise))


def acquire(command: Command, wait_ms: int) -> Lock | None:
    """A lock of its own for each acquire. None: not within `wait_ms` (-1: no limit)."""
    lock = client.lock(command.given["name"], timeout=command.number("lease", 30000) / 1000,
                       sleep=SLEEP_S, blocking=wait_ms != 0,
                       blocking_timeout=wait_ms / 1000 if wait_ms > 0 else None)
    return lock if lock.acquire() else None


def call(command: Command) -> dict:
    global client, stops
    verb, name = command.verb, command.given.get("name", "")
    if verb == "open":
        client = redis.Redis.from_url(command.given["url"])
        return {"version": redis.__version__}
    if verb == "clock":
        return {"value": now_ns()}
    if verb == "stress":
        return stress(command)
    if verb == "stop":
        stops += 1
        return {}
    if verb in ("acquire", "within", "try"):
        wait_ms = -1 if verb == "acquire" else command.number("wait", 0)
        lock = acquire(command, wait_ms)
        if not lock:
            return {"code": "LK_ETIMEDOUT" if wait_ms else "LK_EBUSY"}
        locks[command.thread, name] = lock
        return {"token": lock.local.token.decode()}
    lock = locks.get((command.thread, name)) or client.lock(name)
    if verb == "release":
        lock.release()
    elif verb == "extend":
        lock.extend(command.number("lease", 30000) / 1000, replace_ttl=True)
    elif verb == "is_locked":
        return {"result": int(lock.locked())}
    elif verb == "is_held":
        return {"result": int(lock.owned())}
    else:
        raise ValueError("unknown verb")
    return {}


def pair(command: Command, add, thread: int, attempt: int) -> bool:
    add(INVOKE, now_ns(), 0, thread, attempt)
    before = now_ns()
    lock = acquire(command, command.number("wait", -1))
    now = now_ns()
    if not lock:
        add(FAILED, now, 0, thread, attempt)
        return False
    # redis-py tells no deadline; the lease is far longer than what is held and waited here.
    deadline = before + command.number("lease", 30000) * 1_000_000
    add(GRANTED, now, deadline, thread, attempt)
    time.sleep(command.number("hold_us", 0) / 1e6)
    add(RELEASE, now_ns(), deadline, thread, attempt)
    lock.release()
    add(RELEASED, now_ns(), deadline, thread, attempt)
    return True


def stress(command: Command) -> dict:
    counts, begun = {"grants": 0, "failures": 0}, stops
    with open(command.given.get("history", "/dev/null"), "w") as file:
        def add(phase, time_ns, deadline_ns, thread, attempt):
            line = json.dumps({"phase": phase, "time_ns": time_ns, "deadline_ns": deadline_ns,
                               "thread": thread, "attempt": attempt}) + "\n"
            with output:
                file.write(line)

        def work(thread: int) -> None:
            for i in range(command.number("pairs", 1)):
                if stops != begun:
                    break
                granted = pair(command, add, thread, i)
                with output:
                    counts["grants" if granted else "failures"] += 1
                time.sleep(command.number("pause_us", 0) / 1e6)

        threads = [threading.Thread(target=work, args=(number,))
                   for number in range(command.number("threads", 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return counts


def run(command: Command) -> None:
    answer = {"id": command.id, "start_ns": now_ns(), "code": "OK", "result": 0}
    try:
        answer |= call(command)
    except redis.exceptions.LockError as problem:
        answer |= {"code": "LK_ENOTOWNER", "message": str(problem)}
    except Exception as problem:  # whatever it is, the test is to see it
        answer |= {"code": "EXCEPTION", "message": repr(problem)}
    with output:
        sys.stdout.write(json.dumps(answer | {"end_ns": now_ns()}) + "\n")
        sys.stdout.flush()


def main() -> None:
    workers: dict[str, queue.Queue] = {}

    def work(commands: queue.Queue) -> None:
        while True:
            run(commands.get())

    for line in sys.stdin:
        command = Command(line)
        if command.verb == "quit":
            break
        if command.thread == "-":
            run(command)
            continue
        if command.thread not in workers:
            workers[command.thread] = queue.Queue()
            threading.Thread(target=work, args=(workers[command.thread],), daemon=True).start()
        workers[command.thread].put(command)


if __name__ == "__main__":
    main()
