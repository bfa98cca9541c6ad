"""Where no server is named: the private one is used, and said to be; or it is refused."""
from __future__ import annotations

import contextlib
import pathlib

import pytest

from private import servers_in
from terminal import Terminal

pytestmark = pytest.mark.usefixtures("no_server_is_left")

ALONE = "other machines are not excluded"


@pytest.fixture
def plain(bare):
    """As an operator has it: nothing says that the private server is meant."""
    del bare.environment["LOCKKEEPER_PRIVATE"]
    return bare


@pytest.mark.parametrize("words", [("run", "job", "true"), ("lock", "-l", "1m", "job"),
                                   ("wait", "job"), ("ls",)], ids=lambda words: words[0])
def test_one_line_says_that_other_machines_are_not_excluded(plain, words):
    said = plain(*words)
    assert said.returncode == 0
    (line,) = said.stderr.splitlines()
    assert line.startswith("lockkeeper: no server is named: the private server of this user ")
    assert ALONE in line and "LOCKKEEPER_URL" in line and "--private" in line


@pytest.mark.parametrize("words, environment", [
    (["--private"], {}), (["-o", "private=on"], {}), ([], {"LOCKKEEPER_PRIVATE": "on"}),
    (["--private"], {"LOCKKEEPER_PRIVATE": "off"}),
])
def test_it_is_silent_when_that_is_meant(plain, words, environment):
    said = plain("run", *words, "job", "echo", "works", **environment)
    assert (said.returncode, said.stdout, said.stderr) == (0, "works\n", "")


def test_it_is_silent_on_a_terminal(plain):
    with contextlib.closing(Terminal(plain.environment)) as terminal:
        assert terminal.run("lockkeeper run job echo works").split() == ["works"]


@pytest.mark.parametrize("words, environment", [
    (["--no-private"], {}), (["-o", "private=off"], {}), ([], {"LOCKKEEPER_PRIVATE": "off"}),
    (["--private", "--no-private"], {}), (["--no-private"], {"LOCKKEEPER_PRIVATE": "on"}),
])
@pytest.mark.parametrize("command", [("run", "job", "true"), ("lock", "-l", "1m", "job"),
                                     ("show", "job"), ("doctor",)], ids=lambda words: words[0])
def test_it_can_be_refused(plain, folder, command, words, environment):
    refused = plain(command[0], *words, *command[1:], **environment)
    assert (refused.returncode, refused.stdout) == (125, "")
    (line,) = refused.stderr.splitlines()
    assert "no server is named" in line and "LOCKKEEPER_URL" in line
    assert not servers_in(folder), "none was started"


def test_a_named_server_is_used_all_the_same(plain, server, folder):
    used = plain("run", "--no-private", "--url", server.unix_url, "job", "true")
    assert (used.returncode, used.stderr) == (0, "")
    used = plain("run", "--private", "job", "sh", "-c", 'redis-cli -s "$0" EXISTS job',
                 server.path, LOCKKEEPER_URL=server.unix_url)
    assert (used.returncode, used.stdout) == (0, "1\n")
    assert not (folder / "state").exists()


@pytest.mark.parametrize("words", [[], ["--private"]])
def test_an_empty_url_is_an_error(plain, folder, words):
    """A variable that a unit or a script has failed to fill names no server."""
    refused = plain("run", *words, "job", "true", LOCKKEEPER_URL="")
    assert (refused.returncode, refused.stdout) == (125, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("lockkeeper: LOCKKEEPER_URL is empty")
    assert not servers_in(folder)


def test_verbose_names_the_server(plain, server):
    said = plain("run", "-v", "--url", server.unix_url, "job", "true").stderr
    assert f"lockkeeper: server: {server.unix_url}\n" in said
    state = pathlib.Path(plain.environment["LOCKKEEPER_STATE_DIR"])
    private = f"lockkeeper: server: unix://{state}/redis.sock (the private server of this user "
    for words in (("run", "job", "true"), ("lock", "-l", "1m", "job"), ("wait", "other"),
                  ("latch", "wait", "gate")):
        verb = 2 if words[0] == "latch" else 1
        assert private in plain(*words[:verb], "-v", *words[verb:]).stderr, words


def test_verbose_names_each_server_of_a_quorum(plain, make_three):
    urls = [server.unix_url for server in make_three({"appendonly": "yes",
                                                      "appendfsync": "always"})]
    said = plain("run", "-v", "job", "true", LOCKKEEPER_URL=",".join(urls))
    assert said.returncode == 0
    assert [line for line in said.stderr.splitlines() if ": server: " in line] == [
        f"lockkeeper: server: {url}" for url in urls]
