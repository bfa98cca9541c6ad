"""What is compared: each lock, the server that it needs, and the program that takes it."""
from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import servers
from servers import Missing, found, step

HERE = pathlib.Path(__file__).resolve().parent
FERRETDB = "v1.24.2"


class System(NamedTuple):
    key: str
    title: str
    server: str  # a function of servers.py
    program: str  # of meson.build, or "etcd", "mongo", "curator"
    kind: str
    polls: bool = False  # a waiter of these programs asks again each 10 ms
    faulty: bool = False  # a lock of an article that is not to be used


SYSTEMS = [
    System("ours", "lockkeeper, lock", "redis", "ours", "lock"),
    System("ours-fair", "lockkeeper, fair lock", "redis", "ours", "fair-lock"),
    System("ours-plain", "lockkeeper, plain lock", "redis", "ours", "plain-lock"),
    System("ours-durable", "lockkeeper, lock, `appendfsync always`", "redis_durable", "ours",
           "lock"),
    System("postgres-advisory", "PostgreSQL, advisory lock of a session", "postgres", "postgres",
           "advisory"),
    System("postgres-advisory-tx", "PostgreSQL, advisory lock of a transaction", "postgres",
           "postgres", "advisory-tx"),
    System("postgres-row", "PostgreSQL, SELECT … FOR UPDATE", "postgres", "postgres", "row"),
    System("postgres-unique", "PostgreSQL, unique row", "postgres", "postgres", "unique", True),
    System("mariadb-get-lock", "MariaDB, GET_LOCK", "mariadb", "mariadb", "get-lock"),
    System("mariadb-unique", "MariaDB, unique row", "mariadb", "mariadb", "unique", True),
    System("ferretdb", "MongoDB's findAndModify, on FerretDB", "ferretdb", "mongo", "document",
           True),
    System("zookeeper", "ZooKeeper, Curator's InterProcessMutex", "zookeeper", "curator", "mutex"),
    System("etcd", "etcd, concurrency.Mutex", "etcd", "etcd", "session"),
    System("flock", "flock(2), one host", "folder_of_files", "flock", "file"),
    System("setnx-getset", "SETNX and GETSET", "redis", "homemade", "setnx-getset", True, True),
    System("setnx-expire", "SETNX, then EXPIRE", "redis", "homemade", "setnx-expire", True, True),
    System("del-by-anybody", "SET NX PX, DEL", "redis", "homemade", "del-by-anybody", True, True),
    System("get-then-del", "SET NX PX, GET, DEL", "redis", "homemade", "get-then-del", True, True),
]


PACKAGES = ["redis-server", "postgresql-[0-9]*", "mariadb-server", "zookeeper", "etcd-server",
            "pgbouncer"]


def versions() -> dict[str, str]:
    """Of the servers' packages and of the client libraries that are fetched."""
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n",
                             *PACKAGES], capture_output=True, text=True, check=False).stdout
    found_here = dict(line[2:].split() for line in listed.splitlines() if line.startswith("ii"))
    modules = re.findall(r"^\t(\S+) (v\S+)$", (HERE / "go/go.mod").read_text(), re.MULTILINE)
    curator = re.search(r"<artifactId>(curator-recipes)</artifactId>\s*<version>([^<]+)<",
                        (HERE / "curator/pom.xml").read_text())
    return found_here | dict(modules) | {"FerretDB": FERRETDB, curator[1]: curator[2]}


class Programs:
    """Builds each program once a run, into the build folder; remembers what cannot be had."""

    def __init__(self, build: pathlib.Path):
        self.place = build.resolve() / "bench" / "beside"
        self.made: dict[str, list[str] | Missing] = {}

    def words(self, name: str) -> list[str]:
        if name not in self.made:
            make = {"etcd": self.go, "mongo": self.go, "curator": self.curator,
                    "ferretdb": self.ferretdb}.get(name, self.c)
            try:
                self.made[name] = make(name)
            except Missing as why:
                self.made[name] = why
        answer = self.made[name]
        if isinstance(answer, Missing):
            raise answer
        return answer

    def c(self, name: str) -> list[str]:
        if not (self.place / name).exists():
            raise Missing(f"{name} was not built: its client library is missing "
                          "(make packages-beside)")
        return [str(self.place / name)]

    def go(self, name: str) -> list[str]:
        step([found("go"), "build", "-mod=readonly", "-buildvcs=false", "-o", f"{self.place}/",
              f"./{name}"], cwd=HERE / "go")
        return [str(self.place / name)]

    def curator(self, name: str) -> list[str]:
        folder = self.place / name
        folder.mkdir(exist_ok=True)
        for file in ("pom.xml", "Turns.java"):
            shutil.copy(HERE / "curator" / file, folder)
        if not (folder / "lib").exists():
            step([found("mvn"), "-q", "-B", "dependency:copy-dependencies",
                  "-DoutputDirectory=unfinished"], cwd=folder)
            (folder / "unfinished").rename(folder / "lib")
        step([found("javac"), "-cp", "lib/*", "Turns.java"], cwd=folder)
        return [found("java"), "-Xmx512m", "-cp", f"{folder}:{folder}/lib/*", "Turns"]

    def ferretdb(self, name: str) -> list[str]:
        """Its release number is in a file that the module as published does not have."""
        program = self.place / name
        if not program.exists():
            folder = self.place / "ferretdb-source"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            cache = folder / "modules"
            (folder / "go.mod").write_text("module fetched\n")
            step([found("go"), "get", f"github.com/FerretDB/FerretDB@{FERRETDB}"], cwd=folder)
            listed = step([found("go"), "list", "-m", "-f", "{{.Dir}}",
                           "github.com/FerretDB/FerretDB"], cwd=folder)
            shutil.copytree(listed.strip(), cache)
            step(["chmod", "-R", "u+w", str(cache)])
            (cache / "build/version/version.txt").write_text(f"{FERRETDB}\n")
            step([found("go"), "build", "-buildvcs=false", "-o", str(program), "./cmd/ferretdb"],
                 cwd=cache)
            shutil.rmtree(folder)
        return [str(program)]


@contextlib.contextmanager
def served(system: System, programs: Programs, folder: pathlib.Path):
    """The server of a system, running."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    make: Callable = getattr(servers, system.server)
    more = [pathlib.Path(programs.words("ferretdb")[0])] if system.server == "ferretdb" else []
    with make(*more, folder) as server:
        yield server
