"""TLS on one side alone: each message names it, whatever limit there is, on every deployment."""
from __future__ import annotations

import pytest

from certificates import Certificates
from command import Command
from servers import Server

SECONDS = "0.5"  # shorter than the connect limit: nothing has failed yet when the wait is over


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def speaks_tls(folder, certificates):
    (place := folder / "tls").mkdir()
    made = Server(place, {}, certificates.files("good")).start()
    yield made
    made.stop()


@pytest.fixture
def wrong():
    made = Command({})
    yield made
    made.stop()


def of(kind: str, server: Server) -> str:
    more = {"-sentinel": "/mymaster", "-replicas": ",127.0.0.1:1"}
    return f"redis{kind}://127.0.0.1:{server.port}" + more.get(kind, "")


def secured(kind: str, server: Server) -> str:
    return of(kind, server).replace("redis", "rediss", 1)


WORDS = {
    "run": ["run", "-w", SECONDS, "job", "true"],
    "run --fair": ["run", "--fair", "-w", SECONDS, "job", "true"],
    "run --shared": ["run", "--shared", "-w", SECONDS, "job", "true"],
    "run --also": ["run", "-w", SECONDS, "--also", "other", "job", "true"],
    "run -v": ["run", "-v", "-w", "3.5", "job", "true"],
    "lock": ["lock", "-w", SECONDS, "-l", "5", "job"],
    "latch wait": ["latch", "wait", "-w", SECONDS, "gate"],
    "run --permits": ["run", "--permits", "2", "-w", SECONDS, "job", "true"],
    "show": ["show", "job"],
    "ls": ["ls"],
    "break": ["break", "--yes", "job"],
    "unlock": ["unlock", "job", "nobody:1"],
    "sem show": ["sem", "show", "job"],
    "wait": ["wait", "-w", SECONDS, "job"],
}


@pytest.mark.parametrize("name", WORDS)
def test_tls_to_a_port_without(wrong, server, name):
    """Redis says nothing to what begins TLS: only time tells, and limits are shorter."""
    result = wrong(*WORDS[name], LOCKKEEPER_URL=secured("", server))
    assert result.returncode == 125
    last = result.stderr.splitlines()[-1]
    assert "does the port speak TLS?" in last, result.stderr
    if "-v" in name:
        waiting = [line for line in result.stderr.splitlines() if "waiting for job" in line]
        assert "does the port speak TLS?" in waiting[-1], waiting


@pytest.mark.parametrize("name", WORDS)
def test_no_tls_to_a_port_with(wrong, speaks_tls, name):
    result = wrong(*WORDS[name], LOCKKEEPER_URL=of("", speaks_tls))
    assert result.returncode == 125
    assert "a port for TLS?" in result.stderr.splitlines()[-1], result.stderr


def test_a_quorum_names_it_too(wrong, server):
    urls = ",".join((secured("", server), "redis://127.0.0.1:1", "redis://127.0.0.1:2"))
    result = wrong("run", "-w", SECONDS, "--url", urls, "job", "true")
    assert result.returncode == 125
    assert "does the port speak TLS?" in result.stderr


@pytest.mark.parametrize("kind", ["-sentinel", "-replicas", "-cluster"])
@pytest.mark.parametrize("limit", [(), ("-n",), ("-w", "1")], ids=str)
def test_of_a_deployment(wrong, server, speaks_tls, kind, limit):
    """Those that are asked where masters are."""
    result = wrong("run", *limit, "job", "true", LOCKKEEPER_URL=secured(kind, server))
    assert result.returncode == 125
    assert "does the port speak TLS?" in result.stderr
    result = wrong("run", *limit, "job", "true", LOCKKEEPER_URL=of(kind, speaks_tls))
    assert result.returncode == 125
    assert f"a port for TLS? use rediss{kind}://" in result.stderr, result.stderr


def test_a_server_that_hangs_is_no_matter_of_tls(wrong, server):
    """What is not answered is named: the connection stands, the greeting has no answer."""
    server.pause()
    result = wrong("run", "-w", SECONDS, "job", "true", LOCKKEEPER_URL=server.url)
    server.resume()
    assert result.returncode == 125
    assert "the server cannot be reached: no answer to the greeting yet" in result.stderr
    assert "TLS" not in result.stderr


def test_an_address_that_is_silent(wrong):
    """No packet comes back from TEST-NET-1."""
    result = wrong("run", "-w", SECONDS, "job", "true", LOCKKEEPER_URL="redis://192.0.2.1:6379")
    assert result.returncode == 125
    assert "192.0.2.1" in result.stderr and "TLS" not in result.stderr
