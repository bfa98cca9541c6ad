"""The examples do what their first lines say."""
from __future__ import annotations

import signal
import subprocess

import pytest

from conftest import BUILD, run, until


@pytest.fixture
def start(server):
    made = []

    def begin(name, *arguments):
        made.append(subprocess.Popen([str(BUILD / f"examples/example-{name}"), *arguments],
                                     env={"LOCKKEEPER_URL": server.url}, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()


def hold(server, name):
    server.ask("HSET", name, "other:1", "1")
    server.ask("PEXPIRE", name, "60000")


def test_lock(start):
    process = start("lock")
    assert process.communicate(timeout=20) == ("alone at work\n", "")
    assert process.returncode == 0


def test_patience_granted(start):
    assert start("patience", "door", "5000").communicate(timeout=20) == ("granted\n", "")


@pytest.mark.parametrize("wait_ms", ["0", "300"])
def test_patience_ends(start, server, wait_ms):
    hold(server, "door")
    process = start("patience", "door", wait_ms)
    assert process.communicate(timeout=20)[0] == "somebody else has it\n"
    assert process.returncode == 1


def test_patience_is_cancelled(start, server):
    hold(server, "door")
    process = start("patience", "door", "60000")
    until("it waits", lambda: "door" in server.ask("PUBSUB", "CHANNELS"))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "cancelled\n"


def test_notice_done(start):
    assert start("notice", "bench", "5").communicate(timeout=20)[0] == "working\ndone\n"


def test_notice_of_a_lost_lock(start, server):
    process = start("notice", "bench", "100000")
    assert process.stdout.readline() == "working\n"
    server.ask("DEL", "bench")
    server.ask("PUBLISH", "redisson_lock__channel:{bench}", "0")
    # Heard at once where the library listens, else at the next renewal: a third of 30 s.
    out, error = process.communicate(timeout=30)
    assert out == "lost: bench\n" and "stopped: " in error
    assert process.returncode == 1


def test_relay(start, server):
    assert start("relay", "baton").communicate(timeout=20)[0] == "handed over and released\n"
    assert server.ask("EXISTS", "baton") == "0"


def test_run_needs_no_more_than_the_url(server):
    assert run(BUILD / "examples/example-lock", env={"LOCKKEEPER_URL": server.url})
