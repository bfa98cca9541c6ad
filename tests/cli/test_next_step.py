"""What goes wrong for a newcomer is told with what to do next."""
from __future__ import annotations

import os

import pytest

from command import Command
from rights import as_root

STEPS = [
    (("--url", "redis://localhost", "run", "job", "true"), 125,
     "option --url: options stand behind the command"),
    (("-v", "run", "job", "true"), 125, "option -v: options stand behind the command"),
    (("run", "job", "-v", "true"), 127, "the options of run stand before NAME"),
    (("elect", "--once", "job", "-v", "true"), 127, "the options of elect stand before NAME"),
    (("run", "job", "echo hello"), 127, "run -c STRING takes a line of the shell"),
    (("ls", "-x"), 125, "ls: option -x is unknown (see lockkeeper ls --help)"),
    (("ls", "--nosuch"), 125, "ls: option --nosuch is unknown, or short for several (see"),
    (("run", "--no", "job", "true"), 125, "run: option --no is unknown, or short for several (see"),
    (("ls", "--json=yes"), 125, "ls: option --json=yes takes no value (see"),
    (("run", "--nonblock=1", "job", "true"), 125, "run: option --nonblock=1 takes no value (see"),
    (("ls", "-o"), 125, "ls: option -o needs a value (see"),
]


@pytest.mark.parametrize("words, code, step", STEPS, ids=lambda value: str(value)[:40])
def test_wrong_words(cli, words, code, step):
    result = cli(*words)
    assert result.returncode == code
    assert step in result.stderr, result.stderr


def test_a_command_that_is_not_there_gets_no_advice(cli):
    assert len(cli("run", "job", "nosuch").stderr.splitlines()) == 1
    assert len(cli("run", "job", "/no such/file").stderr.splitlines()) == 1


def test_a_counter_is_neither_broken_nor_waited_for(cli):
    cli("sem", "set", "slots", "3")
    result = cli("break", "--yes", "slots")
    assert result.returncode == 125 and "lockkeeper sem delete removes it" in result.stderr
    result = cli("wait", "slots")
    assert result.returncode == 125 and "lockkeeper latch wait waits for a latch" in result.stderr


@pytest.mark.parametrize("words", [("run", "job", "true"), ("ls",), ("sem", "set", "slots", "2")],
                         ids=" ".join)
def test_rights_and_passwords(cli, server, words):
    server.call("ACL", "SETUSER", "weak", "on", ">a-secret", "~x*", "+@read")
    result = cli(*words, LOCKKEEPER_USERNAME="weak", LOCKKEEPER_PASSWORD="a-secret")
    assert result.returncode == 125 and "NOPERM" in result.stderr
    assert "lockkeeper doctor says which rights are missing" in result.stderr
    server.set("requirepass", "a-secret")
    result = cli(*words)
    assert result.returncode == 125 and "NOAUTH" in result.stderr
    assert "set LOCKKEEPER_PASSWORD, or name a file in LOCKKEEPER_PASSWORD_FILE" in result.stderr
    result = cli(*words, LOCKKEEPER_PASSWORD="wrong")
    assert "WRONGPASS" in result.stderr and "LOCKKEEPER_PASSWORD" not in result.stderr


@pytest.fixture
def homeless(folder):
    """A state folder that is to be made where nobody may write, or that belongs to another."""
    made = Command({"LOCKKEEPER_PRIVATE": "on"})
    yield made
    made.stop()


def test_a_folder_that_cannot_be_made(homeless):
    result = homeless("ls", LOCKKEEPER_STATE_DIR="/proc/nosuch/state")
    assert result.returncode == 125
    assert "cannot make the folder /proc/nosuch" in result.stderr
    assert "set LOCKKEEPER_STATE_DIR, or name a server in LOCKKEEPER_URL" in result.stderr


@as_root
def test_a_folder_of_another(homeless, folder):
    (folder / "other").mkdir(mode=0o700)
    os.chown(folder / "other", 12345, 12345)
    result = homeless("ls", LOCKKEEPER_STATE_DIR=str(folder / "other"))
    assert result.returncode == 125 and "belongs to user 12345" in result.stderr
    assert "set LOCKKEEPER_STATE_DIR, or name a server in LOCKKEEPER_URL" in result.stderr


def test_no_server_is_installed(homeless, folder):
    result = homeless("ls", LOCKKEEPER_STATE_DIR=str(folder / "state"), PATH="/nonexistent")
    assert result.returncode == 125
    assert "redis-server or valkey-server" in result.stderr
    assert "install one, or name a server in LOCKKEEPER_URL" in result.stderr
