"""lockkeeper run --metrics-file: what a job did last, for a collector of text files."""
from __future__ import annotations

import os
import stat
import time

import pytest

from waiting import until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nightly.prom"


def values(path, lock="job"):
    """The series of the file by their names, as Prometheus' own parser reads them."""
    parser = pytest.importorskip("prometheus_client.parser")
    found = {}
    for family in parser.text_string_to_metric_families(path.read_text()):
        assert family.documentation
        for sample in family.samples:
            assert sample.labels.pop("lock") == lock
            name = sample.name.removeprefix("lockkeeper_job_")
            key = sample.labels.get("result", name)
            assert key not in found
            found[key] = sample.value
    return found


def test_a_job_that_succeeds(cli, path):
    began = time.time()
    assert cli("run", "--metrics-file", str(path), "job", "sleep", "0.2").returncode == 0
    ended = time.time()
    found = values(path)
    assert began - 1 <= found["last_start_timestamp_seconds"] <= ended
    assert found["last_start_timestamp_seconds"] < found["last_end_timestamp_seconds"] <= ended
    assert found["last_success_timestamp_seconds"] == found["last_end_timestamp_seconds"]
    assert 0.2 <= found["last_duration_seconds"] <= ended - began
    assert found["last_exit_status"] == found["running"] == found["skips_in_a_row"] == 0
    assert (found["success"], found["failure"], found["skipped"], found["lost"],
            found["error"]) == (1, 0, 0, 0, 0)
    assert os.listdir(path.parent) == [path.name]


def test_runs_add_up_and_a_failure_keeps_the_last_success(cli, path):
    cli("run", "--metrics-file", str(path), "job", "true")
    before = values(path)
    assert cli("run", "--metrics-file", str(path), "job", "sh", "-c", "exit 3").returncode == 3
    found = values(path)
    assert (found["success"], found["failure"], found["last_exit_status"]) == (1, 1, 3)
    assert found["last_success_timestamp_seconds"] == before["last_success_timestamp_seconds"]
    assert found["last_end_timestamp_seconds"] >= before["last_end_timestamp_seconds"]


def test_a_skip_changes_its_own_series_alone(cli, server, path):
    cli("run", "--metrics-file", str(path), "job", "true")
    before = values(path)
    server.call("HSET", "job", "other:1", "1")
    server.call("PEXPIRE", "job", "60000")
    for skips in (1, 2):
        assert cli("run", "-n", "--metrics-file", str(path), "job", "true").returncode == 124
        found = values(path)
        assert found.pop("skipped") == found.pop("skips_in_a_row") == skips
        assert found == {name: before[name] for name in found}
    server.call("DEL", "job")
    cli("run", "--metrics-file", str(path), "job", "true")
    assert values(path)["skips_in_a_row"] == 0
    assert values(path)["skipped"] == 2


def test_it_tells_that_a_job_runs(cli, path):
    process = cli.start("run", "--metrics-file", str(path), "job", "sleep", "60")
    until(path.exists, 20, "the start is told")
    assert values(path)["running"] == 1
    process.terminate()
    assert process.wait(30) == 143
    found = values(path)
    assert (found["running"], found["last_exit_status"], found["failure"]) == (0, 143, 1)


def test_a_lost_lock(cli, server, path):
    process = cli.start("run", "-l", "3", "--metrics-file", str(path), "job", "sleep", "60")
    until(lambda: path.exists(), 20, "it runs")
    server.call("DEL", "job")
    assert process.wait(30) == 123
    assert (values(path)["lost"], values(path)["success"]) == (1, 0)


def test_no_server_is_no_skip(cli, path):
    result = cli("run", "--metrics-file", str(path), "job", "true",
                 LOCKKEEPER_URL="redis://127.0.0.1:1")
    assert result.returncode == 125
    assert (values(path)["error"], values(path)["skips_in_a_row"]) == (1, 0)


def test_any_umask_and_any_name(cli, path):
    name = 'a"b\\c\nd\x7fé'
    before = os.umask(0o077)
    try:
        assert cli("run", "--metrics-file", str(path), name, "true").returncode == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert values(path, name)["success"] == 1
    assert cli("run", "--metrics-file", str(path), name, "true").returncode == 0
    assert values(path, name)["success"] == 2
    assert cli("run", "--metrics-file", str(path), b"\xff", "true").returncode == 0
    assert values(path, "\ufffd")["success"] == 1


def test_a_decimal_comma_changes_nothing(cli, path):
    assert cli("run", "--metrics-file", str(path), "job", "true",
               LC_ALL="de_DE.UTF-8").returncode == 0
    assert values(path)["success"] == 1


@pytest.mark.parametrize("name", ["", ".prom", "job.txt", "folder/.prom"])
def test_a_name_that_no_collector_reads_is_refused(cli, tmp_path, name):
    result = cli("run", "--metrics-file", f"{tmp_path}/{name}", "job", "touch", f"{tmp_path}/ran")
    assert result.returncode == 125
    assert "--metrics-file" in result.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("what", ["no folder", "a folder", "a fifo"])
def test_what_cannot_be_written_is_a_warning(cli, path, what):
    """The job runs, and the status is the job's."""
    if what == "a folder":
        path.mkdir()
    elif what == "a fifo":
        os.mkfifo(path)
    else:
        path = path / "deeper.prom"
    result = cli("run", "--metrics-file", str(path), "job", "sh", "-c", "echo ran; exit 4")
    assert (result.returncode, result.stdout) == (4, "ran\n")
    assert f"cannot write the metrics file {path}" in result.stderr


@pytest.mark.parametrize("text", [b"", b"\0\0\0", b"lockkeeper_job_running{lock=\"job\"} x\n",
                                  b"lockkeeper_job_runs_total{lock=\"job\",result=\"success\"} "
                                  b"99999999999999999999\n", b"x" * 200000],
                         ids=["empty", "zeros", "no number", "too large", "long"])
def test_a_damaged_file_is_written_anew(cli, path, text):
    path.write_bytes(text)
    assert cli("run", "--metrics-file", str(path), "job", "true").returncode == 0
    assert values(path)["success"] == 1


def test_a_link_is_replaced_and_not_followed(cli, path, tmp_path):
    other = tmp_path / "other"
    other.write_text("mine\n")
    path.symlink_to(other)
    (tmp_path / f".{path.name}.new").symlink_to(other)
    assert cli("run", "--metrics-file", str(path), "job", "true").returncode == 0
    assert other.read_text() == "mine\n"
    assert values(path)["success"] == 1


def test_runs_at_once_forget_no_count(cli, path):
    runs = [cli.start("run", "-n", "--metrics-file", str(path), "job", "sleep", "0.5")
            for _ in range(8)]
    codes = [process.wait(60) for process in runs]
    found = values(path)
    assert found["success"] == codes.count(0)
    assert found["skipped"] == codes.count(124)
