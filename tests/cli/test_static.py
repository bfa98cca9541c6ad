"""The static command: one file, which runs where there is nothing else (docs/building.md)."""
from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from command import BUILD, LIMIT, ROOT
from rights import namespaces
from servers import Server
from terminal import Terminal

STATIC = BUILD / "cli" / "lockkeeper-static"
pytestmark = pytest.mark.skipif(
    not STATIC.exists(), reason="no static libraries of what it is built on, or sanitizers")


class Empty:
    """A root without any file but the command, in which a server has its socket."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.root.mkdir()
        shutil.copy(STATIC, self.root / "lockkeeper")
        place = self.root / "run"
        place.mkdir()
        self.server = Server(place).start_anywhere()
        self.url = f"unix://{self.server.path.replace(str(self.root), '')}"

    def __call__(self, *words: str, proc: bool = False, **environment: str):
        """Runs the command in there; with its own /proc, as each container has."""
        script = ('root=$1; shift; mount --bind "$root" /proc && mount --make-private /proc && '
                  'exec chroot /proc "$@"')
        if proc:
            (self.root / "proc").mkdir(exist_ok=True)
            script = script.replace("exec", "mount -t proc proc /proc/proc && exec")
        return subprocess.run(
            [*namespaces("--pid", "--fork", "--kill-child"), "sh", "-c", script, "sh",
             str(self.root), "/lockkeeper", *words],
            capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LOCKKEEPER_URL": self.url, **environment})


@pytest.fixture
def empty(folder):
    made = Empty(folder)
    yield made
    made.server.stop()


def test_it_is_one_file():
    told = subprocess.run(["readelf", "--program-headers", "--dynamic", STATIC], check=True,
                          capture_output=True, text=True).stdout
    assert "INTERP" not in told and "NEEDED" not in told


def test_it_works_in_an_empty_root(empty):
    assert empty("--version").stdout.startswith("lockkeeper ")
    done = empty("run", "job", "/lockkeeper", "show", "job", proc=True)
    assert done.returncode == 0 and "state: locked" in done.stdout, done.stderr
    done = empty("run", "--fair", "-w", "10", "job", "/lockkeeper", "ls", proc=True)
    assert "job\t" in done.stdout
    owner = empty("lock", "-l", "60", "job").stdout.strip()
    assert empty("run", "-n", "-E", "75", "job", "/lockkeeper", proc=True).returncode == 75
    assert empty("unlock", "job", owner).returncode == 0
    assert empty("doctor").returncode == 4  # this server keeps nothing
    assert empty.server.call("KEYS", "job") == []


def test_where_it_cannot_work_it_says_so(empty):
    done = empty("run", "job", "/lockkeeper")
    assert done.returncode == 125 and "mount proc here" in done.stderr
    done = empty("run", "--private", "job", "/lockkeeper", proc=True,
                 LOCKKEEPER_STATE_DIR="/run/lk")
    assert done.returncode == 125 and "redis-server" in done.stderr, done.stderr
    done = empty("run", "-n", "job", "/nothing", proc=True)
    assert done.returncode == 127 and "/nothing" in done.stderr


def test_names_are_looked_up_without_modules(empty):
    """Whatever nsswitch.conf names: those would have to be loaded."""
    (empty.root / "etc").mkdir()
    (empty.root / "etc/hosts").write_text("127.0.0.1 locks.example\n")
    (empty.root / "etc/nsswitch.conf").write_text("hosts: resolve mymachines\npasswd: sss\n")
    url = f"redis://locks.example:{empty.server.port}"
    assert empty("ls", LOCKKEEPER_URL=url).returncode == 0
    done = empty("ls", "-o", "connect_timeout_ms=2000",
                 LOCKKEEPER_URL=f"redis://elsewhere.example:{empty.server.port}")
    assert done.returncode == 125 and "elsewhere.example" in done.stderr


def test_what_it_lacks_is_said(empty):
    """TLS and `top` need libraries that it does not load."""
    url = f"rediss://127.0.0.1:{empty.server.port}"
    done = empty("ls", LOCKKEEPER_URL=url)
    assert done.returncode == 125
    assert "OpenSSL cannot be loaded: this lockkeeper is static" in done.stderr
    shell = Terminal({**os.environ, "LOCKKEEPER_URL": empty.server.unix_url})
    shell.line(f"{STATIC} top")
    shell.expect("top: ncurses cannot be loaded: this lockkeeper is static")
    shell.close()


def test_the_container_has_what_make_static_makes():
    container = (ROOT / "Containerfile").read_text()
    folder, (made,) = "/build", re.findall(r"^COPY --from=build (\S+) ", container, re.MULTILINE)
    assert f"make -C /src static BUILD={folder}\n" in container
    recipe = subprocess.run(["make", "-n", "static", f"BUILD={folder}"], cwd=ROOT, check=True,
                            capture_output=True, text=True, timeout=LIMIT).stdout
    assert f'strip -o "{made}" ' in recipe
