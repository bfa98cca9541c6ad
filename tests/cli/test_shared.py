"""lockkeeper run --shared and --exclusive: many readers, or one writer."""
from __future__ import annotations

import contextlib
import subprocess

from command import BINARY
from waiting import until


def start_loops(cli, folder) -> None:
    """Readers of which one always reads, each again and again until there is a file `end`."""
    for length_s in (0.37, 0.41, 0.43, 0.47, 0.53, 0.59):
        line = f"until [ -e {folder}/end ]; do '{BINARY}' run --shared db -- " \
               f"sleep {length_s} && echo >>{folder}/read; done"
        cli.started.append(subprocess.Popen(
            ["sh", "-c", line], env=cli.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def await_readers(folder, count: int) -> None:
    def read() -> int:
        with contextlib.suppress(FileNotFoundError):
            return (folder / "read").read_text().count("\n")
        return 0
    wanted = read() + count
    until(lambda: read() >= wanted, 60, f"{count} more readers have run")


def start_reader_and_writer(cli, server) -> None:
    """One reads, and a writer waits."""
    cli.start("run", "--shared", "data", "sleep", "100")
    until(lambda: server.call("HGET", "data", "mode") == b"read", 20, "the reader has it")
    cli.start("run", "--exclusive", "data", "sleep", "100")
    until(lambda: server.call("ZCARD", "lockkeeper_writers:{data}") == 1, 20, "the writer waits")


def test_readers_do_not_starve_a_writer(cli, folder):
    start_loops(cli, folder)
    try:
        await_readers(folder, 20)
        assert cli("run", "-w", "20", "--exclusive", "db", "true").returncode == 0
        await_readers(folder, 6)
    finally:
        (folder / "end").touch()
        for loop in cli.started:
            loop.wait(60)


def test_readers_stand_back_unless_told_otherwise(cli, server):
    start_reader_and_writer(cli, server)
    assert cli("run", "-n", "--shared", "data", "true").returncode == 124
    assert cli("run", "-n", "--shared", "--no-prefer-writers", "data", "true").returncode == 0


def test_a_writer_that_is_not_preferred_holds_up_nobody(cli, server):
    cli.start("run", "--shared", "data", "sleep", "100")
    until(lambda: server.call("HGET", "data", "mode") == b"read", 20, "the reader has it")
    cli.start("run", "--exclusive", "--no-prefer-writers", "data", "sleep", "100")
    until(lambda: server.channels(), 20, "the writer waits")
    assert cli("run", "-n", "--shared", "data", "true").returncode == 0


def test_a_reader_within_a_reader_does_not_wait_for_a_writer(cli, server, folder):
    """Which waits for the outer one."""
    go = folder / "go"
    outer = cli.start("run", "--shared", "data", "sh", "-c",
                      f"until [ -e {go} ]; do sleep 0.01; done; "
                      f"'{BINARY}' run -w 20 --shared data true")
    until(lambda: server.call("HGET", "data", "mode") == b"read", 20, "the reader has it")
    cli.start("run", "--exclusive", "data", "sleep", "100")
    until(lambda: server.call("ZCARD", "lockkeeper_writers:{data}") == 1, 20, "the writer waits")
    go.touch()
    assert outer.wait(60) == 0


def test_the_preference_is_of_the_two_sides_only(cli):
    result = cli("run", "--fair", "--no-prefer-writers", "data", "true")
    assert result.returncode == 125
    assert "--no-prefer-writers is for --shared and --exclusive" in result.stderr


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


def test_a_reader_that_stands_back_is_told_for_whom(cli, server):
    start_reader_and_writer(cli, server)
    for limit in ("-n", "-w1"):
        said = cli("run", limit, "-v", "--shared", "data", "true")
        assert said.returncode == 124
        assert "; 1 writer waits, and readers stand back for it" in said.stderr
        assert "in its wait queue" not in said.stderr
