"""lockkeeper lock --while: which process it is, and whether that can be told of a loss."""
from __future__ import annotations

import subprocess
import sys

import pytest

from command import BINARY
from rights import as_root, namespaces, refused
from test_lock_while import await_nothing, keepers, start_script
from waiting import never, until

NOBODY = "65534"
TAKE = "lockkeeper lock -l 1500ms --while caller"

# What runs the command, in a process of its own or in its own place.
RUNNERS = {
    "timeout": f"timeout 60 {TAKE} job",
    "flock": f"flock file {TAKE} job",
    "xargs": f"echo job | xargs {TAKE}",
    "xargs -I": f"echo job | xargs -I N {TAKE} N",
    "find": f"find . -maxdepth 0 -exec {TAKE} job ';'",
    "env": f"env A=b {TAKE} job",
    "nice": f"nice {TAKE} job",
    "setsid": f"setsid -w {TAKE} job",
    "several": f"timeout 60 nice flock file env A=b timeout 60 {TAKE} job",
    "run": f"lockkeeper run other {TAKE} job",
    "a script that hands on": f"./hands-on {TAKE} job",
    "sh -c": f"sh -c '{TAKE} job 2>/dev/null'",
    "bash -ec": f"bash -ec 'timeout 60 {TAKE} job'",
    "runuser": f"runuser -u root -- {TAKE} job",
}


def begin(cli, server, folder, line: str):
    hands_on = folder / "hands-on"
    hands_on.write_text('#!/bin/sh\n"$@"\n')
    hands_on.chmod(0o755)
    script = start_script(cli, folder, f"{line}\necho $?\nread line < fifo")
    return script


@pytest.fixture(autouse=True)
def no_keeper_is_left(server):
    yield
    for pid in keepers(server):
        subprocess.run(["kill", "-KILL", str(pid)], check=False)


@pytest.mark.parametrize("subshell", ["", "owner=$(", "( "], ids=["plain", "$(", "("])
@pytest.mark.parametrize("name", RUNNERS)
def test_the_script_is_found_behind_what_runs_the_command(cli, server, folder, name, subshell):
    line = RUNNERS[name]
    reason = refused("runuser", "-u", "root", "--") if name == "runuser" else ""
    if reason:
        pytest.skip(reason)
    subprocess.run(["mkfifo", folder / "fifo"], check=True)
    script = begin(cli, server, folder, f"{subshell}{line}{')' if subshell else ''}")
    until(lambda: server.call("EXISTS", "job") or script.poll() is not None, 30, "it is locked")
    never(lambda: not server.call("EXISTS", "job"), 2, "it is held")
    script.kill()
    await_nothing(server)


UNCLEAR = {
    "sh -c": f"sh -c '{TAKE} job; true'",
    "bash -c, in a subshell": f"bash -c 'owner=$({TAKE} job); exit'",
    "python -c": f"""{sys.executable} -c 'import os; os.system("{TAKE} job; exit $?")'""",
    "timeout sh -c": f"timeout 60 sh -c '{TAKE} job; true'",
    "xargs with all words": f"echo '{TAKE.split(' ', 1)[1]} job' | xargs lockkeeper",
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_where_it_cannot_be_told_it_is_refused(cli, server, folder, name):
    script = start_script(cli, folder, UNCLEAR[name])
    said = script.communicate(timeout=60)[1]
    assert "option --while: caller cannot be told here: " in said and "$$ of a shell" in said
    assert server.call("EXISTS", "job") == 0 and not keepers(server)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_that_ends_with_it(cli, server, folder, shell):
    script = start_script(cli, folder, f"{shell} -c 'lockkeeper lock --while $$ job'; exit $?")
    said = script.communicate(timeout=60)[1]
    assert script.returncode == 125 and "ends with it" in said
    assert server.call("EXISTS", "job") == 0 and not keepers(server)


@as_root
def test_a_process_of_another_user_is_refused(cli, server):
    """It cannot be signalled by one who lacks the right to."""
    other = subprocess.Popen(["setpriv", "--reuid", NOBODY, "--clear-groups", "sleep", "600"])
    try:
        until(lambda: open(f"/proc/{other.pid}/comm").read() == "sleep\n", 20, "it runs")
        done = subprocess.run(["setpriv", "--bounding-set=-kill", "--inh-caps=-kill", BINARY,
                               "lock", "--while", str(other.pid), "job"], capture_output=True,
                              text=True, env=cli.environment, timeout=60, check=False)
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 125 and "belongs to another user" in done.stderr
    assert server.call("EXISTS", "job") == 0 and not keepers(server)


IGNORES = "ignores SIGTERM, which would tell it that the lock is lost"


@pytest.mark.parametrize("options,said", [("", IGNORES), ("-s USR1", "")])
def test_a_process_that_ignores_the_signal(cli, server, folder, options, said):
    script = start_script(cli, folder, f"trap '' TERM\nlockkeeper lock {options} --while $$ job")
    errors = script.communicate(timeout=60)[1]
    assert script.returncode == 0 and (said in errors if said else errors == "")
    await_nothing(server)


@pytest.mark.parametrize("trap,said", [("", IGNORES), ("trap 'exit 1' TERM", "")])
def test_the_first_process_of_a_container(cli, server, folder, trap, said):
    """The kernel keeps a signal from it that it does not catch."""
    path = folder / "script"
    path.write_text(f"{trap}\nlockkeeper lock --while $$ job\n:\n")
    done = subprocess.run([*namespaces("--pid", "--fork"), "sh", path], capture_output=True,
                          text=True, env=cli.environment, timeout=60, check=False)
    assert done.returncode == 0 and (said in done.stderr if said else done.stderr == "")
    until(lambda: not keepers(server), 20, "its end is the end of all in it")
