"""lockkeeper ls, show, break and wait over the servers of a quorum."""
from __future__ import annotations

import json
import re

import pytest

from terminal import Terminal
from test_run import hold
from test_several import three, urls  # noqa: F401  (a fixture)
from waiting import never, until

COLUMNS = "NAME\tTYPE\tHOLDER\tHOLDS\tTTL_MS\tCLIENT\tNODE"


@pytest.fixture
def quorum(cli, three):  # noqa: F811
    """The command, with the three servers in its environment."""
    cli.environment["LOCKKEEPER_URL"] = ",".join(server.unix_url for server in three)
    return cli


def held(quorum, *words: str):
    """A command under the lock "q" of the quorum."""
    process = quorum.start("run", *words, "q", "sh", "-c", "echo in; exec sleep 60")
    assert process.stdout.readline() == "in\n", process.stderr.read()
    return process


def rows(done) -> list[list[str]]:
    head, *lines = done.stdout.splitlines()
    assert head == COLUMNS
    return [line.split("\t") for line in lines]


def test_ls_says_which_server_has_what(quorum, three):  # noqa: F811
    hold(three[1], "b", "stranger:7")
    hold(three[2], "a", "stranger:8")
    hold(three[0], "b", "stranger:9")
    done = quorum("ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert [[row[0], row[2], row[6]] for row in rows(done)] == [
        ["a", "stranger:8", three[2].unix_url], ["b", "stranger:9", three[0].unix_url],
        ["b", "stranger:7", three[1].unix_url]]
    assert [row[0] for row in rows(quorum("ls", "a*"))] == ["a"]
    locks = json.loads(quorum("ls", "--json").stdout)
    assert {(lock["name"], lock["node"]) for lock in locks} == {
        ("b", three[0].unix_url), ("b", three[1].unix_url), ("a", three[2].unix_url)}
    named = quorum("ls", *urls(three), LOCKKEEPER_URL="")
    assert [row[6] for row in rows(named)] == [row[6] for row in rows(done)]
    one = quorum("ls", "--url", three[0].unix_url)
    assert "NODE" not in one.stdout and "stranger:9" in one.stdout
    assert "node" not in json.loads(quorum("ls", "--json", "--url", three[0].unix_url).stdout)[0]


def test_the_lock_of_a_quorum_is_on_each_server(quorum, three):  # noqa: F811
    process = held(quorum)
    until(lambda: all(server.call("EXISTS", "q") for server in three), 20, "each has it")
    assert [row[6] for row in rows(quorum("ls"))] == [server.unix_url for server in three]
    done = quorum("show", "q")
    parts = done.stdout.split("\n\n")
    assert (done.returncode, done.stderr, len(parts)) == (0, "", 3)
    for server, part in zip(three, parts):
        assert part.startswith(f"node: {server.unix_url}\nname: q\ntype: lock\nstate: locked\n")
    process.terminate()
    process.wait(20)
    assert quorum("show", "q").returncode == 3


def test_a_server_that_cannot_be_asked_is_named(quorum, three):  # noqa: F811
    for server in three[:2]:
        hold(server, "q")
    three[2].kill()
    done = quorum("ls")
    assert done.returncode == 125 and three[2].unix_url in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [row[6] for row in rows(done)] == [server.unix_url for server in three[:2]]
    done = quorum("ls", "--json")
    *locks, silent = json.loads(done.stdout)
    assert done.returncode == 125 and len(locks) == 2 and three[2].unix_url in done.stderr
    assert silent["node"] == three[2].unix_url and silent["error"] and len(silent) == 2
    for server in three[:2]:
        server.kill()
    done = quorum("ls")
    assert done.returncode == 125 and done.stdout == "" and len(done.stderr.splitlines()) == 3


def test_show_goes_by_the_majority(quorum, three):  # noqa: F811
    hold(three[0], "q", "a:1")
    assert quorum("show", "q").returncode == 3
    hold(three[1], "q", "a:2")
    assert quorum("show", "q").returncode == 0
    three[2].kill()
    done = quorum("show", "q")
    assert done.returncode == 0 and three[2].unix_url in done.stderr
    assert done.stdout.count("node: ") == 2
    three[1].call("DEL", "q")
    done = quorum("show", "q")
    assert done.returncode == 125 and "does not tell whether it is held" in done.stderr
    done = quorum("show", "--json", "q")
    first, second, silent = json.loads(done.stdout)
    assert done.returncode == 125
    assert first["locked"] and not second["locked"] and "locked" not in silent
    assert [part["node"] for part in (first, second, silent)] == [s.unix_url for s in three]


@pytest.mark.parametrize("kind", [[], ["--plain"]], ids=["hash", "string"])
def test_break_frees_it_everywhere(quorum, three, kind):  # noqa: F811
    process = held(quorum, *kind)
    until(lambda: all(server.call("EXISTS", "q") for server in three), 20, "each has it")
    done = quorum("break", "--yes", "q")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [f"lockkeeper: q was freed at {server.unix_url}"
                                        for server in three]
    assert process.wait(60) == 123, "its holder is told"
    # It may have repaired a server between the first message and the last; it takes that back.
    until(lambda: not any(server.call("EXISTS", "q") for server in three), 10, "free everywhere")
    assert quorum("break", "--yes", "q").stderr == "lockkeeper: q was not locked\n"


def test_break_says_where_it_could_not(quorum, three):  # noqa: F811
    for server in three:
        hold(server, "q")
    three[0].kill()
    done = quorum("break", "--yes", "q")
    assert done.returncode == 125
    assert f"q may still be held at {three[0].unix_url}" in done.stderr
    assert all(f"q was freed at {server.unix_url}" in done.stderr for server in three[1:])
    hold(three[2], "q")
    three[1].kill()
    done = quorum("break", "--yes", "q")
    assert done.returncode == 125 and f"q was freed at {three[2].unix_url}" in done.stderr
    assert done.stderr.count("may still be held at") == 2


def test_break_refuses_what_no_quorum_has(quorum, three):  # noqa: F811
    three[0].call("SET", "q", "3")
    three[1].call("HSET", "q", "mode", "read", "a:1", "1")
    three[1].call("PEXPIRE", "q", "60000")
    for server, kind in ((three[0], "semaphore or latch"), (three[1], "read/write lock")):
        done = quorum("break", "--yes", "q")
        assert done.returncode == 125 and f"a {kind} at {server.unix_url}" in done.stderr
        assert server.call("EXISTS", "q") == 1
        server.call("DEL", "q")
    hold(three[0], "q")
    three[1].call("SET", "q", "0123456789abcdef0123456789abcdef", "PX", "60000")
    done = quorum("break", "--yes", "q")
    assert done.returncode == 125 and "of another kind elsewhere" in done.stderr
    assert three[0].call("EXISTS", "q") == three[1].call("EXISTS", "q") == 1


def test_break_asks_and_names_the_servers(quorum, three):  # noqa: F811
    for server in three[:2]:
        hold(server, "q", "stranger:7")
    shell = Terminal(quorum.environment)
    try:
        for answer, left in (("n", 1), ("y", 0)):
            shell.line("lockkeeper break q")
            asked = shell.expect(r"Break it\? \[y/N\] ")
            assert f"stranger:7 at {three[1].unix_url}. Its holder" in asked
            shell.line(answer)
            shell.prompt()
            assert [server.call("EXISTS", "q") for server in three] == [left, left, 0]
    finally:
        shell.close()


def test_a_line_on_the_terminal_names_each_server_in_turn(quorum, three):  # noqa: F811
    """With what stands in its way: all of it is too long for one line."""
    for server in three[:2]:
        server.kill()
    shell = Terminal(quorum.environment)
    try:
        shell.line("lockkeeper run q true")
        count = r"\d of 3 nodes grant it"  # of the third, which may not have answered yet
        for part in [count, *[re.escape(server.unix_url) for server in three[:2]], count]:
            shell.expect(rf"\r\x1b\[Kwaiting for q: {part}")
    finally:
        shell.close()


def test_wait_goes_by_the_majority(quorum, three):  # noqa: F811
    hold(three[0], "q")
    assert quorum("wait", "-n", "q").returncode == 0, "others can take it"
    hold(three[1], "q")
    assert quorum("wait", "-n", "q").returncode == 124
    assert quorum("wait", "-w", "0.3", "q").returncode == 124
    three[2].kill()
    assert quorum("wait", "-n", "q").returncode == 124
    waiter = quorum.start("wait", "-v", "q")
    assert [waiter.stderr.readline()[:20] for _ in range(3)] == ["lockkeeper: server: "] * 3
    assert "waiting for q: held by" in waiter.stderr.readline()
    three[0].call("DEL", "q")  # the answers do not tell now, and it goes on
    never(lambda: waiter.poll() is not None, 1)
    three[1].call("DEL", "q")
    assert waiter.wait(20) == 0, waiter.stderr.read()
    three[1].kill()
    done = quorum("wait", "-n", "q")
    assert done.returncode == 125 and "1 of 3 nodes answered" in done.stderr


@pytest.mark.parametrize("words", [["ls"], ["show", "q"], ["break", "--yes", "q"], ["wait", "q"]])
def test_two_servers_and_bad_lists(quorum, three, words):  # noqa: F811
    done = quorum(*words[:1], *urls(three[:2]), *words[1:])
    assert done.returncode == 125 and "a quorum needs at least 3" in done.stderr
    done = quorum(*words, LOCKKEEPER_URL="redis://:S3cr3t@a,redis://b,redis://c")
    assert done.returncode == 125 and "LOCKKEEPER_PASSWORD" in done.stderr
    assert "S3cr3t" not in done.stderr
    done = quorum(*words, LOCKKEEPER_URL="redis://a,redis://b,redis://c:x")
    assert done.returncode == 125 and done.stdout == "" and "the port" in done.stderr
