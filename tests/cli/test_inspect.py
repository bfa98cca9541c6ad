"""lockkeeper ls, show and break."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import subprocess
import threading

import pytest

from command import BINARY, SANITIZED
from fixtures import make_proxy, proxy  # noqa: F401  (fixtures)
from proxy import Replace
from test_run import hold
from waiting import never, until


def rows(result):
    lines = result.stdout.splitlines()
    assert lines[0] == "NAME\tTYPE\tHOLDER\tHOLDS\tTTL_MS\tCLIENT"
    return [line.split("\t") for line in lines[1:]]


def test_ls_shows_name_holder_count_and_ttl(cli, server):
    assert rows(cli("ls")) == []
    hold(server, "b", "stranger:7")
    hold(server, "a", "stranger:8", 20000)
    server.call("HSET", "a", "stranger:8", "3")
    server.call("SET", "text", "no lock")
    found = rows(cli("ls"))
    assert [row[:4] for row in found] == [["a", "lock", "stranger:8", "3"],
                                          ["b", "lock", "stranger:7", "1"]]
    assert 10000 < int(found[0][4]) <= 20000


def test_ls_takes_a_pattern(cli, server):
    for name in ("backup:db", "backup:www", "other"):
        hold(server, name)
    assert [row[0] for row in rows(cli("ls", "backup:*"))] == ["backup:db", "backup:www"]
    assert rows(cli("ls", "nothing*")) == []


def test_ls_uses_scan_and_never_keys(cli, server):
    monitor = server.monitor()
    hold(server, "job")
    assert cli("ls").returncode == 0
    until(lambda: any(words[0].upper() == "SCAN" for words in monitor.commands()), 10)
    assert not any(words[0].upper() == "KEYS" for words in monitor.commands())


def test_each_lock_is_listed_once_though_there_are_many(cli, server):
    for number in range(3000):
        hold(server, f"lock{number}")
    assert [row[0] for row in rows(cli("ls"))] == sorted(f"lock{n}" for n in range(3000))
    listed = [lock["name"] for lock in json.loads(cli("ls", "--json").stdout)]
    assert sorted(listed) == sorted(f"lock{n}" for n in range(3000))


def peak_kib(pid: int) -> int:
    """The most memory that a process had; 0 when it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    except FileNotFoundError:
        found = None
    return int(found.group(1)) if found else 0


@pytest.mark.skipif(SANITIZED, reason="measures the memory of a process")
def test_a_long_list_as_json_takes_little_memory(cli, server):
    for begin in range(0, 20000, 1000):
        server.call("EVAL", "for i = ARGV[1], ARGV[2] do redis.call('HSET', 'lock' .. i, 'a:1', 1) "
                            "redis.call('PEXPIRE', 'lock' .. i, 600000) end", "0",
                    str(begin), str(begin + 999))
    process = cli.start("ls", "--json")
    text, peak = "", 0
    while chunk := process.stdout.read(100000):
        text += chunk
        peak = max(peak, peak_kib(process.pid))
    assert process.wait(20) == 0 and len({lock["name"] for lock in json.loads(text)}) == 20000
    assert 0 < peak < 20000


def test_a_failed_list_is_not_taken_for_a_complete_one(cli, server):
    assert json.loads(cli("ls", "--json").stdout) == []
    failed = cli("ls", "--json", "--url", "redis://127.0.0.1:1")
    assert failed.returncode == 125 and failed.stdout == ""
    for i in range(2000):
        hold(server, f"job-{i}")
    listing = cli.start("ls", "--json", "-o", "command_timeout_ms=500")
    assert listing.stdout.readline() == "[\n"
    server.pause()  # the list waits: its pipe is full
    text = "[" + listing.stdout.read()
    assert listing.wait(20) == 125
    with pytest.raises(ValueError):
        json.loads(text)


@pytest.mark.parametrize("command", ["show", "wait"])
def test_a_key_that_is_no_lock_is_named(cli, server, command):
    server.call("RPUSH", "todo", "x")
    refused = cli(command, "todo")
    assert refused.returncode == 125
    assert refused.stderr == "lockkeeper: inspect \"todo\": the key is a list, not a lock\n"


def test_json_of_ls_and_show(cli, server):
    hold(server, "job", ms=50000)
    (lock,) = json.loads(cli("ls", "--json").stdout)
    assert lock["name"] == "job" and lock["locked"] is True and lock["type"] == "lock"
    (holder,) = lock["holders"]
    assert 40000 < holder.pop("ttl_ms") <= 50000
    assert holder == {"owner": "stranger:1", "hold_count": 1, "role": "owner", "client": None}
    assert (lock["waiters"], lock["count"], lock["fence"]) == ([], None, None)
    assert 40000 < lock["ttl_ms"] <= 50000
    shown = json.loads(cli("show", "job", "--json").stdout)
    assert [holder["owner"] for holder in shown["holders"]] == ["stranger:1"]
    free = json.loads(cli("show", "--json", "free").stdout)
    assert (free["locked"], free["holders"], free["ttl_ms"]) == (False, [], None)
    assert json.loads(cli("ls", "--json", "nothing*").stdout) == []


def test_odd_names_are_escaped_in_text_and_exact_in_json(cli, server):
    names = [b"\x1b[31mred", b"tab\tbed", b"line\nfeed", b"\xff\xfe", "grün".encode(), b"nul\0l"]
    for name in names:
        hold(server, name)
    text = cli("ls").stdout
    assert "\\x1b[31mred" in text and "tab\\x09bed" in text and "grün" in text
    assert "\\xff\\xfe" in text and "\x1b" not in text and len(text.splitlines()) == 7
    exact = {bytes.fromhex(lock["name_hex"]) if "name_hex" in lock else lock["name"].encode()
             for lock in json.loads(cli("ls", "--json").stdout)}
    assert exact == set(names)


def test_show_describes_one_lock(cli, server):
    hold(server, "job")
    text = cli("show", "job").stdout
    assert "state: locked" in text and "holder: stranger:1" in text
    free = cli("show", "free")
    assert free.returncode == 3 and "state: free" in free.stdout
    server.call("SET", "text", "x")
    text = cli("show", "text")
    assert text.returncode == 0 and "type: plain lock\nit may be data, and no lock\n" in text.stdout
    server.call("RPUSH", "list", "x")
    assert cli("show", "list").returncode == 125


def test_break_needs_yes_where_there_is_no_terminal(cli, server):
    hold(server, "job")
    result = cli("break", "job")
    assert result.returncode == 125 and "--yes" in result.stderr
    assert server.call("EXISTS", "job") == 1
    assert cli("break", "--yes", "job").returncode == 0
    assert server.call("EXISTS", "job") == 0
    again = cli("break", "job", "--yes")
    assert again.returncode == 0 and "not locked" in again.stderr


def ask(cli, answer: bytes):
    """break on a terminal; returns its exit code and what it wrote."""
    mine, its = pty.openpty()
    process = subprocess.Popen([BINARY, "break", "job"], stdin=its, stdout=its, stderr=its,
                               env=cli.environment, start_new_session=True)
    os.close(its)
    text = b""
    while b"[y/N]" not in text:
        text += os.read(mine, 1000)
    os.write(mine, answer)
    code = process.wait(20)
    os.close(mine)
    return code, text


def test_break_asks_on_a_terminal(cli, server):
    hold(server, "job")
    for answer in (b"n\n", b"\n", b"yup\n", b"\x04"):
        code, text = ask(cli, answer)
        assert code == 125 and b"stranger:1" in text
        assert server.call("EXISTS", "job") == 1
    assert ask(cli, b"y\n")[0] == 0
    assert server.call("EXISTS", "job") == 0


@contextlib.contextmanager
def busy(server, name: str):
    """Somebody takes and frees a plain lock all the time."""
    over = threading.Event()

    def take_and_free():
        with server.connect() as connection:
            while not over.is_set():
                connection.call("SET", name, "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "PX", 30000)
                connection.call("DEL", name)
    thread = threading.Thread(target=take_and_free)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_busy_lock_that_was_free_when_looked_at_is_not_broken_as_another_kind(cli, server):
    with busy(server, "job"):
        for _ in range(30):
            broken = cli("break", "--yes", "job")
            assert broken.returncode == 0, broken.stderr


def test_break_wakes_waiters(cli, server):
    hold(server, "job")
    waiter = cli.start("run", "-w", "30", "job", "true")
    until(server.channels, 10, "it waits")
    assert cli("break", "--yes", "job").returncode == 0
    assert waiter.wait(10) == 0


def test_the_exit_status_of_show_says_whether_it_is_held(cli, server):
    hold(server, "job")
    server.call("SET", "count", "3")
    assert cli("show", "job").returncode == cli("show", "--json", "job").returncode == 0
    assert cli("show", "free").returncode == cli("show", "--json", "free").returncode == 3
    assert cli("show", "count").returncode == 0
    assert cli("show", "--url", "redis://127.0.0.1:1", "job").returncode == 125


def test_wait_returns_when_the_lock_is_free_and_does_not_take_it(cli, server):
    assert cli("wait", "job").returncode == cli("wait", "-n", "job").returncode == 0
    assert server.call("EXISTS", "job") == 0
    hold(server, "job")
    assert cli("wait", "-n", "job").returncode == cli("wait", "-w", "0.3", "job").returncode == 124
    waiter = cli.start("wait", "job")
    never(lambda: waiter.poll() is not None, 0.5, "it waits")
    server.call("DEL", "job")
    assert waiter.wait(20) == 0
    assert server.call("EXISTS", "job") == 0


def test_wait_refuses_what_is_not_a_lock(cli, server):
    server.call("SET", "count", "3")
    server.call("HSET", "foreign", "a", "b")
    for name in ("count", "foreign", ""):
        result = cli("wait", name)
        assert result.returncode == 125 and result.stderr.count("\n") == 1
    assert cli("wait", "--url", "redis://127.0.0.1:1", "job").returncode == 125


def test_wait_survives_a_restart_of_the_server(cli, server):
    hold(server, "job")
    waiter = cli.start("wait", "job")
    never(lambda: waiter.poll() is not None, 0.3, "it waits")
    server.stop()
    never(lambda: waiter.poll() is not None, 0.5, "it waits for the server")
    server.start()
    assert waiter.wait(20) == 0


def reads_of(server) -> int:
    text = server.call("INFO", "stats").decode()
    return int(text.split("total_reads_processed:")[1].split()[0])


def test_ls_asks_for_a_page_of_keys_at_once(cli, server):
    """Each lock is shown with its own holder, whatever stands between: few reads of the server."""
    server.call("EVAL", """for i = 1, 1000 do
        redis.call('HSET', 'lock' .. i, 'a:' .. i, i)
        redis.call('HSET', 'lockkeeper_fair:{' .. i .. '}', 'a:7', 1)
        redis.call('HSET', 'user' .. i, 'name', i)
    end""", 0)
    before = reads_of(server)
    result = cli("ls")
    assert reads_of(server) - before < 200
    rows = [line.split("\t") for line in result.stdout.splitlines()[1:]]
    assert sorted((row[0], row[2], row[3]) for row in rows) == sorted(
        (f"lock{i}", f"a:{i}", str(i)) for i in range(1, 1001))


@pytest.mark.parametrize("what", ["type", "hscan", "getrange", "pttl", "time"])
@pytest.mark.parametrize("says", ["-ERR no upstream", "$-1", "*0", ":0", "$4\r\nnone"])
def test_show_behind_a_proxy_that_errs(cli, server, proxy, what, says):  # noqa: F811
    """Whatever it says in a server's place: a lock that is held is not free, and not no lock."""
    hold(server, "hash")
    server.call("SET", "plain", "a" * 30, "PX", "60000")
    proxy.rule = lambda m: Replace(f"{says}\r\n".encode()) if m.reply and m.what == what else None
    for name in ("hash", "plain"):
        seen = cli("show", name, LOCKKEEPER_URL=proxy.url)
        if seen.returncode == 0:
            assert "state: locked\n" in seen.stdout
        else:
            assert seen.returncode == 125 and "not a lock" not in seen.stderr, seen.stderr
            assert what.upper() in seen.stderr or "no upstream" in seen.stderr
