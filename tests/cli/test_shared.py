"""lockkeeper run --shared and --exclusive: many readers, or one writer."""
from __future__ import annotations

from waiting import until


def test_readers_run_together_and_a_writer_alone(cli, server):
    reader = cli.start("run", "--shared", "data", "sleep", "100")
    until(lambda: server.call("HGET", "data", "mode") == b"read", 20, "the reader has it")
    assert cli("run", "-n", "--shared", "data", "true").returncode == 0
    assert cli("run", "-n", "--exclusive", "data", "true").returncode == 124
    reader.terminate()
    assert cli("run", "-w", "20s", "--exclusive", "data", "true").returncode == 0
    assert server.call("EXISTS", "data") == 0


def test_a_writer_keeps_readers_out(cli, server):
    cli.start("run", "--exclusive", "data", "sleep", "100")
    until(lambda: server.call("HGET", "data", "mode") == b"write", 20, "the writer has it")
    assert cli("run", "-n", "--shared", "data", "true").returncode == 124


def test_another_kind_under_the_name_is_refused_and_both_are_named(cli, server):
    cli.start("run", "data", "sleep", "100")
    until(lambda: server.call("EXISTS", "data") == 1, 20, "the lock is held")
    result = cli("run", "-n", "--shared", "data", "true")
    assert result.returncode == 125
    assert "is a lock, not a read/write lock" in result.stderr


def test_break_frees_each_kind(cli, server):
    for kind in ("--shared", "--exclusive", "--fair", "--plain", "--fence"):
        held = cli.start("run", kind, "data", "sleep", "100")
        until(lambda: server.call("EXISTS", "data") == 1, 20, f"{kind} is held")
        assert cli("break", "--yes", "data").returncode == 0
        assert server.call("EXISTS", "data") == 0
        held.kill()
    assert cli("break", "--yes", "data").stderr == "lockkeeper: data was not locked\n"


def test_break_refuses_a_counter(cli):
    assert cli("sem", "set", "pool", "3").returncode == 0
    result = cli("break", "--yes", "pool")
    assert result.returncode == 125
    assert "which nobody holds as a whole" in result.stderr


def test_only_one_side_at_a_time(cli):
    result = cli("run", "--shared", "--exclusive", "data", "true")
    assert result.returncode == 125
    assert "--shared and --exclusive exclude each other" in result.stderr
