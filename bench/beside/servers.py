"""The servers of the comparison: private ones, on free ports of loopback, in a folder that goes.

Each is made by a context manager that takes a folder, and gives a Server: the URL for the programs,
the process, and how to stop and start it again. What cannot be had raises Missing with the reason.
All are as their packages have them, which is durable but for Redis.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

START_LIMIT_S = 60
STOP_LIMIT_S = 20
STEP_LIMIT_S = 900  # a build from sources that are fetched
CONNECTIONS = 1200  # a thousand that wait, and some


class Missing(Exception):
    """A server or a program cannot be had here, and why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def found(name: str, *places: str) -> str:
    """The path of a program, also where a user's PATH does not lead."""
    path = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *places]))
    if not path:
        raise Missing(f"{name} is missing (make packages-beside)")
    return path


def as_user(name: str) -> list[str]:
    """Database servers refuse to be root: then they are the user that their package made."""
    return ["/usr/bin/setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups"] \
        if os.geteuid() == 0 else []


def step(words: list[str], **more) -> str:
    """What it prints."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=STEP_LIMIT_S,
                              check=False, **more)
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(words)}: not done within {STEP_LIMIT_S} s") from None
    if done.returncode:
        raise Missing(f"{' '.join(words)}: {done.stdout[-500:]}")
    return done.stdout


class Server:
    def __init__(self, name: str, url: str, port: int, words: list[str], folder: pathlib.Path,
                 environment: dict[str, str] | None = None):
        self.name, self.url, self.port, self.words = name, url, port, words
        self.folder, self.environment = folder, environment
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.folder, start_new_session=True,
                                            env=self.environment)
        end = time.monotonic() + START_LIMIT_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                tail = (self.folder / "log").read_text(errors="replace")[-800:]
                raise Missing(f"{self.name} did not start: {tail}")
            time.sleep(0.05)

    def answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """As a power cut would, for the process: with all its children."""
        self.signal(9)
        self.process.wait(STOP_LIMIT_S)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def running(server: Server, prepare: Callable[[], None] = lambda: None) -> Iterator[Server]:
    try:
        server.start()
        prepare()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def redis(folder: pathlib.Path, *options: str) -> Iterator[Server]:
    port = free_port()
    words = [found("redis-server"), "--port", str(port), "--bind", "127.0.0.1",
             "--dir", str(folder), "--maxclients", str(CONNECTIONS + 100),
             *options]
    url = f"redis://127.0.0.1:{port}"
    with running(Server("redis-server", url, port, words, folder)) as server:
        yield server


def redis_durable(folder: pathlib.Path) -> contextlib.AbstractContextManager[Server]:
    """It writes each change to disk before it answers."""
    return redis(folder, "--appendonly", "yes", "--appendfsync", "always")


def postgres_program(name: str) -> str:
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return found(name, *map(str, places))


@contextlib.contextmanager
def postgres(folder: pathlib.Path) -> Iterator[Server]:
    """Its default is durable: `fsync` and `synchronous_commit` are on."""
    port, data, user = free_port(), folder / "data", as_user("postgres")
    if user:
        shutil.chown(folder, "postgres")
    step([*user, postgres_program("initdb"), "-D", str(data), "-U", "bench", "--auth=trust",
          "--no-locale", "-E", "UTF8"], cwd=folder)
    words = [*user, postgres_program("postgres"), "-D", str(data), "-p", str(port),
             "-h", "127.0.0.1", "-k", str(folder), "-c", f"max_connections={CONNECTIONS}"]
    url = f"postgresql://bench@127.0.0.1:{port}/postgres"
    server = Server("postgres", url, port, words, folder)

    def tables() -> None:
        step([postgres_program("psql"), "-q", url, "-c",
              "CREATE TABLE held (name text PRIMARY KEY, owner text NOT NULL);"
              "CREATE TABLE rows (name text PRIMARY KEY);"])
    with running(server, tables):
        yield server


@contextlib.contextmanager
def pgbouncer(folder: pathlib.Path, behind: Server) -> Iterator[Server]:
    """In front of that PostgreSQL, with its transactions shared by two connections."""
    port = free_port()
    (folder / "users").write_text('"bench" ""\n')
    (folder / "ini").write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={behind.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = trust\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = 2\n"
        f"unix_socket_dir =\nignore_startup_parameters = extra_float_digits\n")
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    words = [*as_user("postgres"), found("pgbouncer"), str(folder / "ini")]
    url = f"postgresql://bench@127.0.0.1:{port}/postgres"
    with running(Server("pgbouncer", url, port, words, folder)) as server:
        yield server


@contextlib.contextmanager
def mariadb(folder: pathlib.Path) -> Iterator[Server]:
    """Its default is durable: `innodb_flush_log_at_trx_commit` is 1."""
    port, data = free_port(), folder / "data"
    user = ["--user=mysql"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "mysql")
    step([found("mariadb-install-db"), "--no-defaults", *user, f"--datadir={data}",
          f"--tmpdir={folder}", "--auth-root-authentication-method=normal", "--skip-test-db"],
         cwd=folder)
    words = [found("mariadbd"), "--no-defaults", *user, f"--datadir={data}", f"--port={port}",
             "--bind-address=127.0.0.1", f"--socket={folder}/socket",
             f"--max-connections={CONNECTIONS}", f"--pid-file={folder}/pid",
             f"--tmpdir={folder}"]
    server = Server("mariadbd", f"mariadb://127.0.0.1:{port}/bench", port, words, folder)

    def tables() -> None:
        step([found("mariadb"), "--no-defaults", "-u", "root", f"--socket={folder}/socket", "-e",
              "CREATE DATABASE bench; CREATE USER bench@'%' IDENTIFIED BY '';"
              "GRANT ALL ON bench.* TO bench@'%';"
              "CREATE TABLE bench.held"
              "    (name varchar(100) PRIMARY KEY, owner varchar(100) NOT NULL);"])
    with running(server, tables):
        yield server


@contextlib.contextmanager
def zookeeper(folder: pathlib.Path) -> Iterator[Server]:
    """Its default is durable: each change is forced to disk."""
    port = free_port()
    (folder / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"maxClientCnxns=0\nadmin.enableServer=false\n")
    if not pathlib.Path("/usr/share/java/zookeeper.jar").exists():
        raise Missing("zookeeper is missing (make packages-beside)")
    words = [found("java"), "-Xmx512m", "-cp", "/usr/share/java/*",
             "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(folder / "zoo.cfg")]
    server = Server("zookeeper", f"127.0.0.1:{port}", port, words, folder)
    with running(server):
        yield server


@contextlib.contextmanager
def etcd(folder: pathlib.Path) -> Iterator[Server]:
    """Its default is durable: each change is synced."""
    port, peer = free_port(), free_port()
    words = [found("etcd"), "--data-dir", str(folder / "data"),
             "--listen-client-urls", f"http://127.0.0.1:{port}",
             "--advertise-client-urls", f"http://127.0.0.1:{port}",
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}"]
    with running(Server("etcd", f"127.0.0.1:{port}", port, words, folder)) as server:
        yield server


@contextlib.contextmanager
def ferretdb(program: pathlib.Path, folder: pathlib.Path) -> Iterator[Server]:
    """MongoDB's protocol, on a PostgreSQL of its own."""
    (folder / "postgres").mkdir()
    (folder / "ferretdb").mkdir()
    with postgres(folder / "postgres") as behind:
        port = free_port()
        words = [str(program), f"--listen-addr=127.0.0.1:{port}", "--debug-addr=-",
                 "--telemetry=disable", f"--state-dir={folder}/ferretdb",
                 f"--postgresql-url=postgres://bench@127.0.0.1:{behind.port}/postgres"]
        server = Server("ferretdb", f"mongodb://127.0.0.1:{port}/", port, words,
                        folder / "ferretdb")
        with running(server):
            yield server


@contextlib.contextmanager
def folder_of_files(folder: pathlib.Path) -> Iterator[Server]:
    """For flock: no server at all."""
    server = Server("the kernel", str(folder), 0, [], folder)
    yield server
