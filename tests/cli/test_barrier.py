"""lockkeeper barrier: who gets through, what is printed, and who is not counted any more."""
from __future__ import annotations

import json
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
    assert other.returncode == 125 and "others are here, to be 3" in other.stderr
    waits.send_signal(signal.SIGINT)
    waits.communicate(timeout=20)


def test_who_stands_there_is_shown_and_can_be_broken(cli, server):
    assert cli("show", "step").returncode == 3
    waits = [cli.start("barrier", "step", "3") for _ in range(2)]
    until(lambda: parties(server) == 2, what="two wait")
    lines = cli("ls").stdout.splitlines()[1:]
    assert len(lines) == 2 and all(line.startswith("step\tbarrier\t") for line in lines)
    shown = cli("show", "step")
    assert shown.returncode == 0 and "state: 2 waiting, 0 inside" in shown.stdout
    assert "parties: 3" in shown.stdout and shown.stdout.count("\nsince: ") == 2
    told = json.loads(cli("show", "--json", "step").stdout)
    assert told["type"] == "barrier" and told["parties"] == 3
    seconds, micros = map(int, server.call("TIME"))
    for party in told["holders"]:
        assert party["role"] == "waits" and 0 < party["ttl_ms"] <= 30000
        assert 0 <= seconds * 1000 + micros // 1000 - party["since_ms"] < 60000
    assert cli("wait", "-n", "step").returncode == 124
    assert "is a barrier" in cli("run", "-n", "step", "true").stderr
    assert cli("break", "--yes", "step").returncode == 0
    for party in waits:
        _, error = party.communicate(timeout=20)
        assert party.returncode == 123 and "the barrier was broken" in error
    assert cli("show", "step").returncode == 3 and cli("wait", "-n", "step").returncode == 0
    assert "nobody stood at step" in cli("break", "--yes", "step").stderr
    assert int(cli("barrier", "step", "1").stdout) > 0
    assert "newest generation: " in cli("show", "step").stdout


def test_what_is_no_barrier_is_left_alone(cli, server):
    server.call("HSET", "data", "parties", "3", "colour", "red")
    server.call("HSET", "lock", "12345678-1234-4234-8234-123456789abc:1", "1")
    server.call("SET", "count", "3")
    for name, said in (("data", "a hash, not a barrier"), ("lock", "lock is a lock"),
                       ("count", "a string, not a barrier")):
        tried = cli("barrier", "-w", "5s", name, "2")
        assert tried.returncode == 125 and said in tried.stderr, tried.stderr
    assert server.call("HLEN", "data") == 2


INSIDE = ("barrier", "-l", "1s", "step", "2", "--", "sh", "-c")


def test_commands_run_inside_together(cli, server):
    first = cli.start(*INSIDE, "echo $LOCKKEEPER_GENERATION; exit 3")
    until(lambda: server.call("HLEN", "step") == 2, what="one waits")
    assert "state: 1 waiting, 0 inside" in cli("show", "step").stdout
    second = cli(*INSIDE, "echo $LOCKKEEPER_GENERATION; exit 4")
    out, _ = first.communicate(timeout=20)
    assert (first.returncode, second.returncode) == (3, 4)
    assert int(out) == int(second.stdout) > 0
    assert cli("show", "step").returncode == 3


def test_all_leave_together(cli, folder):
    """Who has left waits for the others; a signal ends that, and the place stays left."""
    done, go = folder / "done", folder / "go"
    soon, hasty = (cli.start("barrier", "step", "3", "--", "true") for _ in range(2))
    slow = cli.start("barrier", "step", "3", "--", "sh", "-c",
                     f"until test -e {go}; do sleep 0.05; done; touch {done}")
    until(lambda: "state: 0 waiting, 1 inside" in cli("show", "step").stdout, what="two have left")
    until(lambda: cli("show", "step").stdout.count("has left") == 2, what="they wait")
    hasty.send_signal(signal.SIGTERM)
    hasty.communicate(timeout=20)
    assert hasty.returncode == 128 + signal.SIGTERM and soon.poll() is None
    go.touch()
    soon.communicate(timeout=20), slow.communicate(timeout=20)
    assert soon.returncode == slow.returncode == 0 and done.exists()


def test_a_place_inside_that_is_broken_ends_its_command(cli, server):
    inside = [cli.start(*INSIDE, "exec sleep 60") for _ in range(2)]
    until(lambda: "2 inside" in cli("show", "step").stdout, what="both are inside")
    assert cli("break", "--yes", "step").returncode == 0
    for party in inside:
        _, error = party.communicate(timeout=20)
        assert party.returncode == 123 and "not inside any more" in error


def test_one_that_is_killed_inside_counts_as_having_left(cli):
    killed = cli.start(*INSIDE, "exec sleep 60")
    other = cli.start(*INSIDE, "exec sleep 0.1")
    until(lambda: "1 inside" in cli("show", "step").stdout, what="the other has left")
    killed.kill()
    killed.communicate(timeout=20)
    other.communicate(timeout=20)
    assert other.returncode == 0
