"""Locks from threads: with, limits, owners, losses, what is given back."""
from __future__ import annotations

import gc
import queue
import threading
import time

import pytest

import lockkeeper


def test_with(client, other, redis):
    lock = client.lock("backup")
    with lock.hold(wait=10) as hold:
        assert hold.held and 0 < hold.remaining() <= 1.5
        hold.check()
        assert redis("HGET", "backup", hold.field) == "1"
        assert other.lock("backup").locked()
        with pytest.raises(lockkeeper.Busy):
            with other.lock("backup").hold(wait=0):
                pass
    assert redis("EXISTS", "backup") == "0" and not hold.held
    with pytest.raises(lockkeeper.NotOwner):
        hold.remaining()


def test_a_limit(client, other):
    with client.lock("limit").hold():
        begun = time.monotonic()
        with pytest.raises(TimeoutError) as raised:
            other.lock("limit").acquire(wait=0.2)
        assert time.monotonic() - begun >= 0.2
        assert raised.value.name == "LK_ETIMEDOUT" and raised.value.retryable
        assert other.lock("limit").try_acquire() is None


@pytest.mark.parametrize("wait", [-1, float("nan"), -0.5])
def test_a_wait_that_is_none(client, wait):
    with pytest.raises(ValueError):
        client.lock("wrong").hold(wait)


def test_each_hold_has_an_owner(client):
    lock = client.lock("own")
    with lock.hold():
        assert lock.try_acquire() is None


def test_the_same_owner_reenters(client, redis):
    lock = client.lock("again")
    with lock.hold(owner="me") as first:
        with lock.hold(owner="me"):
            assert lock.try_acquire(owner="you") is None
        first.check()
    assert redis("EXISTS", "again") == "0"
    with lock.hold(owner=lockkeeper.thread_owner()):
        with lock.hold(0, owner=lockkeeper.thread_owner()):
            pass


def test_a_hold_moves_between_threads(client, redis):
    hold = client.lock("moves").acquire()
    thread = threading.Thread(target=hold.release)
    thread.start()
    thread.join()
    assert redis("EXISTS", "moves") == "0"


def test_a_collected_hold_is_given_back(client, redis, eventually):
    hold = client.lock("collected").acquire()
    assert redis("EXISTS", "collected") == "1"
    del hold
    gc.collect()
    eventually(lambda: redis("EXISTS", "collected") == "0")


CYCLE = """
import gc
class Job:
    def __init__(self, client, name):
        self.me, self.client, self.lock = self, client, client.lock(name)
        self.hold = self.lock.acquire(wait=5)
        self.hold.job = self
"""


def test_holds_among_what_the_collector_finds(program, redis, eventually):
    """Whatever it takes first: the hold, its lock, or the client of both."""
    done = program(CYCLE + """
for i in range(40):
    Job(client, f"cycle-{i}")
    Job(lockkeeper.Client(client.node), f"other-{i}")
    gc.collect()
print("alive")
input()
""", stdin=True)
    assert done.stdout.readline() == "alive\n"
    eventually(lambda: redis("KEYS", "cycle-*") == "")
    done.communicate("\n", timeout=20)
    assert done.returncode == 0


def test_a_program_ends_with_holds_among_such_objects(program, redis):
    done = program(CYCLE + """
jobs = [Job(client, f"end-{i}") for i in range(40)]
again = lambda: jobs
""")
    said = done.communicate(timeout=20)
    assert done.returncode == 0, said
    assert redis("KEYS", "end-*") == ""


def test_a_loss(client, redis, eventually):
    told = queue.SimpleQueue()
    with pytest.raises(lockkeeper.Lost):
        with client.lock("lost").hold(on_lost=told.put) as hold:
            redis("DEL", "lost")
            notice = told.get(timeout=10)
            assert notice.type == "lost" and notice.name == b"lost"
            assert notice.code == -7 and "lost" in notice.text()
            with pytest.raises(lockkeeper.Lost):
                hold.check()


def test_a_loss_behind_another_exception(client, redis, eventually):
    with pytest.raises(lockkeeper.Lost) as raised:
        with client.lock("both").hold() as hold:
            redis("DEL", "both")
            eventually(lambda: not hold.held)
            raise KeyError("body")
    assert isinstance(raised.value.__context__, KeyError)


def test_what_on_lost_raises_is_reported(client, redis, monkeypatch, eventually):
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def broken(notice):
        raise RuntimeError("mine")

    hold = client.lock("hook").acquire(on_lost=broken)
    redis("DEL", "hook")
    eventually(lambda: seen)
    assert seen[0].exc_type is RuntimeError
    with pytest.raises(lockkeeper.Lost):
        hold.release()


def test_notices(client, redis):
    stream = iter(client.notices())
    threading.Timer(0.3, lambda: redis("DEL", "noticed")).start()
    with pytest.raises(lockkeeper.Lost):
        with client.lock("noticed").hold():
            while next(stream).type != "lost":
                pass
    client.close()
    assert list(stream) == []


def test_extend_and_lease(client):
    with client.lock("lease").hold(lease=0.5) as hold:
        assert hold.remaining() <= 0.5
        hold.extend(60)
        assert hold.remaining() > 50


def test_a_lease_out_of_range(client):
    with pytest.raises(lockkeeper.Invalid, match="lease_ms"):
        client.lock("short").acquire(lease=0.01)


def test_keep(client, other):
    hold = client.lock("kept").acquire()
    hold.release(keep=30)
    assert other.lock("kept").try_acquire() is None
    assert other.lock("kept").force_release()


def test_a_hold_goes_on_elsewhere(client, other, redis):
    hold = client.lock("handed").acquire()
    field = hold.field
    with pytest.raises(lockkeeper.Busy), client.lock("handed").adopt(field):
        pass
    hold.abandon()
    assert not hold.held and other.lock("handed").try_acquire() is None
    with other.lock("handed").adopt(field) as adopted:
        assert adopted.field != field and redis("HGET", "handed", adopted.field) == "1"
    assert redis("EXISTS", "handed") == "0"
    with pytest.raises(lockkeeper.NotOwner), other.lock("handed").adopt(field):
        pass


def test_fields(client, other, redis):
    hold = client.lock("field").acquire()
    lock = other.lock("field")
    assert lock.held_by(hold.field) and lock.server_ttl() <= 1.5
    lock.extend_field(hold.field, 60)
    assert lock.server_ttl() > 50
    lock.release_field(hold.field)
    assert lock.server_ttl() is None
    with pytest.raises(lockkeeper.Lost):
        hold.release()


def test_close_wakes_waiters(server, other):
    client = lockkeeper.Client(f"unix://{server}")
    failed = queue.SimpleQueue()

    def waits():
        try:
            client.lock("closed").acquire()
        except lockkeeper.Error as error:
            failed.put(error)

    with other.lock("closed").hold():
        thread = threading.Thread(target=waits)
        thread.start()
        time.sleep(0.1)  # some way into the wait; any point will do
        client.close()
        thread.join(10)
    assert isinstance(failed.get(timeout=10), (lockkeeper.Closed, lockkeeper.MayBeHeld))


def test_errors():
    with pytest.raises(lockkeeper.Invalid, match="url"):
        lockkeeper.Client("nonsense")
    with pytest.raises(ValueError):
        lockkeeper.Client("redis://127.0.0.1", no_such_option=1)
    with pytest.raises(ConnectionError):
        lockkeeper.Client("unix:///nowhere").ping()


def test_every_code_has_a_class():
    from lockkeeper import _errors
    from lockkeeper._lockkeeper import ffi, lib
    codes = {value for value, name in ffi.typeof("enum lk_error_code").elements.items()}
    unused = {0, lib.LK_EPENDING, lib.LK_EBLOCKING, lib.LK_EPROCESSING}
    assert codes - unused == set(_errors._CLASSES)


def test_many_threads(client):
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(100):
            with client.lock("hot").hold():
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_the_log(server, caplog):
    import logging
    caplog.set_level(logging.DEBUG, "locks")
    with lockkeeper.Client(f"unix://{server}", log=logging.getLogger("locks")) as client:
        with client.lock("logged").hold():
            pass
    del client
    gc.collect()
    assert any("logged" in line for line in caplog.messages)


def test_credentials(server, redis):
    redis("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    asked = []

    def credentials(place):
        asked.append(place)
        return "worker", "secret"

    with lockkeeper.Client(f"unix://{server}", credentials=credentials) as client:
        client.ping()
    assert asked == [server]
    redis("ACL", "DELUSER", "worker")
