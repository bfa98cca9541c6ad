"""Ctrl-C, other signals, and the end of the program."""
from __future__ import annotations

import os
import signal
import time

import pytest

import lockkeeper

BLOCKING = {
    "lock": "client.lock('held').acquire(wait=60)",
    "lock without a limit": "client.lock('held').acquire()",
    "fair lock": "client.fair_lock('held').acquire(wait=60)",
    "semaphore": "client.semaphore('nothing').acquire()",
    "permit": "client.permit_semaphore('none').hold(60).__enter__()",
    "latch": "client.latch('shut').wait()",
    "notices": "next(iter(client.notices()))",
    "task": """
import asyncio
async def main():
    async with client.lock('held').hold(wait=60): pass
asyncio.run(main())""",
}


@pytest.mark.parametrize("what", BLOCKING)
def test_ctrl_c(what, other, program):
    other.latch("shut").try_set(1)
    with other.lock("held").hold(), program(
            "print('ready', flush=True)\n" + BLOCKING[what]) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)  # some way into the call; any point will do
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
        assert process.returncode != 0


def test_a_handler_that_returns(client, other):
    """The wait goes on, and the handler may use the library."""
    seen = []

    def handler(number, frame):
        with client.lock("inside").hold(wait=5):
            seen.append(number)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with other.lock("waited").hold():
            with pytest.raises(lockkeeper.Busy):
                client.lock("waited").acquire(wait=0.5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) >= 3


def test_no_hold_is_forgotten(client, redis, eventually):
    """Signals that meet acquires at every point."""
    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    lock, met, went = client.lock("storm"), 0, 0
    until = time.monotonic() + 1.5
    try:
        while time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00002 + (went + met) % 40 * 0.00001)
                with lock.hold():
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
                went += 1
            except KeyboardInterrupt:
                met += 1
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert met > 10
    eventually(lambda: redis("EXISTS", "storm") == "0")


def test_exit_while_holding(program, redis):
    with program("hold = client.lock('exit').acquire()\nprint(hold.held)") as process:
        assert process.communicate(timeout=20)[0] == "True\n" and process.returncode == 0
    assert redis("EXISTS", "exit") == "0"


def test_exit_while_a_thread_waits(program, other):
    with other.lock("busy").hold(), program("""
            import threading, time
            threading.Thread(target=client.lock('busy').acquire, daemon=True).start()
            hold = client.lock('mine').acquire(on_lost=print)
            time.sleep(0.2)
            """) as process:
        process.communicate(timeout=20)
        assert process.returncode == 0


def test_killed_while_holding(program, redis):
    """Its lease keeps the lock until it ends."""
    with program("hold = client.lock('killed').acquire()\nprint(1, flush=True)\nwhile 1: pass"
                 ) as process:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert 0 < int(redis("PTTL", "killed")) <= 30000
