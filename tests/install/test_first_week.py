"""docs/first-week.md: its lines, in their order, on two hosts that share a server."""
from __future__ import annotations

import contextlib
import re
import subprocess

import pytest

from conftest import ROOT, blocks, until
from rights import namespaces

PAGE = "docs/first-week.md"
# The lease of the one that dies; the page speaks of the 30 s that it is without being told.
SHORT = {"LOCKKEEPER_WATCHDOG_MS": "3000"}
KEPT = "3s"
LIMIT_S = 60

REPORT = """#!/bin/sh
echo "$(hostname)" >>ran
while [ -e busy ]; do sleep 0.02; done
"""


class Host:
    """A name and processes of its own: kill() is its power cut."""

    def __init__(self, name: str, place, environment):
        self.name, self.place, self.environment = name, place, environment
        self.started: list[subprocess.Popen] = []

    def words(self, script: str) -> list[str]:
        return [*namespaces("--uts", "--pid", "--fork", "--kill-child"), "sh", "-c",
                f"hostname {self.name} && exec sh -c \"$1\"", "sh", script]

    def __call__(self, script: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.words(script), cwd=self.place, env=self.environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)

    def start(self, script: str, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen(self.words(script), cwd=self.place,
                                   env={**self.environment, **environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.started.append(process)
        return process

    def kill(self) -> None:
        for process in self.started:
            process.kill()
            process.wait(LIMIT_S)


class Week:
    """The page's blocks, which are taken one after the other."""

    def __init__(self, place, environment, server):
        self.place, self.server = place, server
        self.environment = {**environment, "PATH": f"{place}:{environment['PATH']}"}
        self.hosts = [Host(name, place, self.environment) for name in ("alpha", "beta")]
        self.left = [self.here(block) for block in blocks(PAGE, "sh")]

    def here(self, text: str) -> str:
        return text.replace("redis://locks.example.com", self.server.url)

    def take(self) -> str:
        return self.left.pop(0)

    def ran(self) -> list[str]:
        path = self.place / "ran"
        return path.read_text().split() if path.exists() else []

    @contextlib.contextmanager
    def busy(self):
        """While a report takes its time."""
        path = self.place / "busy"
        path.touch()
        yield
        path.unlink(missing_ok=True)

    def held(self) -> bool:
        return self.server.ask("EXISTS", "nightly") == "1"


@pytest.fixture
def week(tmp_path, environment, server):
    (tmp_path / "report.sh").write_text(REPORT)
    (tmp_path / "report.sh").chmod(0o755)
    made = Week(tmp_path, environment, server)
    yield made
    for host in made.hosts:
        host.kill()


def monday(week):
    done = week.hosts[0](week.take())
    assert done.returncode == 4 and done.stdout.splitlines()[-1].startswith("promise: one server: ")


def nightly(week) -> str:
    """The crontab's line, in cron's environment; it keeps the lock for less than a minute."""
    (crontab,) = blocks(PAGE, "crontab")
    settings = re.findall(r"^(\w+)=(.*)$", crontab, re.MULTILINE)
    assert dict(settings)["PATH"] in (ROOT / "examples/operations/crontab").read_text()
    (line,) = re.findall(r"^0 2 \* \* \*\s+(.*)$", crontab, re.MULTILINE)
    line = line.replace("--hold-at-least 1m", f"--hold-at-least {KEPT}")
    assert KEPT in line
    return week.here(f"LOCKKEEPER_URL='{dict(settings)['LOCKKEEPER_URL']}'; export LOCKKEEPER_URL; "
                     f"{line}")


def tuesday(week) -> None:
    """One of both makes it; the other ends with success."""
    alpha, beta = week.hosts
    with week.busy():
        first = alpha.start(nightly(week))
        until("alpha makes the report", week.ran)
        done = beta(nightly(week))
        assert (done.returncode, done.stderr) == (0, ""), done
    assert first.wait(LIMIT_S) == 0 and week.ran() == ["alpha"]
    until("the lock is free", lambda: not week.held())


def wednesday_and_thursday(week) -> None:
    alpha, beta = week.hosts
    looks, by_hand = week.take(), week.take()
    with week.busy():
        alpha.start(nightly(week))
        until("alpha makes the report", lambda: len(week.ran()) == 2)
        done = beta(looks)
        assert done.returncode == 0
        assert re.search(r"^client: report.sh, pid \d+ on alpha \(user ", done.stdout, re.MULTILINE)
        example = re.search(r"^    name: nightly\n(?:    .*\n)+", (ROOT / PAGE).read_text(),
                            re.MULTILINE).group()
        keys = [line.split(":")[0].strip() for line in example.splitlines()]
        shown = done.stdout[done.stdout.index("name: nightly"):]
        assert [line.split(":")[0] for line in shown.splitlines()] == keys
        done = beta(by_hand)
        assert done.returncode == 75 and "held by another owner" in done.stderr, done
    until("the lock is free", lambda: not week.held())
    assert beta(looks).returncode == 3


def the_reasons(week) -> None:
    beta = week.hosts[1]
    before = week.ran()
    done = beta(week.take())
    assert done.stdout.count("status 125") == 1 and "status 5" in done.stdout
    assert "127.0.0.1:1" in done.stderr and "error: unreachable: " in done.stdout
    done = beta(week.take())
    assert done.stdout == "status 125\n" and done.returncode == 0
    assert "reports is a semaphore or latch" in done.stderr and "sem delete" in done.stderr
    assert week.ran() == before


def power_cut(week) -> None:
    """alpha dies in the middle of its report; the lock stays."""
    alpha, _ = week.hosts
    count = len(week.ran())
    with week.busy():
        alpha.start(nightly(week), **SHORT)
        until("alpha makes the report", lambda: len(week.ran()) == count + 1)
        alpha.kill()
        assert week.held()


def friday(week) -> None:
    _, beta = week.hosts
    waits, at_once = week.take(), week.take()
    power_cut(week)
    done = beta(waits)
    assert done.returncode == 0 and week.ran()[-2:] == ["alpha", "beta"]
    power_cut(week)
    done = beta(at_once)
    assert done.returncode == 0, done
    assert week.ran()[-2:] == ["alpha", "beta"]


def saturday(week) -> None:
    """The report takes no time; beta's clock is behind. It looks while the lock is kept, unless
    the test is slow: then it tries again."""
    alpha, beta = week.hosts
    look = week.take()
    for _ in range(10):
        until("the lock is free", lambda: not week.held())
        count = len(week.ran())
        assert alpha(nightly(week)).returncode == 0
        both = beta(nightly(week))
        shown = beta(look)
        if shown.returncode == 0:
            break
    assert both.returncode == 0 and week.ran()[count:] == ["alpha"]
    assert re.search(r"^client: kept by report.sh, pid \d+ on alpha", shown.stdout, re.MULTILINE)


def test_the_week(week):
    monday(week)
    tuesday(week)
    wednesday_and_thursday(week)
    the_reasons(week)
    friday(week)
    saturday(week)
    assert week.left == [], "each line of the page was run"
