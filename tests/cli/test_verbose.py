"""-v without a terminal: server, owner, waited, held for, released or lost and why, a line each."""
from __future__ import annotations

import fcntl
import re

import pytest

from waiting import until


def lines(stderr: str) -> list[str]:
    return [line.removeprefix("lockkeeper: ") for line in stderr.splitlines()]


def in_order(said: list[str], *patterns: str) -> None:
    places = [next((i for i, line in enumerate(said) if re.fullmatch(pattern, line)), None)
              for pattern in patterns]
    assert None not in places and places == sorted(places), (patterns, said)


@pytest.mark.parametrize("words, name", [
    ((), "job"), (("--plain",), "job"), (("--fair",), "job"), (("--permits", "2"), "job"),
    (("--shared",), "job")], ids=str)
def test_run_says_each_in_a_line(cli, server, words, name):
    result = cli("run", "-v", *words, name, "sh", "-c", 'echo "$LOCKKEEPER_OWNER"')
    owner = result.stdout.strip()
    assert result.returncode == 0 and owner
    in_order(lines(result.stderr), f"server: {re.escape(server.unix_url)}.*",
             rf"acquired {name} after \d+ ms", f"owner of {name}: {re.escape(owner)}",
             rf"held {name} for \d+ ms", f"released {name}")


def test_run_of_several_names_them_and_its_client(cli, server):
    said = lines(cli("run", "-v", "--also", "b", "--also", "c", "a", "true").stderr)
    in_order(said, r"acquired a, b, c after \d+ ms", r"owner of a, b, c: client [0-9a-f-]{36}",
             r"held a, b, c for \d+ ms", "released a, b, c")
    server.call("HSET", "c", "stranger:1", "1")
    said = lines(cli("run", "-n", "-v", "--also", "b", "--also", "c", "a", "true").stderr)
    in_order(said, r"waited \d+ ms for a, b, c, in vain", r"a: c: held by another client.*")


def test_a_loss_is_told_with_its_reason_and_no_release(cli, server):
    process = cli.start("run", "-v", "-l", "2", "-k", "0.1", "job", "sleep", "60")
    until(lambda: server.call("EXISTS", "job"), 10, "it is taken")
    server.call("DEL", "job")
    said = lines(process.communicate(timeout=60)[1])
    assert process.returncode == 123
    assert any(line.startswith("job: ") for line in said), said
    in_order(said, r"acquired job after \d+ ms", r"held job for \d+ ms")
    assert "released job" not in said


def test_a_wait_in_vain_says_how_long_and_who(cli, server):
    server.call("HSET", "job", "stranger:1", "1")
    server.call("PEXPIRE", "job", "60000")
    for limit in (("-n",), ("-w", "0.1"), ("-w", "1")):
        for words in (("run", "-v", *limit, "job", "true"),
                      ("lock", "-v", *limit, "-l", "5", "job")):
            result = cli(*words)
            assert result.returncode == 124
            in_order(lines(result.stderr), "server: .*", r"waited \d+ ms for job, in vain")
            assert "held by another client" in result.stderr, words


@pytest.mark.parametrize("words, did", [
    (("ls",), "listed all names"), (("ls", "j*"), r"listed j\*"),
    (("ls", "--json"), "listed all names"),
    (("show", "job"), "looked at job"), (("show", "--json", "free"), "looked at free"),
    (("break", "--yes", "job"), "broke job"),
    (("extend", "-l", "20", "job", "OWNER"), "extended job"),
    (("sem", "set", "slots", "2"), "set slots"), (("sem", "show", "slots"), "looked at slots"),
    (("latch", "set", "gate", "2"), "set gate")], ids=str)
def test_looks_and_changes_say_where_and_how_long(cli, server, words, did):
    owner = cli("lock", "-l", "20", "job").stdout.strip()
    words = [owner if word == "OWNER" else word for word in words]
    if words[:2] == ["sem", "show"]:
        cli("sem", "set", "slots", "2")
    silent = cli(*words)
    if words[0] == "break":
        cli("lock", "-l", "20", "job")
    if words[0] == "latch":
        cli("latch", "delete", "gate")
    told = cli(words[0], "-v", *words[1:])
    assert silent.stderr == "" and silent.returncode == told.returncode in (0, 3)
    assert len(silent.stdout) > 0 or not told.stdout
    assert re.fullmatch(rf"lockkeeper: server: {re.escape(server.unix_url)}.*\n"
                        rf"lockkeeper: {did} after \d+ ms\n", told.stderr), told.stderr
    assert " scripts/" in cli(words[0], "-vv", *words[1:]).stderr


def test_what_did_not_happen_is_not_said(cli):
    for words in (("break", "--yes", "free"), ("sem", "delete", "free"),
                  ("latch", "delete", "free"), ("extend", "-l", "5", "free", "stranger:1")):
        said = lines(cli(words[0], "-v", *words[1:]).stderr)
        assert said[0].startswith("server: ") and not any(" after " in line for line in said), said


def test_a_quorum_names_all_its_servers(cli, make_three):
    urls = [node.unix_url for node in make_three()]
    for words in (("ls",), ("show", "job")):
        said = lines(cli(words[0], "-v", "--url", ",".join(urls), *words[1:]).stderr)
        assert [line.removeprefix("server: ") for line in said[:3]] == urls, said


def test_latch_and_sem_say_what_they_delete(cli):
    for words in (("sem", "set", "x", "1"), ("sem", "-v", "delete", "x"),
                  ("latch", "set", "x", "1"), ("latch", "-v", "down", "x"),
                  ("latch", "set", "y", "1"), ("latch", "-v", "delete", "y")):
        result = cli(*words)
        assert result.returncode == 0, words
        did = {"down": "counted down", "delete": "deleted"}.get(words[2])
        assert not did or re.fullmatch(rf"{did} [xy] after \d+ ms", lines(result.stderr)[1]), result


def test_lock_and_unlock(cli, server):
    taken = cli("lock", "-v", "-l", "20", "job")
    in_order(lines(taken.stderr), "server: .*", r"acquired job after \d+ ms")
    given = cli("unlock", "-v", "job", taken.stdout.strip())
    assert given.returncode == 0
    in_order(lines(given.stderr), "server: .*", "released job")
    assert "released" not in cli("unlock", "-v", "job", taken.stdout.strip()).stderr


@pytest.mark.parametrize("limit", [("-n",), ("-w", "0.1"), ("-w", "30")], ids=str)
def test_a_counter_is_named_before_the_wait_is_over(cli, server, limit):
    """As of dramatiq's rate limiter: it stays at 0 for its whole ttl, and no lock is given back."""
    server.call("SET", "job", "0", "PX", "900000")
    process = cli.start("run", "--plain", "-v", *limit, "job", "true")
    said = ""
    while "counter" not in said and (line := process.stderr.readline()):
        said += line
    assert "its count is 0: it is a counter or a semaphore, not a lock" in said
    assert re.search(r"when the key is gone, in \d+ s unless changed", said)
    if limit[-1] == "30":
        assert process.poll() is None, "it is said at once, and not after the wait"


def test_what_cannot_be_shared_is_named_at_once(cli, server):
    server.call("RPUSH", "list", "x")
    server.call("HSET", "data", "colour", "red")
    for words in ((), ("--plain",), ("--fair",), ("--shared",), ("--permits", "1")):
        for name in ("list", "data"):
            result = cli("run", "-v", "-w", "30", *words, name, "true")
            assert result.returncode == 125, (words, name, result)
            assert name in result.stderr


DEAF = " job: SUBSCRIBE is refused"


@pytest.mark.parametrize("words", [(), ("--fair",), ("--shared",), ("--plain",), ("--permits", "1"),
                                   ("--also", "other")], ids=str)
def test_a_refused_subscription_is_told(cli, server, words):
    server.call("ACL", "SETUSER", "deaf", "on", ">a-secret", "~*", "+@all", "resetchannels")
    cli.start("run", *words, "job", "sleep", "60")
    until(lambda: server.call("EXISTS", "job"), 20, "it is taken")
    if "--shared" in words:
        words = ("--exclusive",)
    for user, told in (("deaf", True), ("", False)):
        for limit in ("0.1", "1"):
            said = cli("run", "-v", "-w", limit, *words, "job", "true", LOCKKEEPER_USERNAME=user,
                       LOCKKEEPER_PASSWORD="a-secret" if user else "").stderr
            assert said.count(DEAF) == told, said


def test_a_latch_says_it_too(cli, server):
    server.call("ACL", "SETUSER", "deaf", "on", ">a-secret", "~*", "+@all", "resetchannels")
    assert cli("latch", "set", "gate", "2").returncode == 0
    said = cli("latch", "wait", "-v", "-w", "0.1", "gate", LOCKKEEPER_USERNAME="deaf",
               LOCKKEEPER_PASSWORD="a-secret").stderr
    assert said.count(" gate: SUBSCRIBE is refused") == 1, said


def test_a_lock_without_a_time_to_live_is_told(cli, server):
    server.call("SET", "job", "0123456789abcdef0123456789abcdef")
    result = cli("run", "--plain", "-v", "-n", "job", "true")
    assert result.returncode == 124
    assert "held by" in result.stderr and "it has no time to live" in result.stderr


def test_without_v_it_is_silent(cli, server):
    assert cli("run", "job", "true").stderr == ""
    server.call("HSET", "job", "stranger:1", "1")
    assert cli("run", "-n", "job", "true").stderr == (
        "lockkeeper: job: held by another client; it has no time to live\n")
    assert cli("run", "-n", "-q", "job", "true").stderr == ""


@pytest.mark.parametrize("words", [("run", "-vv", "job", "true"), ("lock", "-vv", "-l", "5", "job"),
                                   ("run", "-v", "--plain", "-v", "job", "true"),
                                   ("wait", "-vv", "job"), ("latch", "wait", "-vv", "job")],
                         ids=" ".join)
def test_twice_it_tells_what_the_library_does(cli, server, words):
    server.call("ACL", "SETUSER", "keeper", "on", ">a-secret", "~*", "&*", "+@all")
    result = cli(*words, LOCKKEEPER_USERNAME="keeper", LOCKKEEPER_PASSWORD="a-secret")
    assert result.returncode == 0
    said = lines(result.stderr)
    assert any(re.fullmatch(r"\d+\.\d{6} .* scripts/\d+: connected", line) for line in said), said
    assert any(" scripts/" in line and ": > " in line for line in said)
    assert any(" scripts/" in line and ": < " in line for line in said)
    if words[0] != "wait":
        assert any('"job" number ' in line for line in said)
    assert "a-secret" not in result.stderr


@pytest.mark.parametrize("limit", [("-n",), ("-w", "0.1")], ids=str)
def test_wait_says_who_holds_it_also_when_it_was_in_vain(cli, server, make_three, limit):
    nodes = make_three()
    for node in (server, *nodes):
        node.call("HSET", "job", "stranger:1", "1")
        node.call("PEXPIRE", "job", "60000")
    for words in ((), ("--url", ",".join(node.unix_url for node in nodes))):
        result = cli("wait", "-v", *limit, *words, "job")
        assert result.returncode == 124
        assert "held by another client" in result.stderr, result
        assert "held by" not in cli("wait", *limit, *words, "job").stderr


def test_latch_wait_says_its_count_also_when_it_was_in_vain(cli):
    assert cli("latch", "set", "gate", "2").returncode == 0
    for limit in (("-n",), ("-w", "0.1")):
        result = cli("latch", "wait", "-v", *limit, "gate")
        assert result.returncode == 124
        assert "its count is 2" in result.stderr, result


@pytest.mark.parametrize("command", ["lock", "wait", "latch"])
def test_help_says_what_v_reports(cli, command):
    said = " ".join(cli(command, "--help").stdout.split())
    assert "report the server" in re.search(r"--verbose (.*?) -q", said).group(1)


def test_a_pipe_that_nobody_reads_holds_up_no_renewal(cli, server):
    """A page of lines fills it; the command runs for four leases more."""
    process = cli.start("run", "-vv", "-l", "1.5", "job", "sleep", "6")
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    assert process.wait(60) == 0
    assert len(process.stderr.read()) <= 4096
    assert server.call("EXISTS", "job") == 0


def scripts(server) -> int:
    calls = re.search(r"cmdstat_evalsha:calls=(\d+)", server.call("INFO", "commandstats").decode())
    return int(calls[1]) if calls else 0


def test_lines_that_nobody_read_are_counted(cli, server):
    process = cli.start("run", "-vv", "-l", "1.5", "job", "sleep", "60")
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    until(lambda: server.call("EXISTS", "job"), 20, "it runs")
    before = scripts(server)
    until(lambda: scripts(server) > before + 3, 20, "renewals, whose lines find no room")
    missing = next(line for line in process.stderr if "lost" in line or "dropped" in line)
    assert re.search(r"\d+ (log )?lines (lost: nobody read them|dropped)", missing)
    process.terminate()
    process.stderr.read()
    assert process.wait(30) == 143
