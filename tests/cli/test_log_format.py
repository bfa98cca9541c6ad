"""--log-format json: what the command says, for programs."""
from __future__ import annotations

import datetime
import json

from test_run import hold

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def lines(result):
    found = [json.loads(line) for line in result.stderr.splitlines()]
    assert all({"time", "level", "pid", "message"} <= set(line) for line in found)
    return found


def test_each_line_is_an_object(cli):
    result = cli("run", "-vv", "--log-format", "json", "job", "true", TRACEPARENT=TRACE)
    assert result.returncode == 0
    found = lines(result)
    assert {line["level"] for line in found} >= {"info", "debug"}
    assert any("EVALSHA lock_acquire" in line["message"] for line in found)
    assert {line["traceparent"] for line in found} == {TRACE}
    for line in found:
        datetime.datetime.fromisoformat(line["time"].removesuffix("Z"))
        assert not line["message"].startswith("lockkeeper:")


def test_hostile_names_and_errors(cli, server):
    hold(server, b"a\"\n\xff\\")
    result = cli("run", "-n", "-v", "--log-format=json", b"a\"\n\xff\\", "true")
    assert result.returncode == 124
    found = lines(result)
    assert any('a"\\x0a\\xff\\' in line["message"] for line in found)
    result = cli("run", "--log-format=json", "job", "true", LOCKKEEPER_URL="redis://127.0.0.1:1")
    assert lines(result)[-1]["level"] == "error"


def test_another_format_is_refused(cli):
    result = cli("run", "--log-format", "xml", "job", "true")
    assert result.returncode == 125 and "--log-format" in result.stderr
    assert cli("ls", "--log-format", "text").returncode == 0
