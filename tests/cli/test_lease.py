"""The lease and the command's processes: none of them outlives it, whatever happens to us."""
from __future__ import annotations

import os
import signal
import time

import pytest

from command import Tree, guard_of, state_of
from waiting import never, until

LEASE_MS = 3000

# A shell and what it started: one that ignores SIGTERM, one in a session of its own, three whose
# parent is gone, and one that is stopped.
STUBBORN = """
trap '' TERM
sleep 300 &
setsid sleep 301 &
(setsid sh -c 'trap "" TERM HUP; sleep 302 & sleep 303 & wait; wait' &)
sleep 304 & kill -STOP $!
wait; wait; wait
"""
SIZE = 7


@pytest.fixture
def tree():
    made = Tree()
    yield made
    made.kill()


def start(cli, tree, *options, script=STUBBORN, size=SIZE):
    process = cli.start("run", "-l", f"{LEASE_MS}ms", *options, "job", *tree.line(script))
    tree.await_size(size)
    return process


def await_fresh_lease(server) -> float:
    """Just after a renewal, a good while before the next: the instant when the lease ends."""
    def fresh():
        ttl = server.call("PTTL", "job")
        return time.monotonic() + ttl / 1000 if LEASE_MS * 0.8 < ttl < LEASE_MS * 0.98 else None
    return until(fresh, 20, "a lease that was renewed just now")


def assert_ended_before(tree, end: float):
    tree.await_end(max(end - time.monotonic(), 0) + 5)
    assert time.monotonic() < end, f"{time.monotonic() - end:.3f} s too late"


def test_a_server_that_hangs_ends_all_processes_before_the_lease(cli, server, tree):
    process = start(cli, tree)
    end = await_fresh_lease(server)
    server.pause()
    assert_ended_before(tree, end)
    assert process.wait(30) == 123
    assert "cannot be renewed: ending the command (/" in (said := process.stderr.read())
    # the connection for renewals may have been about to be made
    assert "no answer yet)" in said or "no answer to the greeting yet)" in said
    server.resume()


@pytest.mark.parametrize("refuse, allow, words", [
    (("CONFIG", "SET", "min-replicas-to-write", "1"),
     ("CONFIG", "SET", "min-replicas-to-write", "0"), "NOREPLICAS"),
    (("ACL", "SETUSER", "default", "-evalsha"),
     ("ACL", "SETUSER", "default", "+evalsha"), "NOPERM"),
], ids=["replicas", "rights"])
def test_it_says_what_a_renewal_met(cli, server, tree, refuse, allow, words):
    process = start(cli, tree, "-v")
    server.call(*refuse)
    tree.await_end(LEASE_MS / 1000 + 5)
    assert process.wait(30) == 123
    server.call(*allow)
    said = process.stderr.read()
    assert "the lease of job is about to end: /" in said and words in said, said
    ended = next(line for line in said.splitlines() if "cannot be renewed" in line)
    assert words in ended, said


def test_signal_then_grace_then_kill(cli, server, tree, folder):
    said, gone = folder / "said", folder / "gone"
    script = f"trap 'date +%s.%N > {said}' USR1; " \
             f"while :; do date +%s.%N >> {gone}; sleep 0.02; done"
    process = start(cli, tree, "-s", "USR1", "-k", "1s", script=script, size=1)
    end = await_fresh_lease(server)
    wall = time.time() - time.monotonic()
    server.pause()
    assert_ended_before(tree, end)
    told = float(said.read_text())
    last = float(gone.read_text().rsplit("\n", 2)[-2])  # what follows may be half a line
    assert last - told > 0.8, "it had its grace"
    assert told < end + wall - 1.0, "SIGNAL came a grace before the end"
    assert process.wait(30) == 123
    server.resume()


def test_a_command_that_ends_on_the_signal_is_not_killed(cli, server, tree, folder):
    said = folder / "said"
    process = start(cli, tree, script=f"trap 'echo cleaned > {said}; exit 0' TERM; "
                    "while :; do sleep 0.05; done", size=1)
    server.pause()
    tree.await_end(LEASE_MS / 1000 + 5)
    assert said.read_text() == "cleaned\n"
    assert process.wait(30) == 123, "its own 0 would hide that the lock was lost"
    server.resume()


def test_a_lock_that_was_broken_ends_all_at_once_with_kill(cli, server, tree, folder):
    said = folder / "said"
    script = STUBBORN.replace("trap '' TERM", f"trap 'touch {said}' TERM")
    process = start(cli, tree, "-k", "1s", script=script)
    end = await_fresh_lease(server)
    assert cli("break", "--yes", "job").returncode == 0
    tree.await_end(LEASE_MS / 1000)
    assert process.wait(20) == 123
    assert "the lock was lost, last confirmed by /" in process.stderr.read()
    assert not said.exists(), "no SIGNAL and no grace for what others may own by now"
    assert time.monotonic() < end


def test_a_lock_of_the_next_owner_is_left_alone(cli, server, tree):
    process = start(cli, tree)
    server.call("DEL", "job")
    server.call("HSET", "job", "thief:1", "1")
    server.call("PEXPIRE", "job", "60000")
    tree.await_end(LEASE_MS / 1000 + 5)
    assert process.wait(20) == 123
    assert server.holders("job") == {b"thief:1": b"1"}


def test_lockkeeper_killed_ends_all_in_time(cli, server, tree):
    process = start(cli, tree)
    end = await_fresh_lease(server)
    process.kill()
    assert_ended_before(tree, end)


def test_lockkeeper_killed_ends_all_at_once_however_long_the_lease(cli, tree):
    process = start(cli, tree, "-l", "1h", "-k", "200ms")
    process.kill()
    tree.await_end(20)


def test_lockkeeper_stopped_ends_all_in_time(cli, server, tree):
    process = start(cli, tree)
    end = await_fresh_lease(server)
    process.send_signal(signal.SIGSTOP)
    assert_ended_before(tree, end)
    process.send_signal(signal.SIGCONT)
    assert process.wait(20) == 123


def test_the_guard_killed_ends_all_at_once(cli, server, tree):
    process = start(cli, tree)
    end = await_fresh_lease(server)
    os.kill(guard_of(process), signal.SIGKILL)
    assert_ended_before(tree, end)
    assert process.wait(20) == 125
    assert "guard was killed" in process.stderr.read()
    assert server.call("EXISTS", "job") == 0


def test_the_guard_stopped_while_the_server_hangs(cli, server, tree):
    process = start(cli, tree)
    end = await_fresh_lease(server)
    os.kill(guard_of(process), signal.SIGSTOP)
    server.pause()
    assert_ended_before(tree, end)
    assert process.wait(30) == 123, "its lease was about to end"
    assert "guard did not end the command in time" in process.stderr.read()
    server.resume()


def test_a_guard_that_a_freeze_made_late_does_not_hide_the_loss(cli, server, tree):
    """Both were frozen until after the lease, and the keeper is the first to go on."""
    process = start(cli, tree, script="sleep 300", size=1)
    guard = guard_of(process)
    for pid in (process.pid, guard):
        os.kill(pid, signal.SIGSTOP)
    until(lambda: not server.call("EXISTS", "job"), 30, "the lease is over")
    os.kill(process.pid, signal.SIGCONT)
    tree.await_end(10)
    assert process.wait(20) == 123
    assert "lost" in process.stderr.read()


def test_a_tree_that_keeps_growing_is_ended_in_time(cli, server, tree):
    script = "trap '' TERM; while :; do setsid sh -c 'sleep 9 & sleep 9' & sleep 0.01; done"
    process = start(cli, tree, script=script, size=20)
    end = await_fresh_lease(server)
    server.pause()
    assert_ended_before(tree, end)
    assert process.wait(30) == 123
    server.resume()


def test_a_lock_within_a_lost_lock_ends_too(cli, server, tree):
    inner = "lockkeeper run inner sh -c 'setsid sleep 300 & sleep 301'"
    start(cli, tree, script=inner, size=5)
    assert server.call("EXISTS", "inner")
    assert cli("break", "--yes", "job").returncode == 0
    tree.await_end(LEASE_MS / 1000 + 5)


def test_a_short_hang_of_the_server_harms_nobody(cli, server, tree):
    process = start(cli, tree, script="sleep 6; exit 7", size=1)
    await_fresh_lease(server)
    server.pause()
    time.sleep(LEASE_MS / 1000 * 0.25)
    server.resume()
    assert process.wait(30) == 7, process.stderr.read()


def test_a_short_stop_of_lockkeeper_harms_nobody(cli, server, tree):
    process = start(cli, tree, script="sleep 6; exit 7", size=1)
    await_fresh_lease(server)
    process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_MS / 1000 * 0.25)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 7, process.stderr.read()


def test_an_unknown_release_keeps_the_commands_status_and_warns(cli, server, tree, folder):
    done = folder / "done"
    process = start(cli, tree, script=f"while [ ! -e {done} ]; do sleep 0.02; done; exit 7", size=1)
    await_fresh_lease(server)
    server.pause()
    done.touch()
    assert process.wait(40) == 7
    assert "unknown" in process.stderr.read()
    server.resume()


@pytest.mark.parametrize("end", ["limit", "signal"])
def test_a_release_ends_before_a_long_lease_does(cli, server, tree, folder, end):
    done = folder / "done"
    process = start(cli, tree, "-l", "1h",
                    script=f"while [ ! -e {done} ]; do sleep 0.02; done; exit 7", size=1)
    server.pause()
    done.touch()
    tree.await_end(10)
    if end == "signal":
        time.sleep(1.5)  # one that comes at once belongs to what ended the command
        process.terminate()
    assert process.wait(30 if end == "limit" else 5) == 7
    assert "unknown" in process.stderr.read()
    server.resume()


def test_a_lease_that_ends_while_it_is_broken(cli, server, tree):
    """SIGNAL was sent, and now the lock is gone: the grace is over at once."""
    process = start(cli, tree, "-l", "10s", "-k", "5s")
    process.send_signal(signal.SIGSTOP)
    until(lambda: server.call("PTTL", "job") < 5200, 30, "the guard has begun")
    assert tree.pids()
    server.call("DEL", "job")  # before it goes on: its first renewal finds nothing
    process.send_signal(signal.SIGCONT)
    tree.await_end(3)
    assert process.wait(20) == 123


def test_a_lock_found_lost_at_the_release_gives_123(cli, server, tree, folder):
    done = folder / "done"
    process = cli.start("run", "job", *tree.line(f"while [ ! -e {done} ]; do sleep 0.02; done"))
    until(lambda: server.call("EXISTS", "job"), 10, "the lock is held")
    server.call("DEL", "job")
    done.touch()
    assert process.wait(20) == 123
    assert process.stderr.read() != ""


def test_no_process_of_ours_is_left(cli, server, tree):
    process = start(cli, tree, script="sleep 0.3", size=1)
    guard = guard_of(process)
    assert process.wait(20) == 0
    never(lambda: os.path.exists(f"/proc/{guard}"), 0.2, "the guard has ended before lockkeeper")


def test_the_guard_survives_signals_that_end_others(cli, server, tree):
    process = start(cli, tree, script="sleep 2; exit 7", size=1)
    guard = guard_of(process)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP,
                   signal.SIGUSR1, signal.SIGALRM, signal.SIGPIPE):
        os.kill(guard, number)
    assert process.wait(20) == 7
    assert state_of(os.getpid()) == "R"
