"""The shell lines of the README, of docs/command.md and of SECURITY.md, run as they stand."""
from __future__ import annotations

import re
import time

import pytest

from conftest import BUILD, ROOT, blocks, run, until

COMMAND = "docs/command.md"
STUBS = ("pg_dump", "report.sh", "migrate.sh", "import.sh", "encode.sh", "post.sh",
         "settle.sh")


@pytest.fixture
def place(tmp_path):
    """A folder with the programs that the lines run; each leaves a trace."""
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


def test_what_runs_out_of_time_leaves_nothing(place, environment):
    """Else its keeper, in a process group of its own, would have the test wait for its output."""
    began = time.monotonic()
    with pytest.raises(AssertionError, match="not within 2 s"):
        run("sh", "-c", "lockkeeper elect web -- sleep 600; :", cwd=place, env=environment,
            limit_s=2)
    assert time.monotonic() - began < 60


def test_twelve_lines(place, environment, server):
    said = shell(place, environment, blocks("README.md", "sh")[0])
    assert ran(place) == ["pg_dump backup", "report.sh nightly", "migrate.sh deploy",
                          "migrate.sh release", "encode.sh encoder", "post.sh ledger", "report.sh ",
                          "report.sh web"]
    assert "import" not in said


def test_run_lines(place, environment, server):
    shell(place, environment, blocks(COMMAND, "sh")[0])
    assert ran(place) == ["pg_dump backup", "report.sh nightly", "migrate.sh deploy"]
    assert server.ask("DBSIZE") == "0"


def test_a_job_that_hosts_start_by_the_clock(place, environment):
    page = (ROOT / COMMAND).read_text()
    line = re.search(r"^    (lockkeeper run .*--hold-at-least .*)$", page, re.MULTILINE).group(1)
    shell(place, environment, f"{line}; {line} || [ $? = 124 ]")
    assert ran(place) == ["report.sh nightly"]


def test_without_configuration(place, environment):
    alone = {name: value for name, value in environment.items() if name != "LOCKKEEPER_URL"}
    try:
        shell(place, alone, blocks(COMMAND, "sh")[0])
        assert len(ran(place)) == 3
        shell(place, alone, "lockkeeper server status")
    finally:
        shell(place, alone, "lockkeeper server stop")


def test_lines_for_several_machines(place, environment, server):
    script = blocks(COMMAND, "sh")[1].replace("redis://localhost:6379", server.url)
    assert server.url in script
    shell(place, environment, script)
    assert ran(place) == ["pg_dump backup"]


def test_lines_with_an_owner(place, environment, server):
    shell(place, environment, blocks(COMMAND, "sh")[2])
    assert ran(place) == ["report.sh "]
    # The client that took the lock has ended: what it told of itself stays for the lease.
    assert server.ask("KEYS", "*").startswith("lockkeeper_client:")
    assert server.ask("DBSIZE") == "1"


def test_lines_for_a_script_that_is_renewed_for(place, environment, server):
    lines = re.search(r"^((?:    .*\n)*?    owner=.*--while.*\n(?:    .*\n)*)",
                      (ROOT / COMMAND).read_text(), re.MULTILINE).group(1)
    (place / "script").write_text(re.sub("^    ", "", lines, flags=re.MULTILINE))
    shell(place, environment, "sh -eu ./script")
    assert ran(place) == ["report.sh "]
    until("the lock is free", lambda: server.ask("EXISTS", "import") == "0")


def test_lines_of_other_kinds(place, environment):
    shell(place, environment, blocks(COMMAND, "sh")[3])
    assert ran(place) == ["migrate.sh release", "report.sh data", "import.sh data",
                          "encode.sh encoder", "post.sh ledger", "settle.sh orders"]


def test_the_doctor(place, environment, server):
    """It warns, because this server keeps nothing."""
    (block,) = [text for text in blocks(COMMAND, "sh") if "doctor" in text]
    line = block.replace("redis://localhost:6379", server.url)
    said = shell(place, environment, f"{line.strip()} || [ $? = 4 ]")
    assert said.startswith("warning: persistence-off: ") and "promise: one server: " in said


def test_the_fence_recipe_on_a_server_with_a_password(place, environment, server):
    manual = (ROOT / "docs/man/lockkeeper.1").read_text()
    recipe = re.search(r"^(export LOCKKEEPER_PASSWORD_FILE=.*?)^\.Ed", manual,
                       re.DOTALL | re.MULTILINE).group(1)
    (place / "make-report").write_text("#!/bin/sh\necho text\n")
    (place / "make-report").chmod(0o755)
    (place / ".lockkeeper-password").write_text("S3cr3t\n")
    server.ask("CONFIG", "SET", "requirepass", "S3cr3t")
    shell(place, {**environment, "HOME": str(place)}, recipe)
    assert (place / "report").read_text() == "text\n"


def test_names_of_the_pages_and_examples_do_not_collide(place, environment, server):
    """One server for all of them, in both orders: one name is one kind."""
    manual = (ROOT / "docs/man/lockkeeper.1").read_text()
    fence = re.search(r"^\.Bd -literal.*?\n(lockkeeper run --fence .*?)^\.Ed", manual,
                      re.DOTALL | re.MULTILINE).group(1)
    (place / "make-report").write_text("#!/bin/sh\necho text\n")
    (place / "make-report").chmod(0o755)
    examples = "".join(f"'{BUILD}/examples/example-{name}' {'customer' * (name == 'fair')}\n"
                       for name in ("fence", "plain", "fair", "spin", "lock", "many", "permits",
                                    "semaphore", "latch", "read_write"))
    pages = "".join([*(blocks(COMMAND, "sh")[number] for number in (0, 2, 3)),
                     blocks("README.md", "sh")[0], fence])
    for script in (examples + pages, pages + examples):
        server.ask("FLUSHALL")
        (place / "all").write_text(script)
        shell(place, environment, "timeout 60 sh -eu ./all")


def test_rights_of_the_redis_user(place, environment, server):
    """The line of SECURITY.md, and under it the lines of the command."""
    (place / "locks.acl").write_text((ROOT / "docs/acl/locks.acl").read_text())
    line = blocks("SECURITY.md", "sh")[0].replace("redis-cli", f"redis-cli -s {server.path}")
    shell(place, environment, line)
    server.ask("ACL", "SETUSER", "default", "resetpass", "off")
    limited = {**environment, "LOCKKEEPER_KEY_PREFIX": "app:", "LOCKKEEPER_PASSWORD": "change-me",
               "LOCKKEEPER_URL": server.url.replace("unix://", "unix://lockkeeper@")}
    for number in (0, 2, 3):
        shell(place, limited, blocks(COMMAND, "sh")[number])
