"""lockkeeper elect and leader: a command that runs while it leads, and who does."""
from __future__ import annotations

import json
import pathlib
import signal

import pytest

from waiting import until

LIMIT = 20  # seconds for anything that has to happen
LINE = 'echo "$LOCKKEEPER_TERM" >> "$0"; exec sleep 100'


def terms(path: pathlib.Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def leader(cli) -> dict:
    result = cli("leader", "--json", "web")
    return json.loads(result.stdout) if result.stdout else {}


def candidates(cli) -> list[dict]:
    return json.loads(cli("elect", "--candidates", "--json", "web").stdout)


def elect(cli, path: pathlib.Path, *options: str, line: str = LINE):
    return cli.start("elect", *options, "web", "--", "sh", "-c", line, str(path))


def until_leads(cli, value: str) -> dict:
    until(lambda: leader(cli).get("value") == value, LIMIT, f"{value} leads")
    return leader(cli)


def test_one_leads_and_the_next_one_follows(cli, folder):
    first = elect(cli, folder / "a", "--value", "a")
    one = until_leads(cli, "a")
    second = elect(cli, folder / "b", "--value", "b")
    until(lambda: [row["value"] for row in candidates(cli)] == ["b"], LIMIT, "b waits")
    until(lambda: terms(folder / "a") == [one["term"]], LIMIT, "a's command knows its term")
    assert cli("leader", "web").stdout == f"a\t{one['term']}\t{one['since']}\n"
    first.send_signal(signal.SIGTERM)
    assert first.wait(LIMIT) == 128 + signal.SIGTERM
    other = until_leads(cli, "b")
    assert other["term"] > one["term"]
    second.send_signal(signal.SIGTERM)
    second.wait(LIMIT)
    until(lambda: leader(cli)["vacant"], LIMIT, "nobody leads")
    vacant = cli("leader", "web")
    assert (vacant.returncode, vacant.stdout) == (1, "")


def test_it_stands_again_with_a_pause(cli, folder):
    process = elect(cli, folder / "a", line='echo "$LOCKKEEPER_TERM" >> "$0"; exit 3')
    until(lambda: len(terms(folder / "a")) >= 3, LIMIT, "it has led three times")
    seen = terms(folder / "a")
    assert seen == sorted(set(seen)) and seen[2] - seen[0] >= 2_900_000, "1 s, then 2 s"
    process.send_signal(signal.SIGTERM)  # in a pause, or in the wait
    assert process.wait(LIMIT) in (128 + signal.SIGTERM, 3)


def test_once(cli, folder):
    result = cli("elect", "--once", "web", "--", "sh", "-c", "exit 7")
    assert (result.returncode, result.stderr) == (7, "")


def test_a_command_that_is_not_there_ends_it(cli):
    assert cli("elect", "web", "--", "/nonexistent").returncode == 127


def test_the_command_ends_before_another_leads(cli, server, folder):
    """The server is stopped: the leader cannot renew."""
    trap = 'trap "date +%s%N > $0.end; exit" TERM; echo $LOCKKEEPER_TERM >> $0; ' \
           'while :; do sleep 0.05; done'
    first = elect(cli, folder / "a", "-l", "3", "--once", line=trap)
    until(lambda: terms(folder / "a"), LIMIT, "it leads")
    second = elect(cli, folder / "b", "-l", "3")
    until(lambda: len(candidates(cli)) == 1, LIMIT, "b waits")
    server.pause()
    first.wait(LIMIT)
    server.resume()
    until(lambda: terms(folder / "b"), LIMIT, "the next one leads")
    ended_us = int((folder / "a.end").read_text()) // 1000
    assert ended_us < terms(folder / "b")[0], "terms begin with the server's time"
    assert first.returncode == 123
    second.send_signal(signal.SIGTERM)
    second.wait(LIMIT)


def test_a_killed_leader_is_followed(cli, folder):
    first = elect(cli, folder / "a", "-l", "2")
    until(lambda: terms(folder / "a"), LIMIT, "it leads")
    second = elect(cli, folder / "b", "-l", "2")
    until(lambda: len(candidates(cli)) == 1, LIMIT, "b waits")
    first.kill()
    until(lambda: terms(folder / "b"), LIMIT, "the next one leads")
    second.send_signal(signal.SIGTERM)
    second.wait(LIMIT)


def test_a_wedged_command_loses_its_place(cli, folder):
    """It touches its file for three leases, hangs, and is ended before the next one leads."""
    beat = folder / "beat"
    line = ('trap "date +%s%N > $0.end; exit" TERM; echo $LOCKKEEPER_TERM >> $0; '
            f'for i in $(seq 30); do touch {beat}; sleep 0.1; done; echo hangs > $0.hangs; '
            'while :; do sleep 0.05; done')
    first = elect(cli, folder / "a", "-l", "1", "--once", "--progress-file", str(beat),
                  "--progress-within", "0.5", line=line)
    until(lambda: terms(folder / "a"), LIMIT, "it leads")
    second = elect(cli, folder / "b", "-l", "1")
    until((folder / "a.hangs").exists, LIMIT, "it hangs")
    assert not terms(folder / "b"), "progress keeps it"
    until(lambda: terms(folder / "b"), LIMIT, "the next one leads")
    assert int((folder / "a.end").read_text()) // 1000 < terms(folder / "b")[0]
    assert first.wait(LIMIT) == 123
    assert "its work shows no progress" in first.stderr.read()
    second.send_signal(signal.SIGTERM)
    second.wait(LIMIT)


def test_transfer_and_resign_by_hand(cli, folder):
    ready = folder / "ready"
    first = elect(cli, folder / "a", "--value", "a", "--ready-file", str(ready))
    until_leads(cli, "a")
    others = [elect(cli, folder / value, "--value", value) for value in "bc"]
    until(lambda: sum(row["listens"] for row in candidates(cli)) == 2, LIMIT, "b and c wait")
    ids = {row["value"]: row["id"] for row in candidates(cli)}
    assert cli("elect", "--transfer", "nobody:1", "web").returncode == 124
    assert leader(cli)["value"] == "a"
    until(lambda: ready.exists() and ready.read_text().startswith("leading"), LIMIT, "it says so")
    assert cli("elect", "--check", "--ready-file", str(ready)).stdout == ready.read_text()
    assert cli("elect", "--transfer", ids["c"], "web").returncode == 0
    until_leads(cli, "c")
    until(lambda: ready.read_text() == "candidate\n", LIMIT, "a stands again")
    assert cli("elect", "--resign", "web").returncode == 0
    until(lambda: leader(cli).get("value") in ("a", "b"), LIMIT, "another leads")
    for process in [first, *others]:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    assert cli("elect", "--resign", "web").returncode == 1
    assert cli("elect", "--check", "--ready-file", str(ready)).returncode == 1


@pytest.mark.parametrize("says", ["retire", "priority"])
def test_a_deploy_changes_the_leader_once(cli, server, folder, says):
    """Five replicas are replaced one by one, the leader in the middle of it. Each new one waits
    before its old one is ended."""
    def start(value: str, *options: str):
        process = elect(cli, folder / value, "--value", value, *options)
        until(lambda: leader(cli).get("value") == value or
              any(row["value"] == value and row["listens"] for row in candidates(cli)),
              LIMIT, f"{value} stands")
        return process

    old = [start("old2")] + [start(f"old{number}") for number in (0, 1, 3, 4)]
    old = old[1:3] + old[:1] + old[3:]
    first = leader(cli)
    assert first["value"] == "old2"
    if says == "retire":
        assert cli("elect", "--retire", "web").returncode == 0
    new = []
    for number, process in enumerate(old):
        new.append(start(f"new{number}", "--priority", "0" if says == "retire" else "1"))
        if says == "retire":
            until_leads(cli, "new0")
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
        until(lambda: not leader(cli)["vacant"], LIMIT, "somebody leads")
    last = until_leads(cli, "new0")
    led = {path.name: terms(path) for path in folder.iterdir() if path.name[:3] in ("old", "new")}
    assert led == {"old2": [first["term"]], "new0": [last["term"]]}
    assert int(server.call("HGET", "lockkeeper_election:{web}", "count")) == 2
    for process in new:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    assert cli("elect", "--retire", "web").returncode == 1


def test_a_ready_file_that_cannot_be_written(cli):
    result = cli("elect", "--ready-file", "/nonexistent/ready", "web", "true")
    assert result.returncode == 125
    assert "cannot write /nonexistent/ready: No such file or directory" in result.stderr


def test_a_watch_tells_of_vacancy(cli, folder):
    watch = cli.start("leader", "--watch", "--json", "web")
    assert json.loads(watch.stdout.readline())["vacant"]
    for _ in range(3):
        process = elect(cli, folder / "a", "--value", "a", "--once", line="sleep 0.3")
        row = json.loads(watch.stdout.readline())
        assert row["value"] == "a" and "missed" not in row
        assert json.loads(watch.stdout.readline()) == {"vacant": True, "last_term": row["term"]}
        process.wait(LIMIT)


@pytest.mark.parametrize("args", [["--priority", "1001", "web", "true"], ["--json", "web", "true"],
                                  ["--candidates"], ["--candidates", "web", "true"], ["web"],
                                  ["--progress-within", "1", "web", "true"],
                                  ["--value", "x" * 1025, "web", "true"]])
def test_wrong_use(cli, args):
    result = cli("elect", *args)
    assert result.returncode == 125 and result.stderr.startswith("lockkeeper: ")


def test_a_drain_hands_over_and_stands_no_more(cli, folder):
    first = elect(cli, folder / "a", "--value", "a", "--drain-signal", "USR1")
    until_leads(cli, "a")
    until(lambda: terms(folder / "a"), LIMIT, "a's command runs")
    waits = elect(cli, folder / "b", "--value", "b", "--drain-signal", "USR1")
    until(lambda: [row["value"] for row in candidates(cli)] == ["b"], LIMIT, "b waits")
    waits.send_signal(signal.SIGUSR1)
    assert waits.wait(LIMIT) == 0
    assert candidates(cli) == [] and terms(folder / "b") == []
    for _ in range(3):
        first.send_signal(signal.SIGUSR1)
    third = elect(cli, folder / "c", "--value", "c")
    until_leads(cli, "c")
    assert first.wait(LIMIT) == 128 + signal.SIGTERM
    assert first.stderr.read().count("draining") == 1
    assert len(terms(folder / "a")) == 1
    third.send_signal(signal.SIGTERM)
    third.wait(LIMIT)
