"""-w covers the trouble that it is for; without it, and with -n, trouble is told at once."""
from __future__ import annotations

import os

import pytest

COMMANDS = {
    "run": (["run", "-v"], ["job", "true"]),
    "run --fair": (["run", "-v", "--fair"], ["job", "true"]),
    "run --permits": (["run", "-v", "--permits", "2"], ["job", "true"]),
    "lock": (["lock", "-v", "-l", "60"], ["job"]),
    "wait": (["wait", "-v"], ["job"]),
    "latch wait": (["latch", "wait", "-v"], ["gate"]),
}


@pytest.fixture
def later(folder):
    """later(server): a path where the server is from then on; and its URL before."""
    class Later:
        path = folder / "later.sock"
        url = f"unix://{path}"

        def __call__(self, server):
            os.symlink(server.path, self.path)

    return Later()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_server_that_comes_later(cli, server, later, name):
    """The command goes on waiting: it says on stderr for what."""
    before, behind = COMMANDS[name]
    waits = cli.start(*before, "-w", "60", *behind, LOCKKEEPER_URL=later.url)
    assert waits.stderr.readline().startswith("lockkeeper: server: ")
    said = waits.stderr.readline()
    assert said.startswith(f"lockkeeper: waiting for {behind[0]}: "), said
    later(server)
    assert waits.wait(60) == 0, waits.stderr.read()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("limit", [["-n"], [], ["-w", "0"]], ids=" ".join)
def test_without_a_limit_it_is_told(cli, server, later, name, limit):
    before, behind = COMMANDS[name]
    seen = cli(*before, *limit, *behind, LOCKKEEPER_URL=later.url)
    assert seen.returncode == 125
    assert str(later.path) in seen.stderr


def test_the_limit_ends_with_the_reason(cli, server, later):
    seen = cli("run", "-w", "0.5", "job", "true", LOCKKEEPER_URL=later.url)
    assert seen.returncode == 125
    assert str(later.path) in seen.stderr
