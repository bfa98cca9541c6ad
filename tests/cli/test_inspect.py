"""lockkeeper ls, show and break."""
from __future__ import annotations

import json
import os
import pty
import subprocess

from command import BINARY
from test_run import hold
from waiting import until


def rows(result):
    lines = result.stdout.splitlines()
    assert lines[0] == "NAME\tTYPE\tHOLDER\tHOLDS\tTTL_MS"
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
    assert len(json.loads(cli("ls", "--json").stdout)) == 3000


def test_json_of_ls_and_show(cli, server):
    hold(server, "job", ms=50000)
    (lock,) = json.loads(cli("ls", "--json").stdout)
    assert lock["name"] == "job" and lock["locked"] is True and lock["type"] == "lock"
    (holder,) = lock["holders"]
    assert 40000 < holder.pop("ttl_ms") <= 50000
    assert holder == {"owner": "stranger:1", "hold_count": 1, "role": "owner"}
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


def test_show_tells_of_one_lock(cli, server):
    hold(server, "job")
    text = cli("show", "job").stdout
    assert "state: locked" in text and "holder: stranger:1" in text
    free = cli("show", "free")
    assert free.returncode == 0 and "state: free" in free.stdout
    server.call("SET", "text", "x")
    assert cli("show", "text").returncode == 125


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


def test_break_wakes_who_waits(cli, server):
    hold(server, "job")
    waiter = cli.start("run", "-w", "30", "job", "true")
    until(server.channels, 10, "it waits")
    assert cli("break", "--yes", "job").returncode == 0
    assert waiter.wait(10) == 0
