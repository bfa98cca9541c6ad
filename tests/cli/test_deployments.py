"""lockkeeper break, wait and top over a cluster, and over a master that sentinels watch."""
from __future__ import annotations

import json
import pathlib
import shlex
import shutil
import tempfile

import pytest

from clusters import PATIENT_MS, Cluster, slot_of
from command import BINARY, Command
from deployments import Replicas, Watched
from terminal import Terminal
from test_run import hold
from waiting import until

KINDS = [[], ["--fair"], ["--fence"], ["--shared"], ["--exclusive"], ["--plain"]]


@pytest.fixture(scope="module", params=["cluster", "sentinel"])
def deployment(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lk-"))
    made = None
    try:
        made = (Cluster(folder, node_timeout_ms=PATIENT_MS) if request.param == "cluster"
                else Watched(folder))
        yield made
    finally:
        if made:
            made.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def command(deployment):
    made = Command({"LOCKKEEPER_URL": deployment.url})
    yield made
    made.stop()


@pytest.fixture
def names(deployment):
    """New ones, in a cluster one on each of its masters."""
    if isinstance(deployment, Cluster):
        return [deployment.name_on(index, "job") for index in range(3)]
    return ["job-0", "job-1"]


def server_of(deployment, name: str):
    return deployment.node_of(name) if isinstance(deployment, Cluster) else deployment.master()


def is_there(deployment, name: str) -> bool:
    return server_of(deployment, name).call("EXISTS", name) == 1


def fail_over(deployment) -> None:
    if isinstance(deployment, Cluster):
        for index in range(3):
            deployment.failover(index)
    else:
        deployment.failover()
        deployment.wait()


def until_state(process, owner: str) -> list[str]:
    """The events before the state in which that owner has it, behind a gap."""
    before = []
    for text in process.stdout:
        change = json.loads(text)
        if change["event"] == "state" and change["owner"] == owner:
            return before
        before.append(change["event"])
    raise AssertionError(before)


def test_a_watch_tells_of_a_gap_and_then_the_state(deployment, command, names):
    owner = command("lock", "-l", "100", names[0]).stdout.strip()
    process = command.start("watch", "--json", names[0])
    assert json.loads(process.stdout.readline())["owner"] == owner
    fail_over(deployment)
    assert "gap" in until_state(process, owner)
    if isinstance(deployment, Cluster):
        slot, to = slot_of(names[0]), deployment.node_of(names[1])
        deployment.move_slot(slot, to)
        assert "gap" in until_state(process, owner)
    command("unlock", names[0], owner)
    assert any(json.loads(text)["holders"] == 0 for text in process.stdout)


def test_a_holder_is_asked_on_every_deployment(deployment, command, names):
    for name in names:
        process = command.start("run", "--yield", name, "sleep", "60")
        until(lambda name=name: is_there(deployment, name), 60, "it is held")
        until(lambda name=name: command("ask", name).returncode == 0, 30, "it was asked")
        assert process.wait(30) == 143
        assert command("ask", name).returncode == 3


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "".join(kind) or "lock")
def test_break_frees_it_and_ends_the_command(deployment, command, names, kind):
    holders = [command.start("run", *kind, name, "sh", "-c", "echo in; exec sleep 60")
               for name in names]
    for holder in holders:
        assert holder.stdout.readline() == "in\n", holder.stderr.read()
    for name, holder in zip(names, holders):
        assert is_there(deployment, name)
        done = command("break", "--yes", name)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not is_there(deployment, name)
        assert command("break", "--yes", name).stderr == f"lockkeeper: {name} was not locked\n"
    for holder in holders:
        assert holder.wait(60) == 123, holder.stderr.read()


def test_wait_ends_when_it_is_free_also_behind_a_failover(deployment, command, names):
    for name in names:
        hold(server_of(deployment, name), name, ms=600_000)
        assert command("wait", "-n", name).returncode == 124
        assert command("wait", "-w", "0.3", name).returncode == 124
    waiters = [command.start("wait", "-v", name) for name in names]
    for waiter in waiters:
        assert waiter.stderr.readline().startswith("lockkeeper: server: ")
        assert "held by" in waiter.stderr.readline()
    fail_over(deployment)
    assert all(waiter.poll() is None for waiter in waiters)
    for name in names:
        server_of(deployment, name).call("DEL", name)
    for waiter in waiters:
        assert waiter.wait(30) == 0, waiter.stderr.read()


def test_top_shows_all_and_breaks_one(deployment, command, names):
    for number, name in enumerate(names):
        hold(server_of(deployment, name), name, f"stranger:{number}")
    shell = Terminal({**command.environment, "LC_ALL": "C.UTF-8"})
    try:
        shell.run("export TERM=xterm; stty rows 20 cols 160")
        shell.line(shlex.join([str(BINARY), "top", "-d", "0.2", "job*"]))
        last = sorted(names)[-1]
        text = shell.expect(last)
        assert all(name in text for name in names)
        shell.type(b"/" + last.encode() + b"\n")
        shell.expect(r"\(1\)")
        shell.type(b"b")
        shell.expect(r"Break it\? \[y/N\] " + last)
        shell.type(b"y")
        shell.expect(r"\rbroken:")  # what was there before is not drawn again
        until(lambda: [is_there(deployment, name) for name in names].count(False) == 1, 10)
        assert not is_there(deployment, last)
        fail_over(deployment)
        newest = f"{last}-newest"
        hold(server_of(deployment, newest), newest)
        shell.expect(newest, 60)
        shell.type(b"q")
        shell.prompt()
        assert shell.status() == 0
    finally:
        shell.close()


def test_a_wait_that_ends_before_the_acknowledgement(folder):
    """It ends with its own limit, not with that of a command, and names the replica."""
    pair = Replicas(folder, count=2)
    command = Command({"LOCKKEEPER_URL": f"{pair.url}?command_timeout_ms=600000"})
    try:
        assert command("run", "job", "true").returncode == 0
        port = pair.servers[1].port
        pair.servers[1].call("REPLICAOF", "127.0.0.1", port)  # alive, and not connected any more
        done = command("run", "-w", "0.5", "job", "true")
        assert done.returncode == 125
        assert f"has not acknowledged it yet: 127.0.0.1:{port}\n" in done.stderr
        assert pair.servers[0].call("EXISTS", "job") == 0
    finally:
        command.stop()
        pair.kill()
