"""The drop-in for redis-py's Lock, where redis-py's own tests do not look."""
from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import threading
import time

import pytest

redis_py = pytest.importorskip("redis")
import redis.asyncio  # noqa: E402

import lockkeeper  # noqa: E402
from lockkeeper.compat.redis import Lock  # noqa: E402
from lockkeeper.compat.redis.asyncio import Lock as AsyncLock  # noqa: E402


@pytest.fixture
def theirs(server):
    with redis_py.Redis(unix_socket_path=server) as made:
        yield made


def test_both_exclude_each_other(theirs, redis):
    with theirs.lock("shared", timeout=10, lock_class=Lock):
        assert not theirs.lock("shared").acquire(blocking=False)
    with theirs.lock("shared", timeout=10):
        assert not theirs.lock("shared", lock_class=Lock).acquire(blocking=False)


def test_it_stays_when_it_is_collected(theirs, redis):
    """As there: a lock that nobody releases keeps others out until its end."""
    assert theirs.lock("limiter", timeout=10, lock_class=Lock).acquire()
    gc.collect()
    assert 8000 < int(redis("PTTL", "limiter")) <= 10000


def test_it_stays_when_the_program_ends(server, program, redis):
    with program(f"""
            import redis
            from lockkeeper.compat.redis import Lock
            theirs = redis.Redis(unix_socket_path={server!r})
            assert theirs.lock("job", timeout=10, lock_class=Lock).acquire()
            """) as process:
        assert process.wait(20) == 0, process.stderr.read()
    assert 8000 < int(redis("PTTL", "job")) <= 10000


def test_a_release_wakes_a_waiter(theirs, redis):
    """Long before it would ask again."""
    lock = theirs.lock("wakes", timeout=60, lock_class=Lock)
    assert lock.acquire()
    got = []

    def wait():
        other = theirs.lock("wakes", timeout=60, sleep=30, lock_class=Lock)
        other.acquire(blocking_timeout=60)
        got.append(time.monotonic())
        other.release()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # it waits by then, or gets the lock at once
    lock.release()
    thread.join(20)
    assert got


def test_a_token_set_by_hand(theirs, redis):
    """In another object, as programs do that release in another process."""
    first = theirs.lock("token", timeout=10, lock_class=Lock, thread_local=False)
    assert first.acquire()
    second = theirs.lock("token", timeout=10, lock_class=Lock, thread_local=False)
    second.local.token = first.local.token
    assert second.owned() and second.extend(20) and second.reacquire()
    second.release()
    assert not first.locked()


def test_a_chosen_token_is_refused(theirs, redis):
    with pytest.raises(lockkeeper.Invalid, match="token"):
        theirs.lock("chosen", lock_class=Lock).acquire(token="mine")


def test_errors_are_theirs(theirs, redis):
    redis("RPUSH", "list", "1")
    with pytest.raises(redis_py.exceptions.ResponseError):
        theirs.lock("list", lock_class=Lock).acquire(blocking=False)
    nowhere = redis_py.Redis(unix_socket_path="/nowhere", socket_connect_timeout=1)
    with pytest.raises(redis_py.exceptions.ConnectionError):
        nowhere.lock("x", lock_class=Lock).acquire(blocking=False)


@pytest.mark.parametrize("option", [{"ssl_cert_reqs": "sometimes"}, {"ssl_ciphers": "x"}])
def test_what_cannot_be_done_is_named(option):
    client = redis_py.Redis(ssl=True, **option)
    with pytest.raises(lockkeeper.Invalid, match=next(iter(option))):
        client.lock("x", lock_class=Lock)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with an authority, a server's certificate and a locked key of a client."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]
    openssl(*new, "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=tests")
    for name, host, lock in (("server", "IP:127.0.0.1", ["-nodes"]),
                             ("elsewhere", "DNS:elsewhere.example", ["-nodes"]),
                             ("client", "DNS:client", ["-passout", "pass:secret"])):
        openssl(*new, *lock, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj",
                f"/CN={name}", "-addext", f"subjectAltName={host}", "-addext",
                "basicConstraints=critical,CA:FALSE", "-CA", "ca.crt", "-CAkey", "ca.key")
    (folder / "trusted").mkdir()
    (folder / "trusted" / "ca.pem").write_bytes((folder / "ca.crt").read_bytes())
    openssl("rehash", "trusted")
    return folder


@pytest.fixture
def secured(authority):
    """secured(certificate): the port of a server that wants a client's certificate, too."""
    processes = []

    def start(name):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes.append(subprocess.Popen(
            ["redis-server", "--port", "0", "--tls-port", str(port), "--save", "",
             "--tls-cert-file", f"{name}.crt", "--tls-key-file", f"{name}.key",
             "--tls-ca-cert-file", "ca.crt"], cwd=authority, stdout=subprocess.DEVNULL))
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return port
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.01)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_tls_as_redis_py_has_it(secured, authority):
    """What redis-py connects with, the lock connects with."""
    text = (authority / "ca.crt").read_text()
    own = {"ssl": True, "ssl_certfile": str(authority / "client.crt"),
           "ssl_keyfile": str(authority / "client.key"), "ssl_password": "secret"}
    for name, ways in (
            ("server", ({"ssl_ca_data": text}, {"ssl_ca_path": str(authority / "trusted")},
                        {"ssl_ca_data": ssl.PEM_cert_to_DER_cert(text)},
                        {"ssl_ca_data": text, "ssl_cert_reqs": "optional"})),
            ("elsewhere", ({"ssl_ca_data": text, "ssl_check_hostname": False},
                           {"ssl_cert_reqs": "none", "ssl_check_hostname": False},
                           {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}))):
        port = secured(name)
        for way in ways:
            with redis_py.Redis(host="127.0.0.1", port=port, **own, **way) as client:
                assert client.ping(), way
                with client.lock("tls", timeout=10, lock_class=Lock):
                    assert client.get("tls"), way


def test_tasks(server, redis):
    async def main():
        async with redis_py.asyncio.Redis(unix_socket_path=server) as client:
            inside = most = 0

            async def work():
                nonlocal inside, most
                async with client.lock("tasks", timeout=60, lock_class=AsyncLock):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    inside -= 1

            await asyncio.gather(*(work() for _ in range(200)))
            assert most == 1

    asyncio.run(main())
    assert redis("EXISTS", "tasks") == "0"
