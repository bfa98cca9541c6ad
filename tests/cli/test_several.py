"""lockkeeper run with several locks (--also), and with several servers (a quorum)."""
from __future__ import annotations

import pytest

from fixtures import make_proxy, proxy  # noqa: F401  (fixtures)
from proxy import HELLO_OF_SEVERAL, Replace
from waiting import until

STRANGER = ("HSET", "{}", "12345678-1234-4234-8234-123456789abc:1", "1")


def take_by_stranger(server, name):
    server.call(*(word.format(name) for word in STRANGER))
    server.call("PEXPIRE", name, 60000)


def test_also_takes_all(cli, server):
    seen = cli("run", "--also", "b", "--also", "c", "a", "sh", "-c",
               "echo $LOCKKEEPER_NAME; sleep 0.2", LOCKKEEPER_URL=server.unix_url)
    assert (seen.returncode, seen.stdout) == (0, "a\n")
    assert server.call("DBSIZE") == 0
    held = cli.start("run", "--also", "b", "a", "sleep", "60", LOCKKEEPER_URL=server.unix_url)
    until(lambda: server.call("EXISTS", "a", "b") == 2, 20, "both are held")
    assert cli("run", "-n", "b", "true", LOCKKEEPER_URL=server.unix_url).returncode == 124
    held.terminate()
    held.wait(20)
    until(lambda: server.call("DBSIZE") == 0, 20, "both are free")


def test_also_takes_nothing_when_one_is_busy(cli, server):
    take_by_stranger(server, "b")
    assert cli("run", "-n", "--also", "b", "a", "true",
               LOCKKEEPER_URL=server.unix_url).returncode == 124
    assert server.call("EXISTS", "a") == 0
    server.call("DEL", "b")


def test_also_behind_a_proxy_that_spreads_keys(cli, server, proxy):  # noqa: F811
    """Two names would be on two servers, and the script at one of them."""
    proxy.rule = lambda m: Replace(HELLO_OF_SEVERAL) if m.reply and m.what == "hello" else None
    seen = cli("run", "-n", "--also", "b", "a", "true", LOCKKEEPER_URL=proxy.unix_url)
    assert seen.returncode == 125 and "name the servers themselves" in seen.stderr
    assert cli("run", "a", "true", LOCKKEEPER_URL=proxy.unix_url).returncode == 0


@pytest.fixture
def three(make_three):
    """Three servers that write everything down, so that they have a vote at once."""
    return make_three({"appendonly": "yes", "appendfsync": "always"})


def urls(servers):
    return [word for server in servers for word in ("--url", server.unix_url)]


def test_quorum(cli, three):
    script = "sleep 0.3"
    seen = cli("run", *urls(three), "q", "sh", "-c", script, LOCKKEEPER_URL="")
    assert seen.returncode == 0, seen.stderr
    until(lambda: not any(server.call("EXISTS", "q") for server in three), 20, "all are free")
    for server in three[:2]:
        take_by_stranger(server, "q")
    assert cli("run", "-n", *urls(three), "q", "true", LOCKKEEPER_URL="").returncode == 124
    for server in three[:2]:
        server.call("DEL", "q")
    three[1].kill()
    assert cli("run", *urls(three), "q", "true", LOCKKEEPER_URL="").returncode == 0
    three[2].kill()
    seen = cli("run", "-n", *urls(three), "q", "true", LOCKKEEPER_URL="")
    assert seen.returncode == 125 and "3 nodes grant it, 2 are needed" in seen.stderr


def test_a_lock_that_is_held_beside_a_dead_node_is_busy(cli, three):
    """Whichever node answers first."""
    for server in three[:2]:
        take_by_stranger(server, "q")
    three[2].kill()
    for _ in range(10):
        seen = cli("run", "-nv", *urls(three), "q", "true", LOCKKEEPER_URL="")
        assert seen.returncode == 124, seen.stderr
        assert "held by another owner" in seen.stderr


def test_quorum_from_the_environment(cli, three):
    listed = ",".join(server.unix_url for server in three)
    seen = cli("run", "--plain", "q", "sh", "-c", "echo $LOCKKEEPER_URL", LOCKKEEPER_URL=listed)
    assert (seen.returncode, seen.stdout) == (0, listed + "\n"), seen.stderr
    one = cli("run", "--url", three[0].unix_url, "q", "true", LOCKKEEPER_URL=listed)
    assert one.returncode == 0, one.stderr


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_list_is_a_list_on_the_command_line_too(cli, three, cut):
    urls = [server.unix_url for server in three]
    words = ["--url", ",".join(urls[:cut])]
    words += [word for url in urls[cut:] for word in ("--url", url)]
    # A majority is enough to begin: the last server may have it a moment later.
    script = ('for path; do tries=0; until [ "$(redis-cli -s "$path" EXISTS q)" = 1 ]; do '
              '[ $((tries += 1)) -lt 200 ] || break; sleep 0.05; done; '
              'redis-cli -s "$path" EXISTS q; done')
    seen = cli("run", *words, "q", "sh", "-c", script, "sh", *(server.path for server in three),
               LOCKKEEPER_URL="")
    assert (seen.returncode, seen.stdout) == (0, "1\n1\n1\n"), seen.stderr
    assert cli("ls", *words, LOCKKEEPER_URL="").returncode == 0


def test_a_list_with_a_password_on_the_command_line(cli):
    seen = cli("ls", "--url", "redis://a,redis://user:S3cr3t@b,redis://c", LOCKKEEPER_URL="")
    assert seen.returncode == 125 and "LOCKKEEPER_PASSWORD" in seen.stderr
    assert "S3cr3t" not in seen.stderr


def test_a_quorum_outlives_a_node_and_not_a_majority(cli, three):
    held = cli.start("run", "-l", "3", "-k", "0.2", *urls(three), "q", "sleep", "60",
                     LOCKKEEPER_URL="")
    until(lambda: sum(server.call("EXISTS", "q") for server in three) >= 2, 20, "it is held")
    three[0].call("DEL", "q")
    until(lambda: all(server.call("EXISTS", "q") for server in three), 20, "it is mended")
    assert held.poll() is None
    for server in three[:2]:
        server.pause()  # a majority is silent: the lease ends, and the command before it
    try:
        assert held.wait(20) == 123, held.stderr.read()
    finally:
        for server in three[:2]:
            server.resume()


def test_options_that_exclude_each_other(cli, server):
    url = server.unix_url
    for words in (["--also", "b", "--fair"], ["--also", "b", "--permits", "2"],
                  ["--also", ""], ["--url", url, "--url", url],
                  ["--url", url, "--url", url, "--url", url],
                  ["--url", url, "--url", url, "--url", url, "--also", "b"],
                  ["--url", url, "--url", url, "--url", url, "--shared"]):
        seen = cli("run", "-n", *words, "a", "true", LOCKKEEPER_URL=url)
        assert seen.returncode == 125 and seen.stderr, words
    assert server.call("DBSIZE") == 0


@pytest.fixture
def forgetful(make_three):
    """Three servers that have just been started and keep nothing."""
    return make_three()


def test_a_forgetful_node_has_no_vote_even_for_a_short_lease(cli, forgetful):
    """Somebody else may have taken the lock for longer than we do."""
    seen = cli("run", "-n", "-l", "1", *urls(forgetful), "q", "true", LOCKKEEPER_URL="")
    assert seen.returncode == 125 and "0 of 3 nodes" in seen.stderr, seen.stderr


def test_quarantine_is_settable(cli, forgetful):
    short = ["run", "-n", "-l", "1", "--quarantine", "1"]
    until(lambda: cli(*short, *urls(forgetful), "q", "true", LOCKKEEPER_URL="").returncode == 0,
          20, "the servers have run for a second")


@pytest.mark.parametrize("args, culprit", [
    (["--quarantine", "1", "-l", "2"], "less than the lease"),
    (["--quarantine", "0"], "--quarantine: '0'"),
])
def test_wrong_quarantines(cli, forgetful, args, culprit):
    seen = cli("run", *args, *urls(forgetful), "q", "true", LOCKKEEPER_URL="")
    assert seen.returncode == 125 and culprit in seen.stderr
    assert "several servers" in cli("run", "--quarantine", "9", "q", "true").stderr


@pytest.mark.parametrize("args", [
    ["lock", "-l", "5", "q"], ["unlock", "q", "o"],
    ["extend", "-l", "5", "q", "o"], ["latch", "set", "q", "1"], ["sem", "show", "q"],
    ["fence", "check", "q", "1"],
])
def test_other_commands_take_one_server(cli, three, args):
    named = cli(args[0], *urls(three), *args[1:], LOCKKEEPER_URL="")
    assert named.returncode == 125 and "on which it does not work" in named.stderr
    listed = ",".join(server.unix_url for server in three)
    named = cli(args[0], "--url", listed, *args[1:], LOCKKEEPER_URL="")
    assert named.returncode == 125 and "on which it does not work" in named.stderr
    from_list = cli(*args, LOCKKEEPER_URL=listed)
    assert from_list.returncode == 125 and "this command does not work" in from_list.stderr
    assert not any(server.call("DBSIZE") for server in three)


def test_one_server_beside_a_list(cli, three):
    listed = ",".join(server.unix_url for server in three)
    cli("latch", "set", "--url", three[1].unix_url, "q", "1", LOCKKEEPER_URL=listed)
    assert [server.call("EXISTS", "q") for server in three] == [0, 1, 0]


def test_passwords_in_a_list_are_refused_and_not_repeated(cli):
    seen = cli("run", "q", "true", LOCKKEEPER_URL="redis://:S3cr3t@a,redis://b,redis://c")
    assert seen.returncode == 125 and "LOCKKEEPER_PASSWORD" in seen.stderr
    assert "S3cr3t" not in seen.stderr and "argument" not in seen.stderr
