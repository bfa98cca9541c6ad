"""The drop-in for redis-py's Lock, where redis-py's own tests do not look."""
from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

redis_py = pytest.importorskip("redis")
import redis.asyncio  # noqa: E402

import lockkeeper  # noqa: E402
from lockkeeper.compat.redis import Lock  # noqa: E402
from lockkeeper.compat.redis.asyncio import Lock as AsyncLock  # noqa: E402


@pytest.fixture
def theirs(server):
    with redis_py.Redis(unix_socket_path=server) as made:
        yield made


def test_both_exclude_each_other(theirs, redis):
    with theirs.lock("shared", timeout=10, lock_class=Lock):
        assert not theirs.lock("shared").acquire(blocking=False)
    with theirs.lock("shared", timeout=10):
        assert not theirs.lock("shared", lock_class=Lock).acquire(blocking=False)


def test_it_stays_when_it_is_collected(theirs, redis):
    """As there: a lock that nobody releases keeps others out until its end."""
    assert theirs.lock("limiter", timeout=10, lock_class=Lock).acquire()
    gc.collect()
    assert 8000 < int(redis("PTTL", "limiter")) <= 10000


def test_it_stays_when_the_program_ends(server, program, redis):
    with program(f"""
            import redis
            from lockkeeper.compat.redis import Lock
            theirs = redis.Redis(unix_socket_path={server!r})
            assert theirs.lock("job", timeout=10, lock_class=Lock).acquire()
            """) as process:
        assert process.wait(20) == 0, process.stderr.read()
    assert 8000 < int(redis("PTTL", "job")) <= 10000


def test_a_release_wakes_a_waiter(theirs, redis):
    """Long before it would ask again."""
    lock = theirs.lock("wakes", timeout=60, lock_class=Lock)
    assert lock.acquire()
    got = []

    def wait():
        other = theirs.lock("wakes", timeout=60, sleep=30, lock_class=Lock)
        other.acquire(blocking_timeout=60)
        got.append(time.monotonic())
        other.release()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # it waits by then, or gets the lock at once
    lock.release()
    thread.join(20)
    assert got


def test_a_token_set_by_hand(theirs, redis):
    """In another object, as programs do that release in another process."""
    first = theirs.lock("token", timeout=10, lock_class=Lock, thread_local=False)
    assert first.acquire()
    second = theirs.lock("token", timeout=10, lock_class=Lock, thread_local=False)
    second.local.token = first.local.token
    assert second.owned() and second.extend(20) and second.reacquire()
    second.release()
    assert not first.locked()


def test_a_chosen_token_is_refused(theirs, redis):
    with pytest.raises(lockkeeper.Invalid, match="token"):
        theirs.lock("chosen", lock_class=Lock).acquire(token="mine")


def test_errors_are_theirs(theirs, redis):
    redis("RPUSH", "list", "1")
    with pytest.raises(redis_py.exceptions.ResponseError):
        theirs.lock("list", lock_class=Lock).acquire(blocking=False)
    nowhere = redis_py.Redis(unix_socket_path="/nowhere", socket_connect_timeout=1)
    with pytest.raises(redis_py.exceptions.ConnectionError):
        nowhere.lock("x", lock_class=Lock).acquire(blocking=False)


@pytest.mark.parametrize("option", [{"ssl_cert_reqs": "none"}, {"ssl_check_hostname": False},
                                    {"ssl_ca_data": "x"}])
def test_what_cannot_be_done_is_named(option):
    client = redis_py.Redis(ssl=True, **option)
    with pytest.raises(lockkeeper.Invalid, match=next(iter(option))):
        client.lock("x", lock_class=Lock)


def test_tasks(server, redis):
    async def main():
        async with redis_py.asyncio.Redis(unix_socket_path=server) as client:
            inside = most = 0

            async def work():
                nonlocal inside, most
                async with client.lock("tasks", timeout=60, lock_class=AsyncLock):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    inside -= 1

            await asyncio.gather(*(work() for _ in range(200)))
            assert most == 1

    asyncio.run(main())
    assert redis("EXISTS", "tasks") == "0"
