"""Every kind of lock, permits and latches, from threads."""
from __future__ import annotations

import threading

import pytest

import lockkeeper

KINDS = ["lock", "fair_lock", "fenced_lock", "spin_lock", "plain_lock", "write_lock"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_owner(client, other, kind):
    with getattr(client, kind)(kind).hold():
        with pytest.raises(lockkeeper.Busy):
            getattr(other, kind)(kind).acquire(0.05)
    with getattr(other, kind)(kind).hold(wait=1):
        pass


def test_fence(client):
    lock = client.fenced_lock("fence")
    with lock.hold() as first:
        older = first.fence
    with lock.hold() as second:
        assert second.fence > older
        client.fence_check("guarded", second.fence)
    with pytest.raises(lockkeeper.StaleToken):
        client.fence_check("guarded", older)


def test_readers(client, other):
    with client.read_lock("rw").hold(), other.read_lock("rw").hold(wait=1):
        assert client.write_lock("rw").try_acquire() is None


def test_plain_notify(client):
    with client.plain_lock("plain:1", poll=0.05, notify="spring").hold():
        pass


def test_multi(client, redis):
    with lockkeeper.multi_lock(client.lock("m1"), client.lock("m2")).hold(wait=1):
        assert redis("EXISTS", "m1", "m2") == "2"
    assert redis("EXISTS", "m1", "m2") == "0"


def test_red_needs_independent_servers(client, other):
    with pytest.raises(lockkeeper.Invalid):
        lockkeeper.red_lock([client, other], "red")


def test_semaphore(client, other):
    pool = client.semaphore("pool", 2)
    with pool.hold(2, wait=1):
        with pytest.raises(lockkeeper.Busy):
            other.semaphore("pool").acquire(1, 0.05)
    assert pool.available() == 2
    pool.add(1)
    assert pool.drain() == 3 and pool.delete()
    assert pool.try_set(5) and not pool.try_set(6)


def test_permits(client, redis, eventually):
    pool = client.permit_semaphore("permits", 1)
    with pool.hold(wait=1) as permit:
        assert len(permit.id) == 32 and permit.remaining() > 0
        assert pool.count() == (0, 1)
        with pytest.raises(lockkeeper.Busy):
            pool.hold(wait=0.05).__enter__()
    assert pool.count() == (1, 0)
    lost = threading.Event()
    with pytest.raises(lockkeeper.Lost):
        with pool.hold(wait=1, on_lost=lambda notice: lost.set()):
            redis("DEL", "{permits}:timeout")
            assert lost.wait(10)


def test_a_collected_permit_is_given_back(client):
    pool = client.permit_semaphore("given", 1)
    permit = pool.hold(wait=1).__enter__()
    assert pool.count() == (0, 1)
    del permit
    assert pool.count() == (1, 0)


def test_latch(client, other):
    latch = client.latch("ready")
    assert latch.try_set(2) and latch.count() == 2
    with pytest.raises(lockkeeper.Busy):
        latch.wait(0.05)
    thread = threading.Thread(target=other.latch("ready").wait, args=(10,))
    thread.start()
    assert latch.count_down() == 1 and latch.count_down() == 0
    thread.join(10)
    assert not thread.is_alive() and not latch.delete()


def test_barrier(client, other):
    first, second = client.barrier("step", 2), other.barrier("step", 2)
    with pytest.raises(lockkeeper.Busy):
        first.wait(0.05)
    met = []
    thread = threading.Thread(target=lambda: met.append((second.wait(10), second.enter(10))))
    thread.start()
    own = (first.wait(10), first.enter(10))
    thread.join(10)
    assert met == [own] and own[0] < own[1]
    with pytest.raises(lockkeeper.Busy):
        first.leave(0.05)
    second.leave(10)
    first.leave(10)


def test_drain(client, other):
    lock, wanted = client.lock("own"), client.lock("wanted")
    failed = []

    def wait():
        try:
            wanted.hold(wait=20).__enter__()
        except lockkeeper.Draining as error:
            failed.append(error)

    with other.lock("wanted").hold(wait=1), lock.hold(wait=1):
        thread = threading.Thread(target=wait)
        thread.start()
        held = client.drain(0.05)
        thread.join(10)
        assert [(one.kind, one.name, one.renewed) for one in held] == [("lock", "own", True)]
        assert held[0].since < held[0].deadline and len(failed) == 1
        with pytest.raises(lockkeeper.Draining):
            client.lock("more").hold(wait=0).__enter__()
    assert client.drain(5) == [] and client.held() == []
