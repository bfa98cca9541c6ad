"""The README's shell lines and the manual's ACL line, run as they stand."""
from __future__ import annotations

import pytest

from conftest import blocks, run

STUBS = ("pg_dump", "report.sh", "migrate.sh", "import.sh", "encode.sh", "post.sh",
         "settle.sh")


@pytest.fixture
def place(tmp_path):
    """A folder with the programs that the README's lines run; each leaves a trace."""
    for name in STUBS:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {name} \"$LOCKKEEPER_NAME\" >>ran\n")
        path.chmod(0o755)
    return tmp_path


def ran(place) -> list[str]:
    return (place / "ran").read_text().splitlines()


def shell(place, environment, script: str) -> str:
    return run("sh", "-euc", script, cwd=place,
               env={**environment, "PATH": f"{place}:{environment['PATH']}"}).stdout


def test_run_lines(place, environment, server):
    shell(place, environment, blocks("README.md", "sh")[0])
    assert ran(place) == ["pg_dump backup", "report.sh nightly", "migrate.sh deploy"]
    assert server.ask("DBSIZE") == "0"


def test_without_configuration(place, environment):
    alone = {name: value for name, value in environment.items() if name != "LOCKKEEPER_URL"}
    try:
        shell(place, alone, blocks("README.md", "sh")[0])
        assert len(ran(place)) == 3
        shell(place, alone, "lockkeeper server status")
    finally:
        shell(place, alone, "lockkeeper server stop")


def test_lines_for_several_machines(place, environment, server):
    script = blocks("README.md", "sh")[1].replace("redis://localhost:6379", server.url)
    assert server.url in script
    shell(place, environment, script)
    assert ran(place) == ["pg_dump backup"]


def test_lines_with_an_owner(place, environment, server):
    shell(place, environment, blocks("README.md", "sh")[2])
    assert ran(place) == ["report.sh "]
    assert server.ask("DBSIZE") == "0"


def test_lines_of_other_kinds(place, environment):
    shell(place, environment, blocks("README.md", "sh")[3])
    assert ran(place) == ["migrate.sh release", "report.sh data", "import.sh data",
                          "encode.sh encoder", "post.sh ledger", "settle.sh orders"]


def test_rights_of_the_redis_user(place, environment, server):
    words = blocks("SECURITY.md", "redis")[0].split()
    assert server.ask(*words) == "OK"
    server.ask("ACL", "SETUSER", "default", "resetpass", "off")
    limited = {**environment, "LOCKKEEPER_URL": server.url.replace("unix://",
                                                                   "unix://lockkeeper@"),
               "LOCKKEEPER_PASSWORD": "change-me"}
    for number in (0, 2):
        shell(place, limited, blocks("README.md", "sh")[number])
    shell(place, limited, """
        owner=$(lockkeeper lock -l 1m other)
        lockkeeper extend other "$owner" -l 2m
        lockkeeper ls
        lockkeeper show other
        ! lockkeeper run -n other -- true
        lockkeeper break --yes other
        lockkeeper run -w 5s other -- true
        """)


def test_rights_for_every_kind(place, environment, server):
    assert server.ask(*blocks("SECURITY.md", "redis")[1].split()) == "OK"
    server.ask("ACL", "SETUSER", "default", "resetpass", "off")
    limited = {**environment, "LOCKKEEPER_URL": server.url.replace("unix://",
                                                                   "unix://lockkeeper@"),
               "LOCKKEEPER_PASSWORD": "change-me"}
    for number in (0, 2, 3):
        shell(place, limited, blocks("README.md", "sh")[number])
    shell(place, limited, """
        lockkeeper latch set done 1
        lockkeeper latch down done
        lockkeeper latch wait done
        lockkeeper sem show encoder
        """)
