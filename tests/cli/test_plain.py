"""--plain: the lock that other programs take with SET name token NX PX."""
from __future__ import annotations

from waiting import until


def test_run_plain(cli, server):
    result = cli("run", "--plain", "job", "sh", "-c", 'echo "$LOCKKEEPER_OWNER"; sleep 0.2')
    assert result.returncode == 0 and result.stdout.count(":") == 1
    assert server.call("DBSIZE") == 0
    process = cli.start("run", "--plain", "job", "sleep", "60")
    until(lambda: server.call("EXISTS", "job"), 10, "it is taken")
    assert server.call("TYPE", "job") == "string"
    assert server.call("SET", "job", "other", "NX", "PX", "1000") is None
    process.terminate()
    until(lambda: not server.call("EXISTS", "job"), 10, "it is free")


def test_run_plain_waits_for_another_program(cli, server):
    server.call("SET", "job", "token", "NX", "PX", "60000")
    assert cli("run", "--plain", "-n", "job", "true").returncode == 124
    process = cli.start("run", "--plain", "-w", "30", "job", "echo", "mine")
    server.call("DEL", "job")
    assert process.communicate(timeout=20)[0].strip() in ("mine", b"mine")


def test_lock_unlock_extend(cli, server):
    owner = cli("lock", "--plain", "-l", "20", "job").stdout.strip()
    assert server.call("GET", "job") == owner.encode()
    assert cli("extend", "--plain", "-l", "60", "job", owner).returncode == 0
    assert server.call("PTTL", "job") > 50000
    assert cli("unlock", "--plain", "job", "other").returncode == 123
    assert cli("unlock", "--plain", "job", owner).returncode == 0
    assert server.call("DBSIZE") == 0
    server.call("SET", "job", "token", "NX", "PX", "60000")
    assert cli("unlock", "--plain", "job", "token").returncode == 0
    assert server.call("DBSIZE") == 0


def test_kinds_do_not_mix(cli, server):
    assert "exclude each other" in cli("run", "--plain", "--fair", "job", "true").stderr
    owner = cli("lock", "-l", "20", "job").stdout.strip()
    result = cli("run", "--plain", "-n", "job", "true")
    assert result.returncode not in (0, 124) and "plain lock" in result.stderr
    assert cli("unlock", "job", owner).returncode == 0


def test_poll(cli, server):
    """A stranger says nothing when it goes: only looking again tells."""
    server.call("SET", "job", "token", "PX", "60000")
    process = cli.start("run", "--plain", "--poll", "0.01", "-w", "30", "job", "echo", "mine")
    until(lambda: server.channels(), 10, "it waits")
    server.call("DEL", "job")
    assert process.communicate(timeout=20)[0].strip() == "mine"
    assert cli("lock", "--plain", "--poll", "10ms", "-l", "5", "job").returncode == 0


def test_poll_is_for_plain_locks(cli, server):
    for words in (("run", "--poll", "1", "job", "true"),
                  ("run", "--fair", "--poll", "1", "job", "true"),
                  ("lock", "--poll", "1", "-l", "5", "job")):
        result = cli(*words)
        assert result.returncode == 125 and "--poll is for --plain" in result.stderr, words
    for wrong in ("0", "61", "x"):
        result = cli("run", "--plain", "--poll", wrong, "job", "true")
        assert result.returncode == 125 and "--poll" in result.stderr, wrong
