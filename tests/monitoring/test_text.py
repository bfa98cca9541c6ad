"""The texts, read by promtool and by Python's parsers: hostile names, and a decimal comma."""
from __future__ import annotations

import pathlib
import shutil
import sys

import pytest

from conftest import BUILD, COMMAND, run

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = BUILD / "src" / "liblockkeeper.so"
LABELS = {'quote"', "back\\slash", "new\nline", "nul\ufffdbyte", "\ufffd\ufffd",
               '{x="1"} 5\n# EOF\n', "é\u202e", "other", "a" * 3000}
PROMTOOL = pytest.mark.skipif(not shutil.which("promtool"), reason="it needs promtool")


@pytest.fixture(scope="module")
def german(folder, environment):
    """An environment whose locale writes 0,5."""
    place = folder / "locales"
    place.mkdir()
    done = run("localedef", "-i", "de_DE", "-f", "UTF-8", place / "de_DE.UTF-8")
    if done.returncode:
        pytest.skip("it needs the package locales")
    return {**environment, "LOCPATH": str(place), "LC_ALL": "de_DE.UTF-8"}


def written(german, server, format_number):
    done = run(sys.executable, HERE / "hostile.py", LIBRARY, server.unix_url, format_number,
               env=german)
    assert done.returncode == 0, done.stderr
    return done.stdout


def promtool_takes(text: bytes) -> None:
    done = run("promtool", "check", "metrics", input=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@PROMTOOL
def test_promtool_takes_the_librarys_text(german, server):
    promtool_takes(written(german, server, 0))


@pytest.mark.parametrize("number", [0, 1])
def test_python_takes_it_in_both_formats(german, server, number):
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics
    text = written(german, server, number).decode()
    families = list((openmetrics if number else parser).text_string_to_metric_families(text))
    labels = {sample.labels["lock"] for family in families for sample in family.samples
              if "lock" in sample.labels}
    assert labels == LABELS
    granted = {sample.labels["lock"]: sample.value for family in families
               for sample in family.samples if sample.name == "lockkeeper_lock_acquires_total"
               and sample.labels["result"] == "granted"}
    assert granted["\ufffd\ufffd"] == granted["other"] == 2  # two names look like each
    assert all(sample.labels.get("client", 'client "\ufffd\n') == 'client "\ufffd\n'
               for family in families for sample in family.samples)


@PROMTOOL
def test_promtool_takes_a_jobs_file(german, folder):
    for name in (b'a"b\\c\nd', b"\xff"):
        path = folder / "job.prom"
        done = run(COMMAND, "run", "--metrics-file", path, name.decode(errors="surrogateescape"),
                   "true", env=german)
        assert done.returncode == 0, done.stderr
        promtool_takes(path.read_bytes())
        path.unlink()


@PROMTOOL
def test_promtool_takes_what_is_on_a_server(german, server):
    for name in (b'quote"', b"new\nline", b"nul\0", b"\xff", b"\xfe"):
        server.call("HSET", name, "other:1", "1")
        server.call("PEXPIRE", name, "60000")
    done = run(COMMAND, "metrics", "--names", env=german)
    assert done.returncode == 0 and b"lock_lease_seconds{" in done.stdout
    promtool_takes(done.stdout)
