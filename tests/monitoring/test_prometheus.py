"""The examples of examples/operations/prometheus, with Debian's Prometheus and node_exporter: it
scrapes a program, a job's file and a server of locks, and each query of the dashboard has data."""
from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import BUILD, COMMAND, PROMETHEUS, free_port, run, until

EXAMPLE = BUILD / "examples" / "example-metrics"
EXPORTER = "prometheus-node-exporter"
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("prometheus", "promtool", EXPORTER))) or not EXAMPLE.exists(),
    reason="it needs prometheus, prometheus-node-exporter and libmicrohttpd")
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - {{job_name: programs, static_configs: [{{targets: ['{program}']}}]}}
  - {{job_name: jobs, static_configs: [{{targets: ['{node}']}}]}}
  - {{job_name: server, static_configs: [{{targets: ['{server}']}}]}}
"""


def dashboard():
    return json.loads((PROMETHEUS / "dashboard.json").read_text())


def queries():
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


class Prometheus:
    def __init__(self, place):
        self.url = f"http://{place}/api/v1"

    def get(self, path, **arguments):
        with urllib.request.urlopen(f"{self.url}/{path}?{urllib.parse.urlencode(arguments)}",
                                    timeout=20) as answer:
            return json.load(answer)["data"]

    def ask(self, query):
        """What the panels would draw of the last moments: values that are numbers."""
        for name, value in (("$__rate_interval", "10s"), ("$job", ".*"), ("$lock", ".*")):
            query = query.replace(name, value)
        found = self.get("query", query=query)["result"]
        return [one for one in found if one["value"][1] != "NaN"]


def is_ready(place):
    try:
        with urllib.request.urlopen(f"http://{place}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.HTTPError):
        return False


@pytest.fixture(scope="module")
def prometheus(start, folder, environment, page, server):
    # A look is kept for whole seconds, and the program holds its lock for a part of each: of that
    # lock alone, looks could always come between two holds.
    server.call("HSET", "held", "6f1d9b8e-6a3c-4a7f-8d52-90c1f0a6f1de:1", "1")
    program, node, own = (f"127.0.0.1:{free_port()}" for _ in range(3))
    jobs = folder / "jobs"
    jobs.mkdir()
    # As a kill leaves it behind, before the file gets its name: no collector reads it.
    (jobs / ".killed.prom.new").write_text('lockkeeper_job_running{lock="nig')
    for command in ("true", "false"):
        subprocess.run([COMMAND, "run", "--metrics-file", jobs / "nightly.prom", "nightly",
                        command], env=environment, timeout=60)
    # Renewed often, and a waiter: all of the dashboard's histograms move.
    start(EXAMPLE, program.rsplit(":", 1)[1], LOCKKEEPER_WATCHDOG_MS="1000")
    start(EXPORTER, f"--web.listen-address={node}", "--collector.disable-defaults",
          "--collector.textfile", f"--collector.textfile.directory={jobs}")
    (folder / "prometheus.yml").write_text(CONFIG.format(
        rules=PROMETHEUS / "rules.yml", program=program, node=node,
        server=page.removeprefix("http://")))
    start("prometheus", f"--config.file={folder / 'prometheus.yml'}",
          f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={own}",
          "--log.level=error")
    until(lambda: is_ready(own), 60, "Prometheus is ready")
    return Prometheus(own)


def test_the_rules_pass_promtool():
    for words in (("check", "rules", "rules.yml"), ("check", "config", "prometheus.yml"),
                  ("test", "rules", "rules_test.yml")):
        done = run("promtool", *words, cwd=PROMETHEUS)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_has_a_test():
    rules = re.findall(r"- alert: (\w+)", (PROMETHEUS / "rules.yml").read_text())
    tests = (PROMETHEUS / "rules_test.yml").read_text()
    for rule in rules:
        assert re.search(rf"alertname: {rule}\n +exp_alerts", tests), rule
    assert len(set(rules)) == len(rules) >= 12


def test_the_series_are_there(prometheus):
    for query in ('lockkeeper_wait_seconds_bucket{job="programs"}',
                  'lockkeeper_lock_wait_seconds_count{lock="measured"}',
                  'lockkeeper_job_runs_total{job="jobs", result="success"} == 1',
                  'lockkeeper_job_runs_total{job="jobs", result="failure"} == 1',
                  'lockkeeper_server_up{job="server"} == 1',
                  "node_textfile_scrape_error == 0"):
        until(lambda: prometheus.ask(query), 60, query)


def test_the_rules_are_healthy(prometheus):
    def healths():
        return [rule["health"] for group in prometheus.get("rules")["groups"]
                for rule in group["rules"]]

    until(lambda: healths() and set(healths()) == {"ok"}, 60, "all rules were evaluated")


def test_each_query_of_the_dashboard_has_data(prometheus):
    missing = set(queries())
    assert len(missing) > 20
    end = time.monotonic() + 90
    while missing and time.monotonic() < end:
        missing = {query for query in missing if not prometheus.ask(query)}
        time.sleep(0.5)
    assert not missing


def test_the_dashboard_is_for_any_machine():
    board = dashboard()
    assert board["id"] is None and board["uid"] == "lockkeeper"
    assert all("current" not in variable for variable in board["templating"]["list"])
    assert "datasource" in {variable["type"] for variable in board["templating"]["list"]}
    text = json.dumps(board)
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"lockkeeper", "${datasource}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
