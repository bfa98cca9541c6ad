"""TLS: peer and host name are verified, and there is no way back to plain text."""
from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from certificates import Certificates, openssl
from keeper import EVENT_LOST
from waiting import until

LIMIT = {"connect_timeout_ms": 3000}


@pytest.fixture
def tls_url(make_server, certificates):
    """tls_url(certificate, host): the URL of a server that shows this certificate."""
    def make(name: str, host: str = "localhost", auth: str = "no") -> str:
        server = make_server(tls={**certificates.files(name), "auth": auth})
        return f"rediss://{host}:{server.port}"
    return make


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_verified(make_keeper, certificates, tls_url, host):
    keeper = make_keeper(tls_url("good", host), tls_ca_file=certificates.ca)
    keeper.call("acquire", "tls").ok()
    waits = keeper.say("acquire", "tls", thread="w")
    keeper.call("release", "tls").ok()
    waits.result(5).ok()
    keeper.call("release", "tls", thread="w").ok()
    answer = keeper.call("stress", thread="s", threads=16, names=4, pairs=50, limit=60)
    assert answer["release_OK"] == 800, dict(answer)


def test_a_threadless_client(make_keeper, certificates, tls_url):
    """It shakes hands in steps; a name would need a thread."""
    keeper = make_keeper(tls_url("good", "127.0.0.1"), tls_ca_file=certificates.ca, threadless=1)
    keeper.call("acquire", "tls", queue=1).ok()
    waits = keeper.say("acquire", "tls", queue=1, thread="w")
    keeper.call("release", "tls", queue=1).ok()
    waits.result(5).ok()
    keeper.call("release", "tls", queue=1, thread="w").ok()
    keeper = make_keeper(tls_url("wrong_host", "127.0.0.1"), tls_ca_file=certificates.ca,
                         threadless=1, **LIMIT)
    keeper.call("try", "tls", queue=1).is_code("LK_ETLS")


@pytest.mark.parametrize("certificate, host", [
    ("wrong_host", "localhost"), ("wrong_host", "127.0.0.1"), ("expired", "localhost"),
    ("early", "localhost"), ("self_signed", "localhost"),
])
def test_refused(make_keeper, certificates, tls_url, certificate, host):
    keeper = make_keeper(tls_url(certificate, host), tls_ca_file=certificates.ca, **LIMIT)
    for verb in ("ping", "try"):
        answer = keeper.call(verb, "tls").is_code("LK_ETLS")
        assert answer.took < 3 and len(answer.message) > 20


def test_unknown_authority(make_keeper, tls_url):
    """The system's authorities do not know the tests'."""
    make_keeper(tls_url("good"), **LIMIT).call("ping").is_code("LK_ETLS")


def test_server_name_option(make_keeper, certificates, tls_url):
    url = tls_url("wrong_host")
    keeper = make_keeper(url, tls_ca_file=certificates.ca, tls_server_name="elsewhere.example")
    keeper.call("ping").ok()
    keeper = make_keeper(url, tls_ca_file=certificates.ca, tls_server_name="localhost")
    keeper.call("ping").is_code("LK_ETLS")


def test_client_certificate(make_keeper, certificates, tls_url):
    url = tls_url("good", auth="yes")
    client = certificates.files("client")
    keeper = make_keeper(url, tls_ca_file=certificates.ca, tls_cert_file=client["cert"],
                         tls_key_file=client["key"])
    keeper.call("acquire", "mutual").ok()
    keeper.call("release", "mutual").ok()


def test_client_certificate_missing(make_keeper, certificates, tls_url):
    keeper = make_keeper(tls_url("good", auth="yes"), tls_ca_file=certificates.ca, **LIMIT)
    answer = keeper.call("try", "mutual").is_code("LK_ETLS")
    assert "certificate" in answer.message


def test_client_certificate_of_a_stranger(make_keeper, certificates, tls_url):
    stranger = certificates.files("self_signed")
    keeper = make_keeper(tls_url("good", auth="yes"), tls_ca_file=certificates.ca,
                         tls_cert_file=stranger["cert"], tls_key_file=stranger["key"], **LIMIT)
    keeper.call("try", "mutual").is_code("LK_ETLS")


@pytest.mark.parametrize("option", ["tls_ca_file", "tls_cert_file"])
def test_file_missing(make_keeper, certificates, tls_url, option):
    options = {"tls_ca_file": certificates.ca, option: "/nowhere/file.pem"}
    if option == "tls_cert_file":
        options["tls_key_file"] = "/nowhere/file.key"
    answer = make_keeper(tls_url("good"), **options, **LIMIT).call("ping")
    answer.is_code("LK_ETLS", "LK_EINVAL")
    assert "/nowhere/file" in answer.message


def test_tls_to_a_plain_port(server, make_keeper, certificates):
    keeper = make_keeper(f"rediss://localhost:{server.port}", tls_ca_file=certificates.ca, **LIMIT)
    answer = keeper.call("try", "mixed").is_code("LK_ETLS", "LK_EUNREACHABLE")
    assert answer.took < 4


def test_plain_to_a_tls_port(make_keeper, tls_url):
    url = tls_url("good").replace("rediss:", "redis:")
    answer = make_keeper(url, **LIMIT).call("try", "mixed")
    answer.is_code("LK_EPROTOCOL", "LK_EUNREACHABLE", "LK_ETLS")
    assert answer.took < 4
    assert "rediss://" in answer.message, answer.message


def test_handshake_that_stalls(make_keeper, certificates):
    """A peer that accepts and says nothing: the connect limit holds for the handshake too."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"rediss://127.0.0.1:{listener.getsockname()[1]}"
    keeper = make_keeper(url, tls_ca_file=certificates.ca, connect_timeout_ms=700)
    answer = keeper.call("ping").is_code("LK_ETLS", "LK_EUNREACHABLE")
    assert 0.6 < answer.took < 4
    listener.close()


def test_nothing_is_sent_in_plain_text(make_keeper, certificates):
    """Neither password nor command leaves before, or without, a verified handshake."""
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            heard.append(peer.recv(65536))
            peer.sendall(b"+OK\r\n")
            peer.close()
    threading.Thread(target=listen, daemon=True).start()
    keeper = make_keeper(f"rediss://127.0.0.1:{listener.getsockname()[1]}",
                         tls_ca_file=certificates.ca, password="S3cr3tMARKER", **LIMIT)
    keeper.call("try", "secret").is_code("LK_ETLS", "LK_EUNREACHABLE")
    listener.close()
    assert heard and all(data[:1] == b"\x16" and b"S3cr3tMARKER" not in data for data in heard)


def test_connections_cut_at_random(make_server, make_keeper, certificates, background):
    server = make_server(tls=certificates.files("good"))
    keeper = make_keeper(f"rediss://localhost:{server.port}", tls_ca_file=certificates.ca)
    keeper.call("ping").ok()  # the first connect fails at once
    background(lambda: server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), 0.1)
    answer = keeper.call("stress", thread="s", threads=8, names=3, pairs=100, limit=60,
                         pause_us=2000)
    assert (answer["acquire_OK"], answer["release_OK"]) == (800, 800), dict(answer)


def rotate(server, files: dict) -> None:
    """It shows another certificate from now on; connections that stand, stand."""
    server.call("CONFIG", "SET", "tls-cert-file", files["cert"], "tls-key-file", files["key"],
                "tls-ca-cert-file", files["ca"])


@pytest.fixture(scope="module")
def successors(tmp_path_factory):
    """Certificates of another authority, which bears the same name."""
    return Certificates(tmp_path_factory.mktemp("successors"))


class Rotation:
    """A client that holds a lock, of a server whose certificate is going to be another."""

    def __init__(self, make_server, make_keeper, certificates, folder, **options):
        self.trusted = folder / "trusted.pem"
        self.trusted.write_bytes(certificates.ca.read_bytes())
        self.server = make_server(tls=certificates.files("good"))
        self.keeper = make_keeper(f"rediss://localhost:{self.server.port}",
                                  tls_ca_file=self.trusted, backoff_max_ms=200, log_level=2,
                                  **options)
        self.keeper.listen()
        self.keeper.call("acquire", "held").ok()
        self.works()

    def works(self) -> None:
        self.keeper.call("acquire", "rotated").ok()
        assert self.server.holders("rotated")
        self.keeper.call("release", "rotated").ok()

    def refusals(self) -> int:
        """How many connections it has not made."""
        return sum("cannot connect" in line for line in list(self.keeper.logs))

    def cut(self) -> None:
        self.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def refused(self) -> None:
        """The next connection is refused, and each call says why, without a storm; nothing is
        taken, and what was held is not said to be lost."""
        before, began = self.refusals(), time.monotonic()
        self.cut()
        # A call that is sent as the connection ends says that its outcome is not known.
        until(lambda: self.keeper.call("try", "rotated").is_code("LK_ETLS", "LK_EMAYBEHELD").code ==
              "LK_ETLS", 5, "it is refused")
        for _ in range(3):
            seen = self.keeper.call("within", "rotated", wait=1000).is_code("LK_ETLS")
            assert "certificate" in seen.message and seen.took < 4, seen.message
        assert 0 < self.refusals() - before < 10 + 15 * (time.monotonic() - began)
        assert not self.server.holders("rotated") and self.server.holders("held")
        assert not self.keeper.events_of(EVENT_LOST)

    def recovers(self) -> None:
        until(lambda: self.keeper.call("try", "rotated").code == "OK", 10, "it connects again")
        self.keeper.call("release", "rotated").ok()
        assert self.keeper.call("is_held", "held").result == 1
        self.keeper.call("release", "held").ok()
        assert not self.server.holders("held") and not self.keeper.events_of(EVENT_LOST)


@pytest.fixture
def rotation(make_server, make_keeper, certificates, folder):
    return Rotation(make_server, make_keeper, certificates, folder)


def test_a_certificate_is_renewed(rotation, certificates):
    """By the same authority, for the same name: nobody notices."""
    certificates.issue("renewed", "DNS:localhost,IP:127.0.0.1")
    rotate(rotation.server, certificates.files("renewed"))
    rotation.works()
    rotation.cut()
    rotation.works()
    rotation.recovers()


@pytest.mark.parametrize("mended_by", ["the server", "the client"])
def test_another_authority_while_connected(rotation, certificates, successors, mended_by):
    """The connection stands; the next is refused, until the server shows the old certificate, or
    the client's file names both authorities: it is read for each connection."""
    rotate(rotation.server, successors.files("good"))
    rotation.works()
    rotation.refused()
    if mended_by == "the server":
        rotate(rotation.server, certificates.files("good"))
    else:
        with rotation.trusted.open("ab") as trusted:
            trusted.write(successors.ca.read_bytes())
    rotation.recovers()


def test_another_name_while_connected(rotation, certificates):
    rotate(rotation.server, certificates.files("wrong_host"))
    rotation.works()
    rotation.refused()
    rotate(rotation.server, certificates.files("good"))
    rotation.recovers()


def test_renewed_behind_a_bad_certificate(make_server, make_keeper, certificates, folder):
    """Nobody calls. The watchdog connects again within the lease, once the certificate is good."""
    rotation = Rotation(make_server, make_keeper, certificates, folder, watchdog_ms=3000)
    rotate(rotation.server, certificates.files("wrong_host"))
    rotation.cut()
    until(rotation.refusals, 2, "it is refused")
    rotate(rotation.server, certificates.files("good"))
    end = time.monotonic() + 4.5
    until(lambda: time.monotonic() > end, 10)
    rotation.recovers()


class Cutter:
    """Passes bytes to a port; ends the next connections after so many, in either direction."""

    def __init__(self, port: int):
        self.target, self.cuts, self.pairs = port, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.pairs.append((client, server))
            up, down = self.cuts.pop(0) if self.cuts else (None, None)
            for source, to, most in ((client, server, up), (server, client, down)):
                threading.Thread(target=self.pump, args=(source, to, most), daemon=True).start()

    @staticmethod
    def pump(source, to, most):
        passed = 0
        with contextlib.suppress(OSError):
            while most is None or passed < most:
                data = source.recv(65536 if most is None else most - passed)
                if not data:
                    break
                to.sendall(data)
                passed += len(data)
        for end in (to, source) if most is not None and passed >= most else (to,):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR if end is source else socket.SHUT_WR)

    def cut_all(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.listener.close()
        self.cut_all()


@pytest.fixture
def make_cutter():
    made = []

    def make(port):
        made.append(Cutter(port))
        return made[-1]
    yield make
    for cutter in made:
        cutter.stop()


@pytest.mark.parametrize("way", ["to the server", "from the server"])
@pytest.mark.parametrize("auth", ["no", "optional"])
def test_a_handshake_that_is_cut_is_tried_again(make_server, make_keeper, make_cutter,
                                                certificates, way, auth):
    """Once the server was reached, a connection that ends anywhere in a handshake is no refusal."""
    server = make_server(tls={**certificates.files("good"), "auth": auth})
    cutter = make_cutter(server.port)
    keeper = make_keeper(f"rediss://localhost:{cutter.port}", tls_ca_file=certificates.ca,
                         backoff_max_ms=50)
    keeper.call("ping").ok()
    places = [1, 4, 60, 200, 400, 600, 700, 900, 1300, 1700, 2000, 2300, 2600]
    for at in range(0, len(places), 3):
        cutter.cuts = [(place, None) if way == "to the server" else (None, place)
                       for place in places[at:at + 3]]
        cutter.cut_all()
        keeper.call("acquire", "cut").ok()
        keeper.call("release", "cut").ok()


def test_the_password_of_a_key_is_read_again(make_server, make_keeper, certificates, tmp_path):
    """Key and password are exchanged together; the next connection has both."""
    key, password = tmp_path / "own.key", tmp_path / "password"
    right = certificates.files("client")

    def lock_key(word: str) -> None:
        openssl("pkey", "-in", right["key"], "-aes256", "-passout", f"pass:{word}", "-out", key)
        password.write_text(f"{word}\n")

    lock_key("first")
    server = make_server(tls={**certificates.files("good"), "auth": "yes"})
    keeper = make_keeper(f"rediss://localhost:{server.port}", tls_ca_file=certificates.ca,
                         tls_cert_file=right["cert"], tls_key_file=key,
                         tls_key_password_file=password)
    keeper.call("acquire", "locked").ok()
    lock_key("second")
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    keeper.call("release", "locked").ok()
    assert keeper.stats().connects >= 2
