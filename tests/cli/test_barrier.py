"""lockkeeper barrier: who gets through, what is printed, and who is not counted any more."""
from __future__ import annotations

import signal

from waiting import until


def parties(server) -> int:
    """How many wait."""
    words = server.call("HVALS", "step")
    return sum(word.startswith(b"await ") for word in words)


def test_all_get_the_same_generation(cli, server):
    others = [cli.start("barrier", "step", "3") for _ in range(2)]
    until(lambda: parties(server) == 2, what="two wait")
    last = cli("barrier", "-n", "step", "3")
    assert last.returncode == 0
    generation = int(last.stdout)
    for other in others:
        out, _ = other.communicate(timeout=20)
        assert other.returncode == 0 and int(out) == generation
    again = cli("barrier", "step", "1")
    assert int(again.stdout) > generation


def test_not_in_time(cli, server):
    assert cli("barrier", "-n", "step", "2").returncode == 124
    late = cli("barrier", "-w", "50ms", "step", "2")
    assert late.returncode == 124 and "others have not come" in late.stderr
    assert parties(server) == 0
    for wrong in ("0", "1001", "x"):
        assert cli("barrier", "step", wrong).returncode == 125
    assert cli("barrier", "-n", "-w", "1s", "step", "2").returncode == 125


def test_one_that_is_ended_by_a_signal_is_not_counted(cli, server):
    waits = cli.start("barrier", "step", "2")
    until(lambda: parties(server) == 1, what="it waits")
    waits.send_signal(signal.SIGTERM)
    waits.communicate(timeout=20)
    assert waits.returncode == -signal.SIGTERM
    assert parties(server) == 0
    assert cli("barrier", "-n", "step", "2").returncode == 124
    waits = cli.start("barrier", "step", "3")
    until(lambda: parties(server) == 1, what="it waits")
    other = cli("barrier", "-w", "1s", "step", "2")
    assert other.returncode == 125 and "another number" in other.stderr
    waits.send_signal(signal.SIGINT)
    waits.communicate(timeout=20)
