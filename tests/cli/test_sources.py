"""Where options come from: what follows from an option follows from the one that holds at last.

The lease is the watchdog's, and grace and quarantine follow from it.
"""
from __future__ import annotations

import itertools
import json

import pytest

from waiting import until

# Each source of the lease: what stands on the command line, and in the environment. The later one
# in the table prevails.
SOURCES = {
    "LOCKKEEPER_URL": lambda url, ms: ([], {"LOCKKEEPER_URL": f"{url}?watchdog_ms={ms}"}),
    "variable": lambda url, ms: ([], {"LOCKKEEPER_WATCHDOG_MS": ms}),
    "-o": lambda url, ms: (["-o", f"watchdog_ms={ms}"], {}),
    "-o url": lambda url, ms: (["-o", f"url={url}?watchdog_ms={ms}"], {}),
    "--url": lambda url, ms: (["--url", f"{url}?watchdog_ms={ms}"], {}),
    "-l": lambda url, ms: (["-l", f"{ms}ms"], {}),
}
LONG_MS = 90000
ALONE = [(name,) for name in SOURCES]
PAIRS = list(itertools.combinations(SOURCES, 2))


def asked(names, url, leases_ms) -> tuple[list[str], dict[str, str]]:
    """Words and environment; the last source gets the first lease."""
    words, environment = [], {"LOCKKEEPER_URL": url}
    for name, ms in zip(reversed(names), leases_ms, strict=False):
        more, variables = SOURCES[name](url, str(ms))
        words = more + words
        environment |= variables
    return words, environment


@pytest.fixture
def three(make_three):
    """They keep nothing, so that they have no vote at first."""
    return make_three()


@pytest.mark.parametrize("names", ALONE + PAIRS, ids=" ".join)
@pytest.mark.parametrize("leases_ms", [(12000, 90000), (90000, 12000)])
def test_the_lease_is_one(cli, server, names, leases_ms):
    """On the server, and for -k, whose most is half of it."""
    words, environment = asked(names, server.unix_url, leases_ms)
    lease_ms = leases_ms[0]
    refused = cli("run", *words, "-k", f"{lease_ms // 2 + 1}ms", "job", "true", **environment)
    assert refused.returncode == 125
    assert f"more than half of the lease of {lease_ms} ms" in refused.stderr
    held = cli.start("run", *words, "-k", f"{lease_ms // 2}ms", "job", "sleep", "60",
                     **environment)
    until(lambda: server.call("EXISTS", "job"), 20, held.args)
    assert lease_ms * 0.5 < server.call("PTTL", "job") <= lease_ms
    held.terminate()
    assert held.wait(20) == 128 + 15, held.stderr.read()


@pytest.mark.parametrize("first, second", itertools.permutations(["-o", "-o url", "--url"], 2))
def test_on_the_command_line_the_later_prevails(cli, server, first, second):
    words = []
    for name, ms in ((first, 90000), (second, 12000)):
        words += SOURCES[name](server.unix_url, str(ms))[0]
    refused = cli("run", *words, "-k", "6001ms", "job", "true")
    assert "more than half of the lease of 12000 ms" in refused.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_the_quarantine_is_at_least_the_lease(cli, three, name):
    """Somebody may have the lock for that long, on a server that does not know it any more."""
    words, environment = SOURCES[name](three[0].unix_url, str(LONG_MS))
    urls = [server.unix_url for server in three]
    if name in ("--url", "LOCKKEEPER_URL"):
        urls[0] += f"?watchdog_ms={LONG_MS}"
        words, environment = [], {}
    if name == "LOCKKEEPER_URL":
        environment["LOCKKEEPER_URL"] = ",".join(urls)
    else:
        words += [word for url in urls for word in ("--url", url)]
    refused = cli("run", *words, "--quarantine", "60", "job", "true", **environment)
    assert refused.returncode == 125
    assert f"less than the lease of {LONG_MS} ms" in refused.stderr


@pytest.mark.parametrize("place", range(3))
def test_a_quorum_has_one_lease_whichever_url_names_it(cli, three, place):
    urls = [server.unix_url for server in three]
    urls[place] += f"?watchdog_ms={LONG_MS}"
    named = [word for url in urls for word in ("--url", url)]
    refused = cli("run", *named, "--quarantine", "60", "job", "true", LOCKKEEPER_URL="")
    assert refused.returncode == 125
    assert f"less than the lease of {LONG_MS} ms" in refused.stderr
    held = cli.start("run", "-l", "20s", "--quarantine", "20s", *named, "job", "sleep", "60",
                     LOCKKEEPER_URL="")
    until(lambda: all(server.call("EXISTS", "job") for server in three), 60, "all have it")
    assert all(server.call("PTTL", "job") <= 20000 for server in three)
    held.terminate()
    assert held.wait(20) == 128 + 15


# How the three servers of a quorum are named, and which name each client gets. {0} … are the URLs.
NAMED = {
    "each has its own": (
        "--url {0}?client_name=a --url {1}?client_name=b --url {2}?client_name=c", {}, "a b c"),
    "the others have none": (
        "-o client_name=x --url {0} --url {1}?client_name=b --url {2}", {}, "x b x"),
    "an option behind all": (
        "--url {0}?client_name=a --url {1} --url {2}?client_name=c -o client_name=x", {}, "x x x"),
    "an option behind two": (
        "--url {0}?client_name=a --url {1} -o client_name=x --url {2}?client_name=c", {}, "x x c"),
    "a list": ("", {"LOCKKEEPER_URL": "{0}?client_name=a,{1},{2}?client_name=c"},
               "a lockkeeper c"),
    "a list and an option": (
        "-o client_name=x", {"LOCKKEEPER_URL": "{0}?client_name=a,{1},{2}?client_name=c"}, "x x x"),
    "a list and a variable": (
        "", {"LOCKKEEPER_URL": "{0}?client_name=a,{1},{2}?client_name=c",
             "LOCKKEEPER_CLIENT_NAME": "x"}, "x x x"),
}


def names_of_clients(server) -> set[str]:
    return {dict(word.split("=", 1) for word in line.split())["name"]
            for line in server.clients()}


@pytest.mark.parametrize("how", NAMED)
def test_a_url_of_a_quorum_is_for_its_own_server(cli, three, how):
    words, variables, names = NAMED[how]
    urls = [server.unix_url for server in three]
    environment = {"LOCKKEEPER_URL": ""}
    environment |= {name: value.format(*urls) for name, value in variables.items()}
    held = cli.start("run", "-l", "1", "--quarantine", "1", *words.format(*urls).split(), "job",
                     "sleep", "60", **environment)
    until(lambda: all(server.call("EXISTS", "job") for server in three), 60, "all have it")
    assert [names_of_clients(server) for server in three] == [{name} for name in names.split()]
    held.terminate()
    assert held.wait(20) == 128 + 15, held.stderr.read()


def test_a_database_of_a_quorum_is_for_its_own_server(cli, three):
    urls = [f"redis://127.0.0.1:{server.port}" for server in three]
    urls[1] += "/3"
    held = cli.start("run", "-l", "1", "--quarantine", "1",
                     *(word for url in urls for word in ("--url", url)), "job", "sleep", "60",
                     LOCKKEEPER_URL="")
    for server, number in zip(three, (0, 3, 0)):
        until(lambda: f"db{number}:keys" in server.call("INFO", "keyspace").decode(), 60, "held")
        assert server.call("INFO", "keyspace").decode().count("keys=") == 1
    held.terminate()
    assert held.wait(20) == 128 + 15, held.stderr.read()


RECORD_SOURCES = {
    "variable": lambda url: ([], {"LOCKKEEPER_CLIENT_RECORD": "arguments"}),
    "LOCKKEEPER_URL": lambda url: ([], {"LOCKKEEPER_URL": f"{url}?client_record=arguments"}),
    "-o": lambda url: (["-o", "client_record=arguments"], {}),
    "-o url": lambda url: (["-o", f"url={url}?client_record=arguments"], {}),
    "--url": lambda url: (["--url", f"{url}?client_record=arguments"], {}),
}


@pytest.mark.parametrize("name", RECORD_SOURCES)
def test_arguments_are_told_wherever_that_is_asked_for(cli, server, name):
    words, environment = RECORD_SOURCES[name](server.unix_url)
    del cli.environment["LOCKKEEPER_CLIENT_RECORD"]  # it would prevail over the URL's
    held = cli.start("run", *words, "job", "sleep", "60", **environment)
    until(lambda: server.call("EXISTS", "job"), 20, "it is held")

    def program():
        (lock,) = json.loads(cli("ls", "--json").stdout)
        client = lock["holders"][0]["client"]
        return client and client["program"]
    assert until(program, 20, "the record is written") == "sleep 60"
    held.terminate()
    held.wait(20)


CONNECTIONS = {
    "LOCKKEEPER_URL": lambda url, count: ([], {"LOCKKEEPER_URL": f"{url}?connections={count}"}),
    "variable": lambda url, count: ([], {"LOCKKEEPER_CONNECTIONS": count}),
    "-o": lambda url, count: (["-o", f"connections={count}"], {}),
    "-o url": lambda url, count: (["-o", f"url={url}?connections={count}"], {}),
    "--url": lambda url, count: (["--url", f"{url}?connections={count}"], {}),
}


@pytest.mark.parametrize("name", CONNECTIONS)
def test_connections_are_read_from_each_source(cli, server, name):
    """The command has one thread, and so one of them, whatever is allowed."""
    for count, why in (("0", "1 … 16"), ("17", "1 … 16"), ("many", "plain decimal number")):
        words, environment = CONNECTIONS[name](server.unix_url, count)
        refused = cli("run", *words, "job", "true", **environment)
        assert refused.returncode == 125
        assert "connections" in refused.stderr and why in refused.stderr, refused.stderr
    words, environment = CONNECTIONS[name](server.unix_url, "16")
    held = cli.start("run", *words, "-l", "60s", "job", "sleep", "60", **environment)
    until(lambda: server.call("EXISTS", "job"), 20, held.args)
    assert len(server.clients()) <= 3  # one for scripts, one for messages, one for renewals
    held.terminate()
    assert held.wait(20) == 128 + 15, held.stderr.read()


QUORUM = {
    "--url": "--url {0},{1},{2}",
    "-o url": "-o url={0},{1},{2}",
    "-o url over --url": "--url redis://never -o url={0},{1},{2}",
    "-o url over -o url": "-o url=redis://never -o url={0},{1},{2}",
    "--url over -o url": "-o url=redis://never --url {0} --url {1},{2}",
}


@pytest.mark.parametrize("how", QUORUM)
def test_a_list_is_a_quorum_however_it_is_named(cli, three, how):
    words = QUORUM[how].format(*(server.unix_url for server in three)).split()
    held = cli.start("run", "-l", "1", "--quarantine", "1", *words, "job", "sleep", "60")
    until(lambda: all(server.call("EXISTS", "job") for server in three), 60, "all have it")
    assert cli("show", *words, "job").returncode == 0
    held.terminate()
    assert held.wait(20) == 128 + 15, held.stderr.read()


def test_one_behind_several_is_alone(cli, server):
    several = ("--url", "redis://a,redis://b,redis://c", "-o", f"url={server.unix_url}")
    assert cli("run", *several, "job", "true").returncode == 0


@pytest.mark.parametrize("word", ["-o", "--url"])
def test_where_a_quorum_does_not_work_a_list_is_named_as_that(cli, word):
    value = "redis://a,redis://b,redis://c"
    refused = cli("lock", word, f"url={value}" if word == "-o" else value, "-l", "5", "job")
    assert refused.returncode == 125
    assert "are a quorum, on which it does not work" in refused.stderr


@pytest.mark.parametrize("words", [
    ["--url", "redis://h:1,h:2,h:3"], ["--url", "redis://h,h:2"], ["-o", "url=redis://h:1,h:2"]],
    ids=" ".join)
def test_hosts_of_a_quorum_are_told_to_be_whole_urls(cli, words):
    refused = cli("run", *words, "job", "true")
    assert refused.returncode == 125
    assert "names one server; a quorum is several whole URLs" in refused.stderr
    if words[0] == "--url":
        refused = cli("run", *words, "--quarantine", "1m", "job", "true")
        assert refused.returncode == 125
        assert "--quarantine is for several servers, each a whole URL" in refused.stderr


HINTS = {
    "LOCKKEEPER_URL quotes": ({"LOCKKEEPER_URL": "'{url}'"}, "url: is in quotes"),
    "LOCKKEEPER_URL newline": ({"LOCKKEEPER_URL": "{url}\n"}, "url: ends in a line break"),
    "LOCKKEEPER_URL blank": ({"LOCKKEEPER_URL": " {url}"}, "url: begins with a blank"),
    "LOCKKEEPER_URL no scheme": ({"LOCKKEEPER_URL": "localhost:6379"}, "write redis:// before"),
    "a number": ({"LOCKKEEPER_WATCHDOG_MS": "5000\r\n"}, "(it ends in a line break)"),
    "a word": ({"LOCKKEEPER_CLIENT_RECORD": "off\n"}, "(it ends in a line break)"),
    "a prefix": ({"LOCKKEEPER_KEY_PREFIX": "app:\n"}, "key_prefix: \"app:?\" ends in a line break"),
    "a folder": ({"LOCKKEEPER_STATE_DIR": "/tmp/x\n", "LOCKKEEPER_URL": None}, "has a line break"),
    "a file": ({"LOCKKEEPER_TLS_CA_FILE": "'/etc/ca'"}, "tls_ca_file: \"'/etc/ca'\" is in quotes"),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_stands_around_a_value_is_told(cli, server, name):
    variables, hint = HINTS[name]
    environment = {key: value.format(url=server.unix_url)
                   for key, value in variables.items() if value is not None}
    for key in set(variables) - set(environment):
        del cli.environment[key]
    refused = cli("run", "job", "true", **environment)
    assert refused.returncode == 125 and hint in refused.stderr, refused.stderr


def test_what_stands_around_a_password_is_told_when_it_is_refused(cli, server, folder):
    server.call("CONFIG", "SET", "requirepass", "word")
    (folder / "pw").write_text("word \n")
    for variables, hint in (({"LOCKKEEPER_PASSWORD": "word\n"}, "ends in a line break"),
                            ({"LOCKKEEPER_PASSWORD": "'word'"}, "is in quotes"),
                            ({"LOCKKEEPER_URL": server.unix_url.replace("://", "://:word%0A@")},
                             "ends in a line break"),
                            ({"LOCKKEEPER_PASSWORD_FILE": f"{folder}/pw"}, "ends in a blank"),
                            ({"LOCKKEEPER_PASSWORD": "other"}, None)):
        refused = cli("run", "job", "true", **variables)
        assert refused.returncode == 125 and "WRONGPASS" in refused.stderr
        assert (f"(the password {hint})" if hint else "WRONGPASS") in refused.stderr
        assert ("the password" in refused.stderr) == bool(hint)
        assert "word\n" not in refused.stderr and "word%0A" not in refused.stderr
    assert cli("run", "job", "true", LOCKKEEPER_PASSWORD="word").returncode == 0
