"""-w waits for what passes: a server that refuses for a while, and files that are being exchanged.
Without a limit, and with -n, it is told at once."""
from __future__ import annotations

import contextlib
import shutil

import pytest

from certificates import Certificates
from command import Command
from refusing import WRITES_REFUSED, setting
from servers import Server, free_port
from waiting import until

LIMIT = ["-w", "60"]
COMMANDS = {
    "run": (["run", "-v"], ["job", "true"]),
    "run --fair": (["run", "-v", "--fair"], ["job", "true"]),
    "run --plain": (["run", "-v", "--plain"], ["job", "true"]),
    "run --also": (["run", "-v", "--also", "other"], ["job", "true"]),
    "run --shared": (["run", "-v", "--shared"], ["job", "true"]),
    "run --permits": (["run", "-v", "--permits", "2"], ["job", "true"]),
    "lock": (["lock", "-v", "-l", "60"], ["job"]),
    "wait": (["wait", "-v"], ["job"]),
    "latch wait": (["latch", "wait", "-v"], ["gate"]),
}
# They write nothing, and a server that refuses writes lets them through.
READERS = {"wait", "latch wait"}


@contextlib.contextmanager
def a_replica(server, stale="yes"):
    server.set("replica-serve-stale-data", stale)
    server.call("REPLICAOF", "127.0.0.1", free_port())
    yield
    server.call("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def a_long_script(server):
    server.set("busy-reply-threshold", 20)
    with server.connect() as connection, server.connect() as other:
        connection.send("EVAL", "while true do end", 0)

        def busy():
            other.send("GET", "x")
            return str(other.read()).startswith("BUSY")
        until(busy, 20, "the script runs")
        yield
        server.call("SCRIPT", "KILL")
        connection.read()


@contextlib.contextmanager
def too_many_clients(server):
    control = server.connect()
    control.call("CONFIG", "SET", "maxclients", 1)
    yield
    control.call("CONFIG", "SET", "maxclients", 1000)
    control.close()


REFUSALS = {
    **WRITES_REFUSED,
    "READONLY": a_replica,
    "MASTERDOWN": lambda server: a_replica(server, "no"),
    "BUSY": a_long_script,
    "max number of clients": too_many_clients,
}
WRITES_ALONE = {"MISCONF", "NOREPLICAS", "READONLY"}


def waits_for(command, name: str, **environment: str):
    """Starts it, and waits until it says for what it waits."""
    before, behind = COMMANDS[name]
    waits = command.start(*before, *LIMIT, *behind, **environment)
    assert waits.stderr.readline().startswith("lockkeeper: server: ")
    return waits, waits.stderr.readline()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_for_a_while(cli, server, refusal, name):
    before, behind = COMMANDS[name]
    with REFUSALS[refusal](server):
        if refusal in WRITES_ALONE and name in READERS:
            assert cli(*before, "-n", *behind).returncode == 0
            return
        told = cli(*before, "-n", *behind)
        assert told.returncode == 125 and refusal in told.stderr, told
        waits, said = waits_for(cli, name)
        assert said.startswith(f"lockkeeper: waiting for {behind[0]}: "), said
        assert refusal in said or name == "run --permits"  # it asks how many there are first
    assert waits.wait(60) == 0, waits.stderr.read()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(folder, certificates):
    """A command whose server wants TLS and a client's certificate; and the files to be named."""
    (place := folder / "tls").mkdir()
    server = Server(place, {}, {**certificates.files("good"), "auth": "yes"}).start()
    files = {"ca": folder / "ca.crt", "cert": folder / "own.crt", "key": folder / "own.key"}
    made = Command({"LOCKKEEPER_URL": f"rediss://127.0.0.1:{server.port}",
                    "LOCKKEEPER_TLS_CA_FILE": str(files["ca"]),
                    "LOCKKEEPER_TLS_CERT_FILE": str(files["cert"]),
                    "LOCKKEEPER_TLS_KEY_FILE": str(files["key"])})
    yield made, files
    made.stop()
    server.stop()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("late, before", [
    ("ca", None), ("ca", "self_signed"), ("ca", "torn"), ("cert", None), ("key", None),
    ("key", "self_signed"), ("cert", "self_signed"), ("key", "torn")],
    ids=lambda value: str(value))
def test_a_file_that_comes_later(secured, certificates, name, late, before):
    """It is missing, another's, or half written, until it is put in its place."""
    command, files = secured
    right = certificates.files("client")
    for part, path in files.items():
        if part != late:
            shutil.copy(right[part], path)
        elif before == "self_signed":
            shutil.copy(certificates.files(before)["cert" if part != "key" else "key"], path)
        elif before == "torn":
            path.write_bytes(right[part].read_bytes()[:100])
    words, behind = COMMANDS[name]
    told = command(*words, "-n", *behind)
    assert told.returncode == 125, told
    waits, said = waits_for(command, name)
    assert said.startswith(f"lockkeeper: waiting for {behind[0]}: "), said
    shutil.copy(right[late], fresh := files[late].with_suffix(".new"))
    fresh.rename(files[late])
    assert waits.wait(60) == 0, waits.stderr.read()


def test_without_files_it_is_told_at_once(secured, certificates):
    """What the system trusts does not change while somebody waits."""
    command, _ = secured
    for name in ("CA", "CERT", "KEY"):
        del command.environment[f"LOCKKEEPER_TLS_{name}_FILE"]
    told = command("run", *LIMIT, "job", "true")
    assert told.returncode == 125 and "certificate" in told.stderr, told


@pytest.mark.parametrize("name", COMMANDS)
def test_final_trouble_is_told_at_once(cli, server, name):
    """What no time mends: other rights, another kind of data, a file that nobody named."""
    before, behind = COMMANDS[name]
    server.call("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+ping", "+hello", "+auth")
    told = cli(*before, *LIMIT, *behind, LOCKKEEPER_USERNAME="few", LOCKKEEPER_PASSWORD="pw")
    assert told.returncode == 125, told
    told = cli(*before, *LIMIT, *behind, LOCKKEEPER_USERNAME="few", LOCKKEEPER_PASSWORD="no")
    assert told.returncode == 125 and "WRONGPASS" in told.stderr, told


def test_too_little_memory_is_told_at_once(cli, server):
    """Tries would add to it."""
    with setting(server, "maxmemory", 1, 0):
        told = cli("run", *LIMIT, "job", "true")
    assert told.returncode == 125 and "OOM" in told.stderr, told
