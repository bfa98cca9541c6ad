#!/usr/bin/env python3
"""Writes docs/options.md, docs/errors.md, docs/doctor.md, docs/arguments.md, docs/metrics.md and
docs/beside.md from the library's own tables, docs/choosing.md and its drawing from bench/results,
and the symbols of the Debian package from src/lockkeeper.map.

usage: make_docs.py BUILD
"""
from __future__ import annotations

import ctypes
import pathlib
import re
import sys

import beside_page
import choosing_page
import choosing_picture
from tree import ROOT

OPTIONS_HEAD = """# Options

Made from `src/conf/options.def` by `make docs`; do not edit.

`lk_config_set()`, the query of a URL (`redis://host?spin_us=0`), an environment variable or
`lockkeeper -o name=value` sets an option; for the command also a line `name=value` of
`/etc/lockkeeper.conf`, over which the environment prevails. `LOCKKEEPER_CONFIG` names another file
than that one, and `LOCKKEEPER_STATE_DIR` the folder of the command's private server. An option's
own variable prevails over what `LOCKKEEPER_URL` says of it: `LOCKKEEPER_PASSWORD` over the password
in that URL. A value that is invalid or out of range is refused with its name and the reason, and
nothing changes.

## URLs

**A failover can lose a lock if replicas are down.** Redis replicates after it has answered. With
the last three URLs the library therefore waits until every live replica has the grant
(`replica_acks`), and grants nothing if too few have it (`LK_ENOTDURABLE`). But if all live replicas
go down, and one that was down before becomes the master, it may lack grants: then two owners are
possible. The library tells the old holder as soon as it knows that the lock is not at the new
master. Use fence tokens or a quorum of independent servers if you cannot accept that.

| URL | what it names |
|---|---|
| `redis://[user:password@]host[:6379][/db]` | one server |
| `unix://[user:password@]path[?db=N]` | one server, through its socket |
| `redis-replicas://[user:password@]host[:6379],host[:6379],…[/db]` | a master and replicas, all |
| `redis-sentinel://[user:password@]host[:26379],…/master[/db]` | a master, by its sentinels |
| `redis-cluster://[user:password@]host[:6379],…` | a cluster, by some of its nodes |

`rediss` speaks TLS; `valkey` and `valkeys` are other names of `redis` and `rediss`. A URL lists up
to 16 addresses; [deployments.md](deployments.md#how-the-master-is-found) says how the master is
found. Several URLs, separated by commas, are a quorum (`lockkeeper run`).

A user of the servers needs [these rights](acl/locks.acl), and these for what it uses:

- `fsync_acks`: `+waitaof`
- a number in `replica_acks`: `+wait`
- the last three URLs: `+role` and `+wait`
- a cluster: `+cluster|myid`, `+cluster|slots` and `+asking` as well
- `notify` of a plain lock: the channel that it names, or `+lpush` and the list
- `note`: `+set` and the keys of the clients' records, `lockkeeper_client:*` below `key_prefix`;
  without them the lock is taken, and nobody learns why
- sharded messages, or both kinds: `+spublish`, `+ssubscribe`, `+sunsubscribe` and
  `+pubsub|shardnumsub`

A user of the sentinels needs no more than this:

    -@all +auth +sentinel|myid +sentinel|get-master-addr-by-name +sentinel|replicas
    +sentinel|sentinels +subscribe resetchannels &+switch-master &+reboot

`lockkeeper doctor` also asks them with `+sentinel|master` and `+sentinel|ckquorum`.

## Table

| option | environment | type | default | range | meaning |
|---|---|---|---|---|---|
"""

ARGUMENTS_HEAD = """# Arguments that are numbers

Made from `src/api/arguments.def` by `make docs`; do not edit.

A call that is given another number fails with `LK_EINVAL`, names the argument and its range, and
changes nothing. `margin_ms` is at most the lease.

| argument | least | most | what it is |
|---|--:|--:|---|
"""

ERRORS_HEAD = """# Errors

Made from `include/lockkeeper/error.h` by `make docs`; do not edit.

A failed call says either *not done* or *unknown*. A code for *unknown* is marked *may be held*:
nobody holds the lock through this call, and the library releases any grant that the server may
have made. *Retryable*: the same call can succeed later without any change. *Fatal*: only a change
of arguments, rights or configuration can help. The `lk_error` that a call fills also names the
node, the command and the reason.

| code | value | meaning | retryable | fatal | may be held |
|---|---|---|---|---|---|
"""


DOCTOR_HEAD = """# What the doctor finds

Made from `src/api/doctor/findings.def` by `make docs`; do not edit.

`lockkeeper doctor` looks at the servers that `LOCKKEEPER_URL` or `--url` name, and says what they
promise and what would lose locks. It judges one server alone, and several as a quorum. In a cluster
it looks at all masters. With `redis-sentinel://`, `redis-replicas://` and `redis-cluster://` it
also looks at each sentinel, and at each replica, since that may become the master. Programs call
`lk_doctor_new()`. Each finding is one row of this table; the report adds what was seen at the
server. The id never changes its meaning.

- An *error* loses locks in normal use, or prevents them. The command exits with 5.
- A *warning*: a crash, a failover or a change would lose locks or calls. It exits with 4.
- A *note* is good to know. If there is nothing worse, it exits with 0.

The command writes nothing. It sends `INFO`, `ROLE`, `TIME`, `HELLO`, `CONFIG GET` and questions
about rights: `ACL DRYRUN`, or where that is refused, a script of one line that asks the same.
Before Redis 7.0 it uses `ACL GETUSER`, or tries the commands that only read. It asks a node of a
cluster with `CLUSTER SLOTS`, and sentinels with `SENTINEL` `MASTER`, `REPLICAS`, `SENTINELS` and
`CKQUORUM`. For a moment it subscribes to a channel. What a server refuses to tell is a finding too,
`not-looked-at`. The command compares host names to see that two servers are on one
machine. It cannot see what changes afterwards.

With `--json` it prints one object: `worst` (`note`, `warning`, `error`), `promise`, `nodes` (`url`,
`server`, `version`, `role`, `round_trip_us`, `clock_ahead_us`) and `findings` (`id`, `severity`,
`node`, `detail`, `meaning`, `fix`). What is not known is `null`; so is the `node` of a finding
about all servers together. Later versions may add keys and findings.

| id | severity | what it does to a lock | what to do |
|---|---|---|---|
"""


METRICS_HEAD = """# Metrics

Made from `src/api/metrics.def` by `make docs`; do not edit.

`lk_stats_write()` (`lockkeeper/stats.h`) writes a client's metrics as text, for Prometheus (0.0.4)
or OpenMetrics (1.0). The library has no HTTP: a program hands the text on, as
[examples/metrics.c](../examples/metrics.c) does with libmicrohttpd. With the library installed
(`make install`) and a Redis that runs:

    cc metrics.c $(pkg-config --cflags --libs lockkeeper libmicrohttpd) -o metrics
    LOCKKEEPER_URL=redis://localhost ./metrics 9464

    # prometheus.yml
    scrape_configs:
      - job_name: locks
        scrape_interval: 15s
        static_configs: [{targets: ["localhost:9464"]}]

    prometheus --config.file=prometheus.yml

At <http://localhost:9090>, `rate(lockkeeper_wait_seconds_bucket[1m])` then shows how long callers
wait for their locks.

**Watch these three.** `lockkeeper_lost_total` rises when a lock was lost, with the cause.
`lockkeeper_at_risk_total` rises before that. `lockkeeper_renewal_margin_seconds` shrinks earlier
still: it is the lease that was left when a renewal was answered, two thirds of the lease when all
is well.

    # the worst margin of the last ten minutes, 5 % quantile
    histogram_quantile(0.05, sum by (le) (rate(lockkeeper_renewal_margin_seconds_bucket[10m])))
    # the share of acquires that had to wait
    rate(lockkeeper_contended_total[5m])
      / on () sum(rate(lockkeeper_acquires_total{result="granted"}[5m]))

A program with several clients gives each a label, which each of its series then has as `client`.
All series are there from the start, with 0: one that is missing cannot alarm. Names of locks often
come from data (`order:4711`), and each would be new series. So the only names in a text are those
that the program declares, at most 100, before it has locks; all others are counted as `other`:

    lk_stats_declare(client, "backup", LK_STRLEN, &error);
    lk_stats_declare(client, "order:*", LK_STRLEN, &error); /* all orders together */

Then the series that the table shows with `lockkeeper_lock_` are there too, with the label `lock`.

Histograms have 16 bounds, powers of four from 4 µs to 72 minutes. A duration that is a bound
exactly counts above it.

## Series

| series | type | label | meaning |
|---|---|---|---|
"""

METRICS_TAIL = """| `lockkeeper_node_round_trip_seconds` | gauge | `node`: its address | The last \
question for the server's time |
| `lockkeeper_build_info` | info, in 0.0.4 a gauge | `version` | The library's version; always 1 |

## A job that lockkeeper runs

`lockkeeper run --metrics-file DIR/NAME.prom` writes a file for the textfile collector of
node_exporter, which is started with `--collector.textfile.directory=DIR`:

    lockkeeper run -n --metrics-file /var/lib/node_exporter/nightly.prom nightly -- ./report.sh

Each series has the label `lock`, the NAME of `run`. A file is for one job on one host. A run that
is skipped, since another has the lock, changes `runs_total` and `skips_in_a_row` alone. So for a
job that several hosts start, the last success of any of them counts:

    # it has not succeeded for longer than two of its periods
    time() - max by (lock) (lockkeeper_job_last_success_timestamp_seconds) > 2 * 86400

| series | type | meaning |
|---|---|---|
"""

TRAPS = """
## What goes wrong with metrics

Each line is a fault that others have had with metrics, or could have here, and the tests that show
how it ends.

| fault | how it ends | tests |
|---|---|---|
| names with a quote, a backslash, a line's end, a NUL, or no UTF-8 | escaped, or U+FFFD | \
`monitoring/test_text: test_python_takes_it_in_both_formats`, \
`api/test_metrics: test_a_label_may_be_any_text`, \
`cli/test_job_metrics: test_any_umask_and_any_name`, \
`cli/test_metrics: test_hostile_names_stay_labels` |
| names that look the same as labels | one series: one that stands twice spoils a text | \
`api/test_metrics: test_names_with_one_label_are_one_series`, \
`cli/test_metrics: test_hostile_names_stay_labels` |
| a locale with a decimal comma | a point | \
`monitoring/test_text: test_promtool_takes_the_librarys_text`, \
`cli/test_job_metrics: test_a_decimal_comma_changes_nothing` |
| a type that one format lacks | `build_info` is an info in OpenMetrics alone | \
`api/test_metrics: test_a_new_client_shows_all_series` |
| a reader that asks for one of the formats | it gets that one | \
`cli/test_metrics: test_it_serves_the_format_that_is_asked_for`, \
`install/test_examples: test_metrics` |
| a series that is missing until something happens | all are there from the start | \
`api/test_metrics: test_a_new_client_shows_all_series`, \
`cli/test_metrics: test_an_empty_server_has_all_series` |
| 10,000 names | at most 100 that are declared, or 1,000 of a server | \
`api/test_metrics: test_a_hundred_names_at_most`, \
`cli/test_metrics: test_a_thousand_names_at_most` |
| a client that is opened again | its counters begin at 0, which readers take for a restart | \
`api/test_metrics: test_a_new_client_shows_all_series` |
| a sum of durations beyond 64 bits of µs | it begins anew; up to there it has all its digits | \
`unit/test_metrics: test_a_sum_that_is_full_begins_anew`, \
`unit/test_metrics: test_a_sum_has_all_its_digits` |
| a text that is written during grants | the buckets of each histogram add up to its count | \
`api/test_metrics: test_a_text_that_is_written_during_grants` |
| a buffer that is too small | never half a text: an error and the size | \
`api/test_metrics: test_a_buffer_that_is_too_small` |
| after `fork()` | an error | `api/test_fork: every_call_fails` |
| a client without threads | it is written like any other | \
`api/test_metrics: test_a_client_without_threads` |
| the folder of a job's file is missing, or its name is taken | a warning; the job runs | \
`cli/test_job_metrics: test_what_cannot_be_written_is_a_warning` |
| that folder is full, or read-only | a warning; what was there stays whole | \
`cli/test_job_metrics: test_a_folder_that_takes_no_file` |
| the file is a link | it is replaced, not followed | \
`cli/test_job_metrics: test_a_link_is_replaced_and_not_followed` |
| the file is another user's | it is replaced if the folder allows that | \
`cli/test_job_metrics: test_a_file_of_another_user` |
| umask 077 | the collector can read the file | \
`cli/test_job_metrics: test_any_umask_and_any_name` |
| two runs of one job at once | both are counted | \
`cli/test_job_metrics: test_runs_at_once_forget_no_count` |
| a kill between writing and renaming | no collector reads what is left, and the next run replaces \
it | `cli/test_job_metrics: test_a_kill_before_the_rename`, \
`monitoring/test_prometheus: test_the_series_are_there` |
| a damaged file | it is written anew | \
`cli/test_job_metrics: test_a_damaged_file_is_written_anew` |
| a job is skipped on one host after its success on another | the success counts | \
`cli/test_job_metrics: test_a_success_on_another_host_stays_the_last_one` |
| a job is killed | `running` stays 1, and the time of its start tells | \
`cli/test_job_metrics: test_a_job_that_is_killed_still_runs_for_its_reader` |
| a clock that steps back | durations are right, and the latest run tells | \
`cli/test_job_metrics: test_a_clock_that_steps_back` |
| somebody scrapes all the time | the server is asked once in 5 s | \
`cli/test_metrics: test_however_often_it_is_asked_the_server_is_not` |
| probes that strip or a static build removes | they are there | \
`cli/test_probes: test_they_are_there` |
"""

SERVER_HEAD = """
## What is on a server

`lockkeeper metrics` prints what is on the server that `LOCKKEEPER_URL` names, whoever uses it: all
of it gauges, in a text that is Prometheus' (0.0.4) and OpenMetrics (1.0) alike, and is served with
the type that its reader asks for. It only reads, in steps of `SCAN`. Where a cron job
writes a file for node_exporter, the file has to get its name when it is whole:

    lockkeeper metrics >locks.prom.new && mv locks.prom.new /var/lib/node_exporter/locks.prom

`lockkeeper metrics --listen 9465` serves it at `http://127.0.0.1:9465/metrics`, and at `/` a page
for people: what is held, by whom, for how long, what is left of the lease, who waits, and what the
doctor finds. Links sort and filter it, it refreshes itself, and it needs no script. It changes
nothing. `/healthz` answers 200 while the server answers, else 503. The page asks for no password:
whoever reaches it reads the names of locks and holders, so it listens on the loopback unless you
name another address (`--listen 10.0.0.5:9465`). On the loopback a request is answered only if its
`Host` is the loopback too, so that no page of a browser reads it under another name.

![The page](page.png)

On a terminal, `lockkeeper top` shows the same ([picture](top.md)).

However often somebody asks, the server is looked at once in 5 s at most, and examined by the doctor
once in a minute. A look takes 5 s at most, and reads 10,000 locks, or `--limit`. 16 connections are
answered at once; an idle one is closed after 10 s.

Redis does not keep when a lock was taken. What says *seen* therefore counts from when this process
first saw that hold, and is there with `--listen` alone. Names are labels with `--names` only, the
first 1,000 of them: for a server with few locks. Names that look the same as labels (bytes that
are no UTF-8 become U+FFFD) have one series.

| series | label | meaning |
|---|---|---|
"""


class Option(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in (
        "name", "environment", "type", "default_value", "range", "description")]


def text(value: bytes | None) -> str:
    return (value or b"").decode().replace("|", "\\|")


def code(value: bytes | None) -> str:
    return f"`{text(value)}`" if value else ""


def options(library: ctypes.CDLL) -> str:
    library.lk_option_at.restype = ctypes.POINTER(Option)
    library.lk_option_at.argtypes = [ctypes.c_size_t]
    library.lk_option_count.restype = ctypes.c_size_t
    rows = []
    for index in range(library.lk_option_count()):
        row = library.lk_option_at(index).contents
        cells = [code(row.name), code(row.environment), text(row.type), code(row.default_value),
                 text(row.range), text(row.description)]
        rows.append(f"| {' | '.join(cells)} |\n")
    return OPTIONS_HEAD + "".join(rows)


def errors(library: ctypes.CDLL) -> str:
    library.lk_error_name.restype = library.lk_error_text.restype = ctypes.c_char_p
    rows = []
    number = -1
    while library.lk_error_name(number) != b"LK_E?":
        marks = " | ".join("yes" if ask(number) else "" for ask in (
            library.lk_error_is_retryable, library.lk_error_is_fatal, library.lk_error_maybe_held))
        rows.append(f"| {code(library.lk_error_name(number))} | {number} "
                    f"| {text(library.lk_error_text(number))} | {marks} |\n")
        number -= 1
    return ERRORS_HEAD + "".join(rows)


class Finding(ctypes.Structure):
    _fields_ = [("id", ctypes.c_char_p), ("severity", ctypes.c_int),
                ("meaning", ctypes.c_char_p), ("remedy", ctypes.c_char_p)]


def findings(library: ctypes.CDLL) -> str:
    library.lk_finding_at.restype = ctypes.POINTER(Finding)
    library.lk_finding_at.argtypes = [ctypes.c_size_t]
    rows = []
    while row := library.lk_finding_at(len(rows)):
        found = row.contents
        severity = ("note", "warning", "error")[found.severity]
        rows.append(f"| {code(found.id)} | {severity} | {text(found.meaning)} "
                    f"| {text(found.remedy)} |\n")
    return DOCTOR_HEAD + "".join(rows)


def number(word: str) -> str:
    """A number, or what the headers define that to be, perhaps through another name."""
    sign, word = ("-", word[1:]) if word.startswith("-") else ("", word)
    while not word.isdigit():
        found = next(filter(None, (re.search(
            rf"\b{word}\s*(?:=|\s)\s*(?:INT64_C\()?(\w+)\)?", path.read_text())
            for path in [*sorted(ROOT.glob("include/**/*.h")), *sorted(ROOT.glob("src/**/*.h"))])))
        word = found[1]
    return f"{sign}{int(word):,}"


def arguments() -> str:
    rows = []
    for name, least, most, what in re.findall(
            r'^ARGUMENT\(\w+, "([^"]+)", ([^,]+), ([^,]+),\s*"([^"]+)"\)',
            (ROOT / "src/api/arguments.def").read_text(), re.MULTILINE):
        shown = f"`{name}`" if " " not in name else name
        rows.append(f"| {shown} | {number(least)} | {number(most)} | {what} |")
    return ARGUMENTS_HEAD + "\n".join(rows) + "\n"


METRICS_TYPES = {"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram, seconds"}
METRICS_ROW = re.compile(
    r'^(COUNTER|GAUGE|HISTOGRAM)\((CLIENT|NAME), "(\w+)",(?: "(\w*)", "(\w*)",)? [\w\[\]]+,'
    r'\s*((?:"[^"]*"\s*)+)\)$', re.MULTILINE)


def metrics() -> str:
    """A family a row: the values of its label, and the help that its first row has."""
    families: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for kind, of, family, label, value, words in METRICS_ROW.findall(
            (ROOT / "src/api/metrics.def").read_text()):
        end = {"COUNTER": "_total", "HISTOGRAM": "_seconds"}.get(kind, "")
        meaning = "".join(re.findall(r'"([^"]*)"', words))
        by_name = f", `lockkeeper_lock_{family}{end}`" if of == "NAME" else ""
        families.setdefault(family, [f"`lockkeeper_{family}{end}`{by_name}", METRICS_TYPES[kind],
                                     label, meaning])
        values.setdefault(family, []).append(value)
    rows = []
    for family, (shown, kind, label, meaning) in families.items():
        labels = f"`{label}`: {', '.join(values[family])}" if label else ""
        rows.append(f"| {shown} | {kind} | {labels} | {meaning} |\n")
    return (METRICS_HEAD + "".join(rows) + METRICS_TAIL + "".join(job_rows()) + SERVER_HEAD
            + "".join(server_rows()) + TRAPS)


JOB_ROW = re.compile(r'\{"(\w+)", "(gauge|counter)", "(\w*)",\s*"([^"]*)",\s*\d+\}')


def job_rows() -> list[str]:
    """The rows of what `run --metrics-file` writes."""
    found = JOB_ROW.findall((ROOT / "cli/job_metrics.c").read_text())
    results = ", ".join(result for _, _, result, _ in found if result)
    return [f"| `lockkeeper_job_{family}` | {kind} | {meaning}"
            f"{f' `result`: {results}' if result else ''} |\n"
            for family, kind, result, meaning in found if meaning]


SERVER_ROW = re.compile(r'\[SERIES_\w+\] = \{"(\w+)", "(\w*)",\s*"([^"]*)"\}')


def server_rows() -> list[str]:
    """The rows of what `metrics` prints."""
    found = SERVER_ROW.findall((ROOT / "cli/server_series.c").read_text())
    return [f"| `lockkeeper_server_{family}` | {f'`{label}`' if label else ''} | {meaning} |\n"
            for family, label, meaning in found]


def soname_version() -> str:
    """As src/meson.build has it: until 1.0 the minor version too."""
    header = (ROOT / "include/lockkeeper/version.h").read_text()
    major, minor = re.search(r'LK_VERSION "(\d+)\.(\d+)', header).groups()
    return f"0.{minor}" if major == "0" else major


def symbols() -> str:
    """For dpkg-gensymbols: a program needs the newest version whose symbols it uses."""
    version = soname_version()
    rows = [f"liblockkeeper.so.{version} liblockkeeper{version} #MINVER#\n",
            "* Build-Depends-Package: liblockkeeper-dev\n"]
    text = (ROOT / "src/lockkeeper.map").read_text()
    for node, body in re.findall(r"^(LOCKKEEPER_[\d.]+) \{(.*?)^\}", text,
                                 re.DOTALL | re.MULTILINE):
        since = node.removeprefix("LOCKKEEPER_")
        names = sorted([node, *re.findall(r"^\s*(lk_\w+);", body, re.MULTILINE)])
        rows += [f" {name}@{node} {since}\n" for name in names]
    return "".join(rows)


def pages(build: pathlib.Path) -> dict[str, str]:
    library = ctypes.CDLL(str(build / "src/liblockkeeper.so"))
    return {"docs/arguments.md": arguments(), "docs/beside.md": beside_page.page(),
            "docs/choosing.md": choosing_page.page(),
            "docs/choosing.svg": choosing_picture.picture(),
            "docs/doctor.md": findings(library), "docs/errors.md": errors(library),
            "docs/metrics.md": metrics(), "docs/options.md": options(library),
            f"debian/liblockkeeper{soname_version()}.symbols": symbols()}


def main() -> None:
    for name, page in pages(pathlib.Path(sys.argv[1])).items():
        (ROOT / name).write_text(page)


if __name__ == "__main__":
    main()
