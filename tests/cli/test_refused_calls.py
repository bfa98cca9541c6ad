"""System calls that a filter refuses: the command does without them, or says so."""
from __future__ import annotations

import errno
import subprocess

import pytest

from command import BINARY, BUILD
from private import servers_in
from waiting import until

REFUSE = BUILD / "tests" / "cli" / "refuse"
ERRORS = [errno.ENOSYS, errno.EPERM]

pytestmark = pytest.mark.usefixtures("no_server_is_left")


def refused(bare, error, calls, *words):
    """Runs the command without those calls; what hangs fails here."""
    done = subprocess.run([REFUSE, str(error), *calls, "--", BINARY, *words], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                          env=bare.environment)
    if done.returncode == 77:
        pytest.skip(f"no filters here: {done.stderr}")
    return done


@pytest.mark.parametrize("error", ERRORS, ids=["ENOSYS", "EPERM"])
@pytest.mark.parametrize("calls", [["close_range"], ["pidfd_open", "pidfd_send_signal"],
                                   ["close_range", "pidfd_open"]], ids="-".join)
def test_the_private_server_starts(bare, folder, calls, error):
    done = refused(bare, error, calls, "run", "job", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert refused(bare, error, calls, "run", "-n", "job", "true").returncode == 0
    assert refused(bare, error, calls, "server", "stop", "--force").returncode == 0
    until(lambda: not servers_in(folder), 20, "the server has ended")


@pytest.mark.parametrize("error", ERRORS, ids=["ENOSYS", "EPERM"])
def test_a_script_is_renewed_for(cli, server, error):
    script = (f'owner=$({REFUSE} {error} close_range pidfd_open pidfd_send_signal -- {BINARY} '
              'lock --while $$ -l 2 job) && sleep 5 && lockkeeper unlock job "$owner"')
    done = subprocess.run(["sh", "-c", script], env=cli.environment, capture_output=True,
                          text=True, timeout=60)
    if "refuse: " in done.stderr:
        pytest.skip(f"no filters here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert server.call("EXISTS", "job") == 0


@pytest.mark.parametrize("call", ["signalfd4", "timerfd_create", "eventfd2", "epoll_create1"])
def test_what_is_needed_is_named(cli, server, call):
    """No command runs without its lock, and nothing hangs."""
    done = subprocess.run([REFUSE, str(errno.EPERM), call, "--", BINARY, "run", "job", "echo",
                           "ran"], env=cli.environment, capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip(f"no filters here: {done.stderr}")
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert "Operation not permitted" in done.stderr
    assert server.call("EXISTS", "job") == 0
