"""The sentences of docs/choosing.md: advice, and what a row of bench/results shows."""
from __future__ import annotations

from typing import NamedTuple

ONE, TWO, NOBODY = "one owner", "two owners", "nobody"


class Shown(NamedTuple):
    """A sentence, and the row that shows it: the row says all of `expected`, and fills in each {…}.
    `asked` names a question of faults/, or a scene of run.py."""
    text: str
    asked: str
    system: str
    expected: dict = {}


class Section(NamedTuple):
    title: str
    words: list  # strings: advice, not facts; and Shown


ADVICE = [
    Section("A row or an advisory lock, for one transaction", [
        "Take it where the lock guards rows of one PostgreSQL, and the work is one transaction:"
        " who loses the lock loses the writes too.",
        Shown("Behind PgBouncer in transaction mode it still keeps the other out.",
              "pool", "postgres-row", {"verdict": ONE}),
        Shown("So does the advisory lock of a transaction.",
              "pool", "postgres-advisory-tx", {"verdict": ONE}),
        Shown("After a cut connection the first works on beside the second for {both_s} s, but its"
              " commit then fails, and nothing of it stays.",
              "cut_connection", "postgres-row", {"verdict": TWO, "first_learns": "lost"}),
        Shown("A holder that hangs keeps everybody out.",
              "open_transaction", "postgres-row", {"verdict": NOBODY}),
        Shown("So does one whose host vanished, until TCP gives up: set `tcp_keepalives_idle`.",
              "vanished_host", "postgres-row", {"verdict": NOBODY}),
        Shown("Each waiter is a connection: a thousand take {server_mib:.0f} MiB of the server.",
              "waiting", "postgres-row"),
    ]),
    Section("An advisory lock of a session, GET_LOCK", [
        "Take it where there is no Redis, the work is longer than a transaction, and every program"
        " has a connection of its own to the server.",
        Shown("Behind PgBouncer in transaction mode two have it, for {both_s} s, and each release"
              " says ok.", "pool", "postgres-advisory",
              {"verdict": TWO, "releases_say": ["ok", "ok"]}),
        Shown("When only its connection is cut, the first works on for {both_s} s beside the"
              " second, and nobody tells it: look at the connection before each write.",
              "cut_connection", "postgres-advisory", {"verdict": TWO, "first_is_told": []}),
        Shown("MariaDB does the same, for {both_s} s.",
              "cut_connection", "mariadb-get-lock", {"verdict": TWO, "first_is_told": []}),
        Shown("A killed program's lock is free at once ({after_s} s): its connection ends with it.",
              "killed_holder", "postgres-advisory", {"verdict": ONE}),
    ]),
    Section("A unique row, a document", [
        "Do not take these for a lock.",
        Shown("The row of a killed program stays, and nobody gets in until somebody deletes it.",
              "killed_holder", "postgres-unique", {"verdict": NOBODY}),
        Shown("The same on MariaDB.", "killed_holder", "mariadb-unique", {"verdict": NOBODY}),
        Shown("With a time in it the row becomes a lease, which nobody renews: a holder that works"
              " longer has a second one beside it after {after_s:.0f} s.",
              "open_transaction", "ferretdb", {"verdict": TWO}),
    ]),
    Section("etcd", [
        "Take it where you run one, in an odd number of members: a majority has the lock before you"
        " go on, and its revision is a fence token.",
        Shown("A killed server that comes back still has the lock.",
              "killed_server", "etcd", {"verdict": ONE}),
        Shown("A cut connection that comes back costs nothing.",
              "cut_connection", "etcd", {"verdict": ONE}),
        Shown("A pair takes {p50_us:,.0f} µs, since each change is on disk first.",
              "alone", "etcd"),
        Shown("A killed program's lock is free after {after_s:.0f} s, when its lease ends.",
              "killed_holder", "etcd", {"verdict": ONE}),
        "Give each goroutine a session of its own: two that share one both have the lock"
        " (`findings/etcd-mutex-two-goroutines-of-one-session.sh`).",
    ]),
    Section("ZooKeeper", [
        "Take Curator's InterProcessMutex where you run one, and listen to the state of its"
        " connection: end the work at `SUSPENDED`.",
        Shown("A killed server that comes back still has the lock.",
              "killed_server", "zookeeper", {"verdict": ONE}),
        Shown("A pair takes {p50_us:,.0f} µs, since each change is on disk first.",
              "alone", "zookeeper"),
        Shown("A killed program's lock is free after {after_s:.0f} s, when its session ends.",
              "killed_holder", "zookeeper", {"verdict": ONE}),
        "The release of a lock that was lost says nothing"
        " (`findings/curator-release-of-a-lost-lock.sh`).",
    ]),
    Section("flock", [
        "Take it where all programs run on one host and the file is on a local disk.",
        Shown("A killed program's lock is free at once ({after_s} s).",
              "killed_holder", "flock", {"verdict": ONE}),
        Shown("A stopped one keeps everybody out.", "stopped_holder", "flock",
              {"verdict": NOBODY}),
        Shown("A pair takes {p50_us:.0f} µs.", "alone", "flock"),
    ]),
    Section("Lockkeeper", [
        "Take it where there is a Redis or a Valkey, or may be one: for jobs and services on many"
        " hosts, many names, many waiters, and programs in C, Java, Python, Go and Node together.",
        Shown("A pair takes {p50_us:.0f} µs.", "alone", "ours"),
        Shown("With each change on disk first, {p50_us:.0f} µs.", "alone", "ours-durable"),
        Shown("A killed program's lock is free after {after_s:.0f} s, when its lease ends: a"
              " shorter lease (`watchdog_ms`) frees it sooner.",
              "killed_holder", "ours", {"verdict": ONE}),
        Shown("A holder that was stopped is told as soon as it goes on, and its release says lost.",
              "stopped_holder", "ours", {"verdict": ONE, "first_learns": "lost"}),
        Shown("A cut connection that comes back costs nothing.",
              "cut_connection", "ours", {"verdict": ONE}),
        Shown("**A Redis that is killed and has nothing on disk forgets the lock**: two had it for"
              " {both_s} s, until the first was told.", "killed_server", "ours", {"verdict": TWO}),
        Shown("With `appendonly yes` and `appendfsync always` it did not.",
              "killed_server", "ours-durable", {"verdict": ONE}),
        "Do not take it where two at once do lasting harm and the storage cannot refuse the late"
        " one's write, unless three servers form a quorum. [guarantees.md](guarantees.md) says"
        " which failure may give two owners on which deployment.",
    ]),
]

ABILITIES = """
## What else they can do

From their manuals, to which the first column leads. Whether who waits is served in turn shows above
under *hot*.

| | who waits is told by | readers together | names |
|---|---|---|---|
| [Lockkeeper](kinds.md) | a message of the server | yes | any bytes, 1 to 65,536 |
| [PostgreSQL, row](https://www.postgresql.org/docs/15/explicit-locking.html) | the statement, \
which returns | `FOR SHARE` | a row |
| [PostgreSQL, advisory](https://www.postgresql.org/docs/15/explicit-locking.html) | the \
statement, which returns | `pg_advisory_lock_shared` | 64 bits: two names may have one number |
| [MariaDB, GET_LOCK](https://mariadb.com/kb/en/get_lock) | the statement, which returns | no | \
text, in which `A` is `a` |
| unique row, document | nobody: it asks again | no | a key |
| [ZooKeeper, Curator](https://curator.apache.org/docs/recipes) | a watch of the one before it | \
`InterProcessReadWriteLock` | a path |
| [etcd](https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency) | a watch of the one before it \
| no | a key |
| [flock(2)](https://man7.org/linux/man-pages/man2/flock.2.html) | the kernel | `LOCK_SH` | a file |
"""

MOVING = """
## How to move to ours

Two systems' locks do not exclude each other. So let the programs take the old lock first and ours
inside it; when all of them do, take the old one out. `lock` is made once
(`lk_lock_new(&lock, client, "report", LK_STRLEN, &error)`).

| from | to |
|---|---|
| `flock /run/lock/report ./report.sh` | `lockkeeper run report -- ./report.sh` |
| `flock -n …` | `lockkeeper run -n report -- ./report.sh` |
| `etcdctl lock report ./report.sh` | `lockkeeper run report -- ./report.sh` |
| `SELECT pg_advisory_lock(7)`, `pg_advisory_unlock(7)` | \
`lk_lock_acquire(lock, -1, NULL, &error)`, `lk_lock_release(lock, NULL, &error)` |
| `SELECT pg_try_advisory_lock(7)` | `lk_lock_acquire(lock, 0, NULL, &error)` |
| `SELECT GET_LOCK('report', 10)` | `lk_lock_acquire(lock, 10000, NULL, &error)` |
| `INSERT` of a unique row, `DELETE`; `findAndModify` | the same calls; the time of the row is the \
lease (`lease_ms`), or leave it out and have it renewed |
| `concurrency.NewMutex(session, "/report")`, `<-session.Done()` | the same calls; \
`lk_event_wait()` tells of the loss |
| `new InterProcessMutex(client, "/report")`, `ConnectionState.LOST` | in Java Redisson's \
`getLock("report")`, in C the same calls: both on one key ([interop.md](interop.md)) |
| `SET report <token> NX PX`, and a script that compares and deletes | \
`lk_plain_lock_new()`, `lockkeeper run --plain report`: on the same key both exclude each other \
([beside.md](beside.md)) |
| the locks of articles above | the same, when none of the old programs runs any more: their `DEL` \
takes ours away |
"""
