"""A forked child has a client of its own, and holds nothing of its parent's."""
from __future__ import annotations

import concurrent.futures
import faulthandler
import gc
import multiprocessing
import os
import threading

import pytest

import lockkeeper


def in_child(work):
    """Its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.dump_traceback_later(20, exit=True)
            work()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_hold_of_the_parent(client, redis):
    lock = client.lock("parent")

    def child():
        assert not hold.held
        for call in (hold.check, hold.remaining, hold.release, lambda: hold.extend(10)):
            with pytest.raises(lockkeeper.Forked):
                call()
        assert lock.locked() and lock.try_acquire() is None
        with client.lock("child").hold():
            assert redis("EXISTS", "child") == "1"

    with lock.hold() as hold:
        assert in_child(child) == 0
        hold.check()
        assert redis("EXISTS", "parent") == "1"
    assert redis("EXISTS", "parent") == "0"


def test_a_child_keeps_no_descriptor_of_its_parent(client):
    """Those of the parent's client go when the child makes its own, which has as many."""
    with client.lock("descriptors").hold():
        before = len(os.listdir("/proc/self/fd"))

        def child():
            assert not client.lock("descriptors").try_acquire()
            gc.collect()
            assert len(os.listdir("/proc/self/fd")) <= before

        assert in_child(child) == 0


def test_a_child_that_leaves_the_block(client, redis):
    child = None
    with client.lock("block").hold():
        child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert redis("EXISTS", "block") == "0"


def test_the_block_of_the_parent_survives(client, redis):
    with client.lock("survives").hold() as hold:
        def child():
            hold.__exit__(None, None, None)
        assert in_child(child) == 0
        assert redis("EXISTS", "survives") == "1"


def test_while_threads_are_at_work(client):
    """Each child acquires and releases; the parent goes on unharmed."""
    over = threading.Event()

    def work(number):
        while not over.is_set():
            with client.lock(f"busy {number % 2}").hold():
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        def child():
            with client.lock("busy 0").hold(wait=20):
                pass
            with client.semaphore("pool", 2).hold(wait=20):
                pass
        assert [in_child(child) for _ in range(15)] == [0] * 15
    finally:
        over.set()
        for thread in threads:
            thread.join()


def one_more(url):
    client = lockkeeper.Client(url)
    with client.lock("pool").hold(wait=20):
        return 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes(server, client, method):
    client.ping()
    with concurrent.futures.ProcessPoolExecutor(
            2, multiprocessing.get_context(method)) as pool:
        assert sum(pool.map(one_more, [f"unix://{server}"] * 6)) == 6
