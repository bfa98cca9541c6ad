"""lockkeeper run --fence, and lockkeeper fence: tokens for the resource to check."""
from __future__ import annotations

import pytest


MOST = 2**53 - 1


def token_of(cli, *options: str) -> int:
    result = cli("run", "--fence", *options, "job", "sh", "-c", 'echo "$LOCKKEEPER_FENCE"')
    assert (result.returncode, result.stderr) == (0, "")
    return int(result.stdout)


def test_the_command_sees_a_token_that_rises(cli, server):
    tokens = [token_of(cli) for _ in range(3)]
    assert tokens == sorted(set(tokens))
    assert int(server.call("GET", "lockkeeper_fence:{job}")) == tokens[-1]
    server.call("FLUSHALL")
    assert token_of(cli) > tokens[-1]


def test_without_fence_there_is_no_token(cli):
    result = cli("run", "job", "sh", "-c", 'echo "${LOCKKEEPER_FENCE-none}"', LOCKKEEPER_FENCE="7")
    assert result.stdout == "none\n", "one of a lock further out is not passed for this one's"


def test_check_in_a_script(cli):
    line = 'lockkeeper fence check report "$LOCKKEEPER_FENCE" && echo "$LOCKKEEPER_FENCE"'
    result = cli("run", "--fence", "job", "-c", line)
    assert result.returncode == 0
    token = int(result.stdout)
    assert cli("fence", "check", "report", str(token)).returncode == 0
    newer = token_of(cli)
    assert cli("fence", "check", "report", str(newer)).returncode == 0
    stale = cli("fence", "check", "report", str(token))
    assert stale.returncode == 123
    assert stale.stderr == f"lockkeeper: the token is {token}, " \
                           f"and {newer} has been seen\n"
    assert cli("fence", "check", "other", str(token)).returncode == 0


@pytest.mark.parametrize("token", ["0", "-1", "", "x", "1x", "1.5", "1e3", " 1", "+1",
                                   str(MOST + 1), "18446744073709551616", "9" * 40])
def test_bad_tokens(cli, server, token):
    result = cli("fence", "check", "--", "report", token)
    assert result.returncode == 125
    assert f"'{token}' is not a whole number from 1 to {MOST}" in result.stderr
    assert server.call("DBSIZE") == 0


def test_the_greatest_token(cli, server):
    assert cli("fence", "check", "report", str(MOST)).returncode == 0
    assert server.holders("report") == {b"token": b"%d" % MOST}


@pytest.mark.parametrize("words", [(), ("check",), ("check", "key"), ("check", "key", "1", "2"),
                                   ("chock", "key", "1"), ("check", "", "1")])
def test_wrong_use(cli, words):
    result = cli("fence", *words)
    assert result.returncode == 125
    assert result.stderr.startswith("lockkeeper: ")


def test_a_key_that_is_something_else(cli, server):
    server.call("SET", "report", "x")
    result = cli("fence", "check", "report", "1")
    assert result.returncode == 125
    assert "WRONGTYPE" in result.stderr


def test_kinds_exclude_each_other(cli, server):
    result = cli("run", "--fence", "--fair", "job", "true")
    assert result.returncode == 125
    assert "--fence and --fair exclude each other" in result.stderr
    assert cli("run", "--fair", "--fair", "job", "true").returncode == 0
    assert token_of(cli, "--fence") > 0


def test_a_fenced_lock_that_is_held(cli, server):
    server.call("HSET", "job", "stranger:1", "1")
    server.call("PEXPIRE", "job", "60000")
    assert cli("run", "--fence", "-n", "job", "true").returncode == 124
    assert server.call("EXISTS", "lockkeeper_fence:{job}") == 0
