"""lockkeeper run --metrics-file: what a job did last, for a collector of text files."""
from __future__ import annotations

import os
import signal
import stat
import subprocess
import time

import pytest

from command import BINARY, BUILD
from rights import as_root, namespaces
from waiting import until

STRANGER = 12345  # a user that nobody is
SKEW = BUILD / "tests" / "history" / "skew.so"
KILLED = BUILD / "tests" / "cli" / "killed_at_rename.so"


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
    name = '../a"b\\c\nd\x7fé'
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


def preloaded(library):
    """By a bare name: LD_PRELOAD would end at a space of the path."""
    return {"LD_LIBRARY_PATH": str(library.parent), "LD_PRELOAD": library.name}


def test_a_success_on_another_host_stays_the_last_one(cli, server, tmp_path):
    """Each host has a file; the alarm takes the latest of all."""
    here, there = tmp_path / "here.prom", tmp_path / "there.prom"
    cli("run", "--metrics-file", str(here), "job", "true")
    before = here.read_bytes()
    server.call("HSET", "job", "other:1", "1")
    assert cli("run", "-n", "--metrics-file", str(there), "job", "true").returncode == 124
    assert here.read_bytes() == before
    found = values(there)
    assert (found["last_success_timestamp_seconds"], found["skipped"]) == (0, 1)


def test_a_job_that_is_killed_still_runs_for_its_reader(cli, path):
    """Only the time of its start tells; the next run mends it."""
    process = cli.start("run", "-l", "2", "--metrics-file", str(path), "job", "sleep", "60")
    until(path.exists, 20, "the start is told")
    process.kill()
    process.wait(20)
    found = values(path)
    assert (found["running"], found["last_end_timestamp_seconds"]) == (1, 0)
    assert time.time() - 60 < found["last_start_timestamp_seconds"] <= time.time()
    assert cli("run", "-w", "30", "--metrics-file", str(path), "job", "true").returncode == 0
    found = values(path)
    assert (found["running"], found["success"], found["failure"]) == (0, 1, 0)


def test_a_kill_before_the_rename(cli, path):
    """What the file had stays whole; what was to replace it has no name that is read, and goes."""
    cli("run", "--metrics-file", str(path), "job", "true")
    before = path.read_bytes()
    process = cli.start("run", "-l", "2", "--metrics-file", str(path), "job", "sleep", "60",
                        **preloaded(KILLED))
    assert process.wait(30) == -signal.SIGKILL
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == [f".{path.name}.new", path.name]
    (path.parent / f".{path.name}.new").write_text("half a li")
    assert cli("run", "-w", "30", "--metrics-file", str(path), "job", "true").returncode == 0
    assert values(path)["success"] == 2
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("spoil, reason", [
    ("mount -o remount,ro none .", "Read-only file system"),
    ("dd if=/dev/zero of=filler bs=512 2>/dev/null", "No space left")], ids=["read-only", "full"])
def test_a_folder_that_takes_no_file(cli, tmp_path, spoil, reason):
    """The job runs and its status counts; what was there stays whole, and nothing besides it."""
    script = f"""mount -t tmpfs -o size=16k none "$1" && cd "$1" || exit 99
        lockkeeper run --metrics-file nightly.prom job true && cp nightly.prom "$2/before"
        {spoil}
        lockkeeper run --metrics-file "$1/nightly.prom" job sh -c "echo ran; exit 4"
        status=$?; cp nightly.prom "$2/after"; ls -A >"$2/left"; exit $status"""
    (tmp_path / "small").mkdir()
    done = subprocess.run([*namespaces(), "sh", "-c", script, "-", tmp_path / "small", tmp_path],
                          env=cli.environment, capture_output=True, text=True, timeout=60)
    if done.returncode == 99:
        pytest.skip(f"may not mount: {done.stderr}")
    assert (done.returncode, done.stdout) == (4, "ran\n")
    assert f"cannot write the metrics file {tmp_path / 'small' / 'nightly.prom'}" in done.stderr
    assert reason in done.stderr
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()
    assert values(tmp_path / "after")["success"] == 1
    assert (tmp_path / "left").read_text().split() in (["nightly.prom"], ["filler", "nightly.prom"])


@as_root
def test_a_file_of_another_user(server, cli, folder):
    """It is replaced where the folder may be written, as by any rename; else it is a warning."""
    place = folder / "jobs"
    place.mkdir()
    folder.chmod(0o755)
    path = place / "nightly.prom"
    cli("run", "--metrics-file", str(path), "job", "true")
    for owner, counted in ((STRANGER, 2), (0, 2)):
        os.chown(place, owner, owner)
        done = subprocess.run([BINARY, "run", "--metrics-file", path, "job", "true"],
                              env={**cli.environment,
                                   "LOCKKEEPER_URL": f"redis://127.0.0.1:{server.port}"},
                              capture_output=True, text=True, timeout=60, user=STRANGER,
                              group=STRANGER, extra_groups=[])
        assert done.returncode == 0, done
        assert ("Permission denied" in done.stderr) == (owner == 0)
        assert values(path)["success"] == counted


def test_a_clock_that_steps_back(cli, path, tmp_path):
    """By an hour, while the job runs: how long it ran is not counted by that clock. The latest run
    tells, even where an earlier one seems to come from the future."""
    clock = tmp_path / "clock"
    clock.write_bytes(bytes(4096))
    assert cli("run", "--metrics-file", str(path), "job", "sh", "-c",
               f"sleep 0.2; printf %s -3600000 | dd of='{clock}' conv=notrunc", **preloaded(SKEW),
               LOCKKEEPER_TEST_CLOCK_FILE=str(clock)).returncode == 0
    found = values(path)
    assert 0.2 <= found["last_duration_seconds"] < 60
    assert -3700 < found["last_end_timestamp_seconds"] - time.time() < -3500
    for step in (7200, 0):
        assert cli("run", "--metrics-file", str(path), "job", "true", **preloaded(SKEW),
                   LOCKKEEPER_TEST_CLOCK_MS=str(step * 1000)).returncode == 0
        found = values(path)
        for what in ("start", "end", "success"):
            assert abs(found[f"last_{what}_timestamp_seconds"] - time.time() - step) < 60
        assert 0 <= found["last_duration_seconds"] < 60
    assert found["success"] == 3
