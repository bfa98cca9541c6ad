"""lockkeeper metrics: what is on a server, as text for Prometheus and as a page for people."""
from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import urllib.error
import urllib.request

import pytest

from command import BINARY
from test_run import hold
from waiting import until

HOSTILE = [b'quote"', b"back\\slash", b"new\nline", b"nul\0byte", b"\xff\xfe", b"\xfe\xff",
           "\u202eé".encode(), b"<script>alert(1)</script>", b"</td><img src=x>", b"a&amp;'b",
           b"{x=\"1\"} 5\n# EOF\n"]
NEEDS_HTTP = pytest.mark.skipif(
    b"was built without libmicrohttpd" in BINARY.read_bytes(), reason="it needs libmicrohttpd")


def samples(text):
    """By name and label, as Prometheus' own parsers read them, in either format; each once."""
    found = read("prometheus_client.parser", text)
    assert read("prometheus_client.openmetrics.parser", text) == found
    return found


def read(module, text):
    parser = pytest.importorskip(module)
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type == "gauge"
        for sample in family.samples:
            (label,) = sample.labels.values() or [""]
            key = (sample.name.removeprefix("lockkeeper_server_"), label)
            assert key not in found
            found[key] = sample.value
    return found


def shown(cli, *words, **environment):
    result = cli("metrics", *words, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    return samples(result.stdout)


def test_an_empty_server_has_all_series(cli):
    found = shown(cli)
    assert found["up", ""] == 1
    assert found["locks", "lock"] == found["locks", "foreign lock"] == 0
    for name in ("waiting", "contended_locks", "locks_without_lease", "foreign_locks",
                 "permits_used", "permits_free", "partial"):
        assert found[name, ""] == 0
    assert found["findings", "warning"] >= 1  # the test's server has no persistence


def test_it_counts_what_is_there(cli, server):
    hold(server, "backup", "stranger:7")
    hold(server, "report", "stranger:8")
    server.call("PERSIST", "report")
    server.call("SET", "0b51:other", "0b51cc9e-6a3c-4a7f-8d52-90c1f0a6f1de", "PX", "60000")
    cli("run", "--permits", "3", "pool", "true")
    with contextlib.ExitStack() as stack:
        process = cli.start("run", "--permits", "3", "pool", "sleep", "60")
        stack.callback(process.kill)
        waiter = cli.start("run", "-w", "60", "backup", "true")
        stack.callback(waiter.kill)
        found = eventually(lambda: shown(cli),
                           lambda now: now["permits_used", ""] and now["waiting", ""])
    assert found["locks", "lock"] == 2
    assert found["locks_without_lease", ""] == 1
    assert (found["permits_used", ""], found["permits_free", ""]) == (1, 2)
    assert (found["contended_locks", ""], found["waiting", ""]) == (1, 1)
    assert not any(name.startswith("lock_") for name, _ in found)


def eventually(look, holds):
    found = []

    def try_it():
        found[:] = [look()]
        return holds(found[0])

    until(try_it, 20, "the figures come")
    return found[0]


def test_prefix_and_limit(cli, server):
    for name in ("shop*:1", "shop*:2", "shopping", "other"):
        hold(server, name)
    assert shown(cli, "--prefix", "shop*:")["locks", "lock"] == 2
    assert shown(cli, "--prefix", "shop")["locks", "lock"] == 3
    found = shown(cli, "--limit", "2")
    assert (found["locks", "lock"], found["partial", ""]) == (2, 1)
    for wrong in ("0", "x", "1000001"):
        result = cli("metrics", "--limit", wrong)
        assert result.returncode == 125 and "--limit" in result.stderr


def test_names_are_labels_when_asked(cli, server):
    hold(server, "backup", ms=60000)
    found = shown(cli, "--names", LC_ALL="de_DE.UTF-8")
    assert 0 < found["lock_lease_seconds", "backup"] <= 60
    assert found["lock_waiting", "backup"] == 0


def test_hostile_names_stay_labels(cli, server):
    for name in HOSTILE:
        server.call("HSET", name, "other:1", "1")
        server.call("PEXPIRE", name, "60000")
    found = shown(cli, "--names")
    names = {label for name, label in found if name == "lock_waiting"}
    readable = {name.decode(errors="replace").replace("\0", "\ufffd") for name in HOSTILE}
    assert names == readable and len(readable) == len(HOSTILE) - 1  # two look the same


def test_a_thousand_names_at_most(cli, server):
    for number in range(1010):
        hold(server, f"lock{number:04}")
    found = shown(cli, "--names")
    assert found["locks", "lock"] == 1010
    assert sum(name == "lock_waiting" for name, _ in found) == 1000


def test_no_server_is_an_error_and_no_text(cli):
    result = cli("metrics", LOCKKEEPER_URL="redis://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (125, "")


@pytest.mark.parametrize("address", ["", "x", "65536", "1.2.3:x", "[::1", "host.example:80", ":80",
                                     "::1:80", "127.0.0.1:", "-1", "127.0.0.1:99999"])
@NEEDS_HTTP
def test_a_wrong_address_is_named(cli, address):
    result = cli("metrics", f"--listen={address}")
    assert result.returncode == 125 and "--listen" in result.stderr


# ---- served ----

class Page:
    def __init__(self, cli, *words):
        self.process = cli.start("metrics", *words)
        line = self.process.stderr.readline()
        self.url = re.search(r"serving (http://\S+)/,", line)[1]

    def get(self, path="/", method="GET", **headers):
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()


@pytest.fixture
def serve(cli):
    return lambda *words: Page(cli, "--listen", "0", *words)


@NEEDS_HTTP
def test_it_serves_the_series(serve, server):
    hold(server, "backup", "stranger:7")
    page = serve("--names")
    status, headers, text = page.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = samples(text)
    assert found["locks", "lock"] == 1
    assert found["oldest_hold_seen_timestamp_seconds", ""] == \
        found["lock_hold_seen_timestamp_seconds", "backup"] > 1e9
    assert page.get("/healthz")[::2] == (200, "the store answers\n")
    assert page.get("/nothing")[0] == page.get("/../etc/passwd")[0] == 404
    assert page.get(method="POST")[0] == page.get(method="DELETE")[0] == 405
    assert page.get(method="HEAD")[2] == ""


OPEN, TEXT = "application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4"


@NEEDS_HTTP
def test_it_serves_the_format_that_is_asked_for(serve):
    """As Prometheus 2 and 3 ask, people and their browsers; and what is no wish, or no number."""
    page = serve()
    asked = "application/openmetrics-text"
    for accept, given in (
            (f"{asked};version=1.0.0,{asked};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,"
             "*/*;q=0.1", OPEN),
            (f"{asked};version=1.0.0;escaping=allow-utf-8;q=0.5,{asked};version=0.0.1;q=0.4,"
             "text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1", OPEN),
            (asked, OPEN), (f"Application/OpenMetrics-Text ; Q=0.001 , */*;q=0", OPEN),
            (f"{asked};q=0.4, text/plain;q=0.45", TEXT), (f"{asked};q=0", TEXT),
            (f"{asked};version=2.0.0", TEXT), (f"{asked};q=x, {asked};q=", TEXT),
            ("text/html,*/*;q=0.8", TEXT), ("*/*", TEXT), ("", TEXT), (",;,=;q", TEXT),
            (f"{'x' * 3000},{asked}", OPEN), (f"{asked};{'x' * 3000}", TEXT)):
        status, headers, text = page.get("/metrics", Accept=accept)
        assert status == 200 and headers["Content-Type"] == f"{given}; charset=utf-8", accept
        assert samples(text)["up", ""] == 1 and text.endswith("\n# EOF\n")
    assert page.get("/", Accept=asked)[1]["Content-Type"].startswith("text/html")


@NEEDS_HTTP
def test_it_listens_on_the_loopback_alone_and_for_it(serve):
    page = serve()
    assert page.url.startswith("http://127.0.0.1:")
    for host, status in (("evil.example", 403), ("127.0.0.1.evil.example", 403), ("[::2]", 403),
                         ("10.0.0.1", 403), ("localhost:80", 200), ("[::1]:5", 200)):
        assert page.get("/healthz", Host=host)[0] == status, host


@NEEDS_HTTP
def test_a_taken_port_is_told(cli, serve):
    port = serve().url.rsplit(":", 1)[1]
    result = cli("metrics", "--listen", port)
    assert result.returncode == 125 and "--listen" in result.stderr


@NEEDS_HTTP
def test_the_page_shows_hostile_names_as_text(serve, server):
    for name in HOSTILE:
        server.call("HSET", name, "<img src=x>:1", "1")
        server.call("PEXPIRE", name, "60000")
    status, headers, text = serve().get("/?q=%22%3E%3Cscript%3E&kind=%3Cb%3E&sort=%27")
    assert status == 200
    assert "<script" not in text and "<img" not in text and "<b>" not in text.split("<table")[1]
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy
    assert headers["Refresh"] == "10" and headers["X-Content-Type-Options"] == "nosniff"
    status, _, text = serve().get("/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "new\\x0aline" in text
    assert "\u202e" not in text and "<script" not in text and "<img" not in text


@NEEDS_HTTP
def test_the_page_sorts_and_filters_by_links(serve, server):
    hold(server, "apple", ms=50000)
    hold(server, "pear", ms=10000)
    server.call("SET", "latch", "5")
    page = serve()

    def names(query):
        return re.findall(r"<tr><td>(\w+)</td>", page.get(f"/{query}")[2])

    assert names("") == ["apple", "latch", "pear"]
    assert names("?sort=ttl")[:2] == ["pear", "apple"]
    assert names("?kind=lock&sort=ttl") == ["pear", "apple"]
    assert names("?q=pp") == ["apple"]
    assert names("?kind=waiting") == []
    text = page.get("/?kind=lock&sort=ttl&q=%26%20b")[2]
    assert 'href="/?sort=name&amp;kind=lock&amp;q=%26%20b"' in text
    assert page.get("/?refresh=no")[1]["Refresh"] is None


@NEEDS_HTTP
def test_however_often_it_is_asked_the_server_is_not(serve, server):
    def scans():
        return int(re.search(rb"cmdstat_scan:calls=(\d+)", server.call("INFO", "commandstats"))[1])

    page = serve()
    page.get("/metrics")
    before = scans()
    for _ in range(50):
        assert page.get("/metrics")[0] == 200
    assert scans() - before <= 2


def reached(page):
    with contextlib.suppress(OSError):
        return page.get("/healthz")[0] == 200


@NEEDS_HTTP
def test_idle_connections_do_not_keep_others_away_for_ever(serve):
    page = serve()
    port = int(page.url.rsplit(":", 1)[1])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    try:
        until(lambda: reached(page), 60, "the idle ones are sent away")
    finally:
        for connection in idle:
            connection.close()


@NEEDS_HTTP
def test_a_server_that_is_gone_is_told(serve, server):
    hold(server, "backup")
    page = serve()
    server.stop()
    status, _, text = page.get("/healthz")
    assert status == 503 and "does not answer" in text
    assert samples(page.get("/metrics")[2]) == {("up", ""): 0}
    assert "could not be asked" in page.get("/")[2]


@NEEDS_HTTP
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_its_signal(serve, number):
    page = serve()
    os.kill(page.process.pid, number)
    assert page.process.wait(20) == -number
