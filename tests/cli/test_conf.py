"""The file of options for everybody on the machine, and what prevails over it."""
from __future__ import annotations

import os
import re
import socket

import pytest

from command import ROOT


def test_the_variables_of_the_command_are_documented():
    """In the manual, and for those who read only the pages."""
    read = {name for path in (ROOT / "cli").glob("*.c")
            for name in re.findall(r'getenv\("(LOCKKEEPER_\w+)"', path.read_text())}
    assert {"LOCKKEEPER_CONFIG", "LOCKKEEPER_STATE_DIR"} <= read
    read.discard("LOCKKEEPER_OUTER")
    read.discard("LOCKKEEPER_NAME")  # which run sets, and only the manual lists what that is
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    for text in ((ROOT / "docs/man/lockkeeper.1").read_text(), pages):
        assert not {name for name in read if name not in text}


@pytest.fixture
def conf(cli, folder):
    """conf(text): writes the file, for a command that has no server in its environment."""
    del cli.environment["LOCKKEEPER_URL"]
    cli.environment["LOCKKEEPER_STATE_DIR"] = str(folder / "state")
    cli.environment["LOCKKEEPER_CONFIG"] = str(folder / "lockkeeper.conf")

    def write(text: str | bytes):
        (folder / "lockkeeper.conf").write_bytes(text if isinstance(text, bytes)
                                                 else text.encode())
        return cli
    yield write
    if (folder / "state").exists():
        cli("server", "stop", "--force", LOCKKEEPER_CONFIG="/dev/null")


def lease(server, command, *words, **environment) -> int:
    """Of a lock that it takes, in s."""
    script = 'redis-cli -s "$0" PTTL job; true'
    said = command("run", *words, "job", "sh", "-c", script, server.path, **environment)
    assert (said.returncode, said.stderr) == (0, "")
    return -(-int(said.stdout) // 1000)


def test_it_names_the_server(conf, server, folder):
    command = conf(f"# for all\n\n  url={server.unix_url}  \r\nwatchdog_ms=77000\n")
    assert lease(server, command) == 77
    assert command("lock", "-l", "1m", "other").returncode == 0
    assert "other" in command("ls").stdout
    assert not (folder / "state").exists()


def test_the_environment_prevails_and_the_command_line_over_both(conf, server):
    command = conf(f"url={server.unix_url}\nwatchdog_ms=77000")
    assert lease(server, command, LOCKKEEPER_WATCHDOG_MS="66000") == 66
    assert lease(server, command, "-o", "watchdog_ms=55000", LOCKKEEPER_WATCHDOG_MS="66000") == 55
    assert lease(server, command, "-l", "44") == 44


def test_another_server_prevails(conf, server, folder):
    command = conf(f"url=unix://{folder}/nowhere.sock\nwatchdog_ms=77000\nprivate=off\n")
    assert lease(server, command, LOCKKEEPER_URL=server.unix_url) == 77
    assert lease(server, command, "--url", server.unix_url) == 77


def test_a_url_prevails_in_all_that_it_says(conf, server):
    """Another database, say, in which the lock would be another one."""
    url = f"{server.unix_url}?db=3&watchdog_ms=66000"
    command = conf("url=redis://never\ndatabase=1\nwatchdog_ms=77000\n")
    assert command("lock", "-l", "1m", "job", LOCKKEEPER_URL=url).returncode == 0
    assert command("lock", "-l", "1m", "--url", url, "other").returncode == 0
    assert server.call("INFO", "keyspace").count(b"db") == 1
    assert b"db3:keys=2" in server.call("INFO", "keyspace")


def test_its_own_options_prevail_over_its_url(conf, server):
    command = conf(f"database=2\nurl={server.unix_url}?db=3\n")
    assert command("lock", "-l", "1m", "job").returncode == 0
    assert b"db2:" in server.call("INFO", "keyspace")


def test_it_names_a_quorum(conf, make_three):
    servers = make_three({"appendonly": "yes", "appendfsync": "always"})
    command = conf(f"url={','.join(server.unix_url for server in servers)}\n")
    script = 'for path; do redis-cli -s "$path" EXISTS job; done'
    said = command("run", "job", "sh", "-c", script, "sh", *(server.path for server in servers))
    assert (said.returncode, said.stdout, said.stderr) == (0, "1\n1\n1\n", "")


def test_it_can_refuse_the_private_server(conf, folder):
    refused = conf("private=off\n")("run", "job", "true")
    assert refused.returncode == 125 and "private=off" in refused.stderr
    assert not (folder / "state").exists()


@pytest.mark.parametrize("words, environment", [
    (["--private"], {}), ([], {"LOCKKEEPER_PRIVATE": ""}), ([], {"LOCKKEEPER_PRIVATE": "on"})])
def test_the_private_server_may_be_asked_for_all_the_same(conf, words, environment):
    command = conf("private=off\n")
    assert command("run", *words, "job", "true", **environment).returncode == 0


def test_of_an_option_that_is_set_twice_the_last_value_counts(conf, server, folder):
    """Wherever the server comes from; a variable prevails over both."""
    url = f"url=unix://{folder}/none.sock\n"
    command = conf(f"{url}watchdog_ms=77000\nurl={server.unix_url}\nwatchdog_ms=66000\n")
    assert lease(server, command) == 66
    assert lease(server, command, LOCKKEEPER_URL=server.unix_url) == 66
    assert lease(server, command, LOCKKEEPER_WATCHDOG_MS="55000") == 55


def test_a_command_within_a_command_reads_the_file_anew(conf, server, folder):
    """As a service that a job has started, when the file names another server by now."""
    path = folder / "lockkeeper.conf"
    url = f"url=unix://{folder}/old.sock\\nwatchdog_ms=77000\\n"
    look = 'redis-cli -s "$0" PTTL inner; echo "$LOCKKEEPER_URL"'
    inner = f"lockkeeper run inner sh -c '{look}' \"$0\""
    command = conf(f"url={server.unix_url}\nwatchdog_ms=66000\n")
    script = f'printf "url={server.unix_url}\\nclient_name=x\\n" >{path}; {inner}'
    said = command("run", "job", "sh", "-c", script, server.path)
    left, named = said.stdout.split()
    assert 20000 < int(left) <= 30000 and named == server.unix_url, said.stderr
    command = conf(f"url={server.unix_url}\n")
    said = command("run", "job", "sh", "-c", f'printf "{url}" >{path}; lockkeeper run inner true')
    assert said.returncode == 125 and "old.sock" in said.stderr
    command = conf(f"url={server.unix_url}\n")
    own = f'printf "{url}" >{path}; export LOCKKEEPER_URL={server.unix_url}?db=0; {inner}'
    said = command("run", "job", "sh", "-c", own, server.path)
    assert 70000 < int(said.stdout.split()[0]) and said.returncode == 0, said.stderr


def test_a_byte_order_mark_is_passed_over(conf, server):
    command = conf(b"\xef\xbb\xbfwatchdog_ms=77000\r\nurl=" + server.unix_url.encode() + b"\r\n")
    assert lease(server, command) == 77


@pytest.mark.parametrize("make", ["pipe", "socket", "/dev/zero", "/dev/tty"])
def test_only_a_file_is_read(conf, folder, make):
    """A pipe would be waited for."""
    command = conf("")
    path = make if make[0] == "/" else str(folder / make)
    listener = socket.socket(socket.AF_UNIX)
    if make == "pipe":
        os.mkfifo(path)
    elif make == "socket":
        listener.bind(path)
    refused = command("ls", LOCKKEEPER_CONFIG=path)
    listener.close()
    assert refused.returncode == 125 and f"{path}: cannot be read" in refused.stderr


WRONG = [
    ("watchdog_ms=soon", ":1: watchdog_ms: \"soon\""),
    ("watchdog_ms = 5000", ":1: 'watchdog_ms ' is not an option (no blank may stand before the ="),
    ("watchdog_ms= 5000", ":1: watchdog_ms: \" 5000\" is not a plain decimal number (it begins"),
    ("watchdog_ms='5000'", ":1: watchdog_ms: \"'5000'\" is not a plain decimal number (it is in"),
    ("private=\"off\"", ":1: private: \"\"off\"\" is not on, off or empty (it is in quotes)"),
    ("key_prefix='app:'", ":1: key_prefix: \"'app:'\" is in quotes"),
    ("password_file=\"/etc/pw\"", ":1: password_file: \"\"/etc/pw\"\" is in quotes"),
    ("url=\"redis://x\"", ":1: url: is in quotes: write the URL alone"),
    ("url=localhost:6379", ":1: url: has no scheme: write redis:// before the host"),
    ("url=/run/redis.sock", ":1: url: has no scheme: write unix:// before the path"),
    ("url=redis://a, redis://b", ":1: url: has a blank behind a comma"),
    ("\n\nno_such=1", ":3: 'no_such' is not an option"),
    ("private", ":1: 'private' is not NAME=VALUE"),
    ("=1", ":1: '=1' is not NAME=VALUE"),
    ("private=maybe", ":1: private: \"maybe\" is not on, off or empty"),
    ("url=", ":1: url: the URL is empty"),
    ("url=http://x", ":1: url: "),
    ("password=S3cr3t", ":1: password: no password may stand here"),
    ("url=redis://u:S3cr3t@host", ":1: url: no password may stand here"),
    ("url=redis://a,redis://u:S3cr3t@b,redis://c", ":1: url: no password may stand here"),
    (b"private=off\n\0", ": has a NUL byte"),
    ("#" * 70000, ": has more than 65536 bytes"),
]


@pytest.mark.parametrize("text, wanted", WRONG, ids=[wanted for _, wanted in WRONG])
def test_what_is_wrong_is_named(conf, folder, text, wanted):
    command = conf(text)
    for words in (("run", "job", "true"), ("ls",), ("ls", "--url", f"unix://{folder}/none")):
        refused = command(*words)
        assert (refused.returncode, refused.stdout) == (125, "")
        (line,) = refused.stderr.splitlines()
        assert line.startswith(f"lockkeeper: {folder}/lockkeeper.conf{wanted}"), line
        assert "S3cr3t" not in line
    assert command("run", "--help").returncode == 0
    assert not (folder / "state").exists()


def test_a_file_that_is_named_must_be_there(conf, folder):
    command = conf("")
    for path in (f"{folder}/none.conf", str(folder)):
        refused = command("ls", LOCKKEEPER_CONFIG=path)
        assert refused.returncode == 125 and "cannot be read" in refused.stderr


@pytest.mark.parametrize("words, text, environment", [
    ([], "private=off\n", {}), ([], "private=off\n", {"LOCKKEEPER_URL": ""}),
    (["--no-private"], "", {}), ([], "", {"LOCKKEEPER_PRIVATE": "off"})], ids=str)
def test_one_that_is_refused_is_not_started_either(conf, folder, words, text, environment):
    refused = conf(text)("server", *words, "start", **environment)
    assert (refused.returncode, refused.stdout) == (125, "")
    assert "the private server is refused by --no-private, or private=off" in refused.stderr
    assert not (folder / "state").exists()


def test_one_that_runs_is_stopped_where_it_is_refused(conf, folder):
    command = conf("private=off\n")
    assert command("server", "start", "--private").returncode == 0
    assert command("server", "status").returncode == 0
    assert command("server", "stop").returncode == 0
    assert command("server", "status").returncode == 3


@pytest.mark.parametrize("text, cure", [
    ("url=redis://never\n", "unset it to use the one in {folder}/lockkeeper.conf"),
    ("private=off\n", "name a server there\n"),
    ("", "unset it to use the private server")])
def test_an_empty_variable_is_told_what_unsetting_it_would_do(conf, folder, text, cure):
    refused = conf(text)("run", "job", "true", LOCKKEEPER_URL="")
    assert refused.returncode == 125
    assert "LOCKKEEPER_URL is empty: name a server there" in refused.stderr
    assert cure.format(folder=folder) in refused.stderr


def test_an_empty_name_of_the_file_is_named_as_that(conf):
    refused = conf("")("ls", LOCKKEEPER_CONFIG="")
    assert refused.stderr == "lockkeeper: LOCKKEEPER_CONFIG is empty: name a file there, or " \
                             "unset it to use /etc/lockkeeper.conf\n"
    assert conf("")("--help").returncode == 0


def test_the_help_names_the_file(conf):
    assert "/etc/lockkeeper.conf" in conf("")("--help").stdout


def test_server_has_no_option_for_another_server(conf, folder):
    assert "--url" not in conf("")("server", "--help").stdout
    refused = conf("")("server", "--url", "redis://host", "start")
    assert refused.returncode == 125 and "--url" in refused.stderr
    assert not (folder / "state").exists()
