"""The rows of the benchmark: what is run on each side, which figures count, and what is to be
reached. A target is a bound on ours / floor, or on ours alone where there is no floor."""
from __future__ import annotations

import os
from dataclasses import dataclass, field

from peer_programs import PROGRAMS

LEAST, MOST = "at least", "at most"


@dataclass(frozen=True)
class Figure:
    """One figure of a row. `ratio`: the bound is on ours / floor, else on ours."""
    key: str
    unit: str
    bound: float | None = None
    sense: str = MOST
    ratio: bool = True


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    ours: list[str]
    floor: list[str] | None
    figures: list[Figure]
    # {ms}, {rounds} and the like in the commands: for the full run and the quick one.
    full: dict[str, int] = field(default_factory=dict)
    quick: dict[str, int] = field(default_factory=dict)
    runs: int | None = None  # None: as many as asked for
    nodes: int = 0  # servers beside the usual one, as {nodes} in the commands
    stopped: int = 0  # how many of them do not answer
    deployment: str = ""  # of deployments.py: then {node} is its node, and {found} finds that
    counted: bool = False  # also the traffic of a round over {tcp}
    apart: bool = False  # the server is kept on core 0, the programs keep to core 1
    beside: str = "bare hiredis"  # what `floor` runs: heads its column in the page
    peer: str = ""  # of peer_programs.py: what `floor` runs is that, which may not be there
    in_quick: bool = True  # a quick run of all has it too


PAIR_LENGTH = {"full": {"ms": 1500}, "quick": {"ms": 200}}


def pair_row(name: str, title: str, url: str, threads: int, figures: list[Figure], query: str = "",
             no_wait: bool = False, apart: bool = False) -> Row:
    core = ["core=1"] if apart else []
    ours = ["ours-pairs", url + query, str(threads), "{ms}"] + (["no-wait"] if no_wait else [])
    return Row(name, title, ours + core, ["floor-pairs", url, str(threads), "{ms}", *core],
               figures, apart=apart, **PAIR_LENGTH)


def lone(p50: float | None, p99: float | None, cpu: float | None) -> list[Figure]:
    return [Figure("p50_us", "µs", p50), Figure("p99_us", "µs", p99), Figure("pairs_s", "/s"),
            Figure("cpu_us", "µs", cpu)]


def many(pairs: float | None, cpu: float | None, p99: float | None = None,
         switches: float | None = None) -> list[Figure]:
    return [Figure("pairs_s", "/s", pairs, LEAST), Figure("cpu_us", "µs", cpu),
            Figure("p50_us", "µs"), Figure("p99_us", "µs", p99),
            Figure("switches", "", switches, MOST, ratio=False),
            Figure("connections", "", 6, MOST, ratio=False)]


def apart_rows() -> list[Row]:
    """As an idle machine places them: the server on another core than its client."""
    return [
        pair_row("apart-tcp", "1 thread, TCP, server on another core", "{tcp}", 1,
                 lone(0.5, 1, 1.25), apart=True),
        pair_row("apart-tcp-no-spin", "the same, spin off", "{tcp}", 1, lone(1.05, None, 1.1),
                 "?spin_us=0", apart=True),
        pair_row("apart-tcp-no-wait", "the same, release not waited for", "{tcp}", 1,
                 lone(0.3, None, None), no_wait=True, apart=True),
    ]


def pair_rows() -> list[Row]:
    rows = [
        pair_row("pair-tcp", "acquire + release, 1 thread, TCP", "{tcp}", 1, lone(0.5, 1, 1.25)),
        pair_row("pair-unix", "acquire + release, 1 thread, unix socket", "{unix}", 1,
                 lone(0.5, 1, 1.25)),
        pair_row("pair-tcp-no-spin", "the same, TCP, spin off", "{tcp}", 1,
                 lone(1.05, None, 1.1), "?spin_us=0"),
        pair_row("pair-unix-no-spin", "the same, unix socket, spin off", "{unix}", 1,
                 lone(1.05, None, 1.1), "?spin_us=0"),
        pair_row("pair-tcp-no-wait", "the same, TCP, release not waited for", "{tcp}", 1,
                 lone(0.3, None, None), no_wait=True),
    ]
    if {0, 1} <= os.sched_getaffinity(0):
        rows += apart_rows()
    for threads, waited, not_waited in ((2, 1.0, None), (4, 1.0, None), (8, 1.0, 1.4),
                                        (16, 1.0, None), (64, 1.4, 1.8), (256, 1.6, 2.2)):
        cpu = 0.8 if threads >= 64 else None
        p99 = 1.2 if threads <= 16 else None
        rows.append(pair_row(f"threads-{threads}",
                             f"{threads} threads on separate names, one client", "{tcp}", threads,
                             many(waited, cpu, p99, 2.2 if threads == 8 else None)))
        if not_waited is None:
            continue
        rows.append(pair_row(f"threads-{threads}-no-wait",
                             f"{threads} threads, release not waited for", "{tcp}", threads,
                             many(not_waited, cpu), no_wait=True))
    return rows


def deployment_row(name: str) -> Row:
    """A lone caller pays nothing for the way in which its node was found."""
    words = ["1", "{ms}"]
    return Row(f"pair-{name}", f"acquire + release, 1 thread, redis-{name}://",
               ["ours-pairs", "{found}", *words], ["ours-pairs", "{node}", *words],
               lone(1.02, None, None), **PAIR_LENGTH, deployment=name, beside="redis://")


def masters_row(threads: int) -> Row:
    words = [str(threads), "{ms}"]
    return Row(f"masters-{threads}", f"{threads} threads on separate names, three masters",
               ["ours-pairs", "{found}", *words], ["ours-pairs", "{node}", *words],
               many(None, None), **PAIR_LENGTH, deployment="three_masters",
               beside="a cluster of one master")


def found_row(name: str) -> Row:
    return Row(f"connect-{name}", f"connect and first pair, redis-{name}://",
               ["ours-connect", "{found}", "{direct}", "{rounds}", "warm"],
               ["ours-connect", "{node}", "{direct}", "{rounds}", "warm"],
               [Figure("p50_us", "µs"), Figure("p99_us", "µs"), *traffic()],
               {"rounds": 1000}, {"rounds": 50}, deployment=name, counted=True,
               beside="redis://")


def async_row(pairs: int) -> Row:
    words = ["{tcp}", str(pairs), "{ms}"]
    return Row(f"async-{pairs}", f"{pairs:,} pairs in flight, one thread, one client",
               ["ours-async", *words], ["floor-async", *words], many(0.9, None),
               {"ms": 3000}, {"ms": 200}, beside="bare hiredis, pipelined")


def threadless_row(pairs: int) -> Row:
    words = ["{tcp}", str(pairs), "{ms}"]
    return Row(f"threadless-{pairs}", f"{pairs:,} pairs in flight, a client without a thread",
               ["ours-async-threadless", *words], ["floor-async", *words], many(0.9, None),
               {"ms": 3000}, {"ms": 200}, beside="bare hiredis, pipelined")


def async_rows() -> list[Row]:
    return [
        async_row(1000), async_row(10000), threadless_row(1000), threadless_row(10000),
        Row("async-waits", "10,000 waits through a queue, each lock held by another client",
            ["ours-async-waits", "{tcp}", "{waits}", "{ms}"], None,
            [Figure("commands", "", 0, MOST, ratio=False), Figure("cpu_ms_s", "ms CPU per s"),
             Figure("heap_bytes_a_wait", "bytes"), Figure("resident_bytes_a_wait", "bytes"),
             Figure("start_ms", "ms"), Figure("listen_ms", "ms"), Figure("cancel_ms", "ms")],
            {"waits": 10000, "ms": 30000}, {"waits": 1000, "ms": 300}, runs=1),
    ]


def hot_row(threads: int) -> Row:
    return Row(f"hot-{threads}", f"one hot lock, {threads} threads of a process, hold 0",
               ["ours-hot", "{tcp}", str(threads), "{ms}"],
               ["floor-hot", "{tcp}", str(threads), "{ms}"],
               [Figure("grants_s", "/s", 4, LEAST),
                Figure("spread", "(most-fewest)/mean", 0.05, MOST, ratio=False),
                Figure("fewest", ""), Figure("most", ""), Figure("cpu_us", "µs")],
               {"ms": 1500}, {"ms": 200})


def share_row(name: str, title: str, teams: list[str], figures: list[Figure]) -> Row:
    return Row(name, title, ["ours-share", "{tcp}", "{ms}", *teams], None,
               [Figure("grants_s", "/s"), *figures], {"ms": 4000}, {"ms": 400})


def share_rows() -> list[Row]:
    terms = [Figure("term_p50_ms", "ms"), Figure("term_p99_ms", "ms", 10, MOST, ratio=False),
             Figure("term_most_ms", "ms")]
    lone_one = [Figure("share_1", "of all grants"), Figure("grants_1", ""),
                Figure("longest_wait_1_ms", "ms"), *terms]
    return [
        share_row("share-32-32", "two processes of 32 threads each", ["32", "32"],
                  [Figure("share_0", "of all grants", 0.4, LEAST, ratio=False),
                   Figure("share_1", "of all grants", 0.4, LEAST, ratio=False), *terms]),
        share_row("share-64-1", "64 threads beside one lone process", ["64", "1"], lone_one),
        share_row("share-64-slow", "64 threads beside a waiter of 3 ms", ["64", "slow"], lone_one),
    ]


def many_row(name: str, title: str, locks: int, length_ms: int) -> Row:
    """Renewals of 30 s leases: a tenth of the locks each second, for which 250 ms of a core are
    the target at 100,000 a second."""
    return Row(name, title, ["ours-many", "{tcp}", "{locks}", "{ms}", "{holders}"], None,
               [Figure("alive_share", "", 1, LEAST, ratio=False),
                Figure("lost", "", 0, MOST, ratio=False),
                Figure("heap_bytes_a_lock", "bytes", 300, MOST, ratio=False),
                Figure("resident_bytes_a_lock", "bytes"), Figure("renewals_s", "/s"),
                Figure("burst", "most in 100 ms/mean"),
                Figure("cpu_ms_s", "ms CPU per s", locks / 4000, MOST, ratio=False)],
               {"locks": locks, "ms": length_ms, "holders": 16},
               {"locks": 1000, "ms": 500, "holders": 16}, runs=1)


def other_rows() -> list[Row]:
    return [
        Row("reentry", "re-entry under a valid lease", ["ours-reentry", "{tcp}", "{rounds}"], None,
            [Figure("acquire_ns", "ns", 100, MOST, ratio=False), Figure("release_ns", "ns"),
             Figure("commands", "", 0, MOST, ratio=False)],
            {"rounds": 1000}, {"rounds": 100}),
        Row("slots", "the slot of a name of 20 bytes, of 100", ["ours-slots", "{rounds}"], None,
            [Figure("short_ns", "ns", 100, MOST, ratio=False), Figure("long_ns", "ns")],
            {"rounds": 1000}, {"rounds": 100}),
        Row("handover", "release to grant in another process",
            ["ours-handover", "{tcp}", "{rounds}"],
            ["floor-handover", "{tcp}", "{rounds}"],
            [Figure("p50_us", "µs", 1.1), Figure("p99_us", "µs", 1.2)],
            {"rounds": 500}, {"rounds": 50}),
        Row("crowd", "1,000 threads wait for a lock that another holds",
            ["ours-crowd", "{tcp}", "{threads}", "{ms}"], None,
            [Figure("cpu_ms_s", "ms CPU per s", 5, MOST, ratio=False),
             Figure("commands_s", "/s", 1, MOST, ratio=False),
             Figure("subscriptions", "", 1, MOST, ratio=False),
             Figure("heap_bytes_a_waiter", "bytes"), Figure("drain_ms", "ms"),
             Figure("commands_a_handover", "commands")],
            {"threads": 1000, "ms": 5000}, {"threads": 1000, "ms": 300}),
        many_row("many", "100,000 locks held by one client for 60 s", 100000, 60000),
        many_row("many-million", "1,000,000 locks held by one client for 300 s", 1000000, 300000),
        *connect_rows(),
        command_row("command", "lockkeeper run NAME true, a private server running", [], 2),
        command_row("command-tcp", "the same, a server by TCP", ["--url", "{tcp}"], 2.5),
    ]


def traffic() -> list[Figure]:
    return [Figure("commands", "per round"), Figure("bytes_out", "bytes"),
            Figure("bytes_in", "bytes"), Figure("connections", "per round")]


def connect_rows() -> list[Row]:
    titles = {"ping": "connect and ping", "cold": "connect and first pair, no script at the server",
              "warm": "the same, the scripts at the server"}
    return [Row(f"connect-{subject}", title,
                ["ours-connect", "{tcp}", "{direct}", "{rounds}", subject],
                ["floor-connect", "{tcp}", "{direct}", "{rounds}", subject],
                [Figure("p50_us", "µs"), Figure("p99_us", "µs"), *traffic()],
                {"rounds": 1000}, {"rounds": 50}, counted=True)
            for subject, title in titles.items()]


KINDS = {"fair-lock": "fair lock", "read-lock": "read side", "write-lock": "write side",
         "fenced-lock": "fenced lock", "spin-lock": "spin lock", "plain-lock": "plain lock"}


COUNTERS = {"semaphore": "semaphore", "permit-semaphore": "permit semaphore"}


def command_row(name: str, title: str, options: list[str], bound: float) -> Row:
    """Short sides often in turn: what else the machine does takes longer than a few commands."""
    return Row(name, f"{title}, beside flock FILE true",
               ["time-command", "{rounds}", "lockkeeper", "run", *options, "bench", "true"],
               ["time-command", "{rounds}", "flock", "{folder}/flock", "true"],
               [Figure("p50_ms", "ms", bound), *(traffic() if options else [])],
               {"rounds": 25}, {"rounds": 10}, runs=21, counted=True,
               beside="flock")


def kind_row(kind: str, title: str) -> Row:
    """A pair of one kind beside bare hiredis that sends the same scripts."""
    words = ["{tcp}", "1", "{ms}", f"kind={kind}"]
    return Row(f"kind-{kind}", f"{title}: acquire + release, 1 thread, TCP",
               ["ours-pairs", *words], ["floor-pairs", *words], lone(1.1, None, None),
               **PAIR_LENGTH)


def red_row(name: str, title: str, figures: list[Figure], floor: bool, stopped: int) -> Row:
    return Row(name, title, ["ours-red", "{nodes}", "{rounds}"],
               ["floor-red", "{nodes}", "{rounds}"] if floor else None, figures,
               {"rounds": 5000}, {"rounds": 200}, nodes=5, stopped=stopped)


def queue_row(kind: str, waiters: int) -> Row:
    threads = "thread" if waiters == 1 else "threads"
    return Row(f"queue-{kind}-{waiters}", f"{kind.replace('-', ' ')}, {waiters} waiting {threads}",
               ["ours-queue", "{tcp}", kind, str(waiters)], None,
               [Figure("commands_a_handover", "commands"), Figure("drain_ms", "ms")])


def kind_rows() -> list[Row]:
    readers = ["{tcp}", "64", "{ms}", "kind=read-lock", "one-name"]
    return [
        *(kind_row(kind, title) for kind, title in KINDS.items()),
        *(kind_row(kind, title) for kind, title in COUNTERS.items()),
        Row("multi-10", "multi lock of 10 names on one server, beside one reentrant lock",
            ["ours-pairs", "{tcp}", "1", "{ms}", "kind=multi-lock"],
            ["ours-pairs", "{tcp}", "1", "{ms}"], lone(None, None, None), **PAIR_LENGTH,
            beside="one reentrant lock"),
        red_row("red-5", "red lock of five: until a majority has answered",
                [Figure("p50_us", "µs"), Figure("p99_us", "µs")], True, 0),
        red_row("red-5-one-stopped", "the same, one of the five does not answer",
                [Figure("p50_us", "µs"), Figure("p99_us", "µs")], False, 1),
        Row("readers-64", "64 readers of one name at once", ["ours-pairs", *readers],
            ["floor-pairs", *readers], many(1.0, None), **PAIR_LENGTH),
        Row("handover-fair", "fair lock: release to grant in another process",
            ["ours-handover", "{tcp}", "{rounds}", "fair-lock"],
            ["floor-handover", "{tcp}", "{rounds}", "message"],
            [Figure("p50_us", "µs", 1.2), Figure("p99_us", "µs")], {"rounds": 500},
            {"rounds": 50}),
        *(queue_row(kind, waiters) for kind in ("lock", "fair-lock", "spin-lock")
          for waiters in (1, 10, 100, 1000)),
    ]


PEER_THREADS = (1, 2, 4, 8, 16, 64)


def peer_row(peer: str, threads: int) -> Row:
    words = ["{tcp}", str(threads), "{ms}"]
    bound = 1.1 if (peer, threads) == ("rueidislock", 64) else None
    figures = [Figure("pairs_s", "/s", bound, LEAST), Figure("p50_us", "µs"),
               Figure("p99_us", "µs"), Figure("cpu_us", "µs"), Figure("connections", "")]
    return Row(f"{peer}-{threads}", f"{threads} at once on separate names, one client",
               ["ours-pairs", *words], [PROGRAMS[peer], *words], figures, **PAIR_LENGTH,
               beside=peer, peer=peer, in_quick=threads == 8)


def peer_plain_row(peer: str, threads: int) -> Row:
    """Like for like: their lock is a string, and so is our plain lock."""
    words = ["{tcp}", str(threads), "{ms}"]
    return Row(f"{peer}-plain-{threads}", f"our plain lock, {threads} at once on separate names",
               ["ours-pairs", *words, "kind=plain-lock"], [PROGRAMS[peer], *words],
               [Figure("pairs_s", "/s"), Figure("p50_us", "µs"), Figure("p99_us", "µs"),
                Figure("cpu_us", "µs")], **PAIR_LENGTH, beside=peer, peer=peer)


def peer_async_row(peer: str, pairs: int) -> Row:
    """Like for like: one thread has so many under way, by promises or by a queue."""
    words = ["{tcp}", str(pairs), "{ms}"]
    return Row(f"{peer}-async-{pairs}", f"one thread, {pairs} pairs in flight, through a queue",
               ["ours-async", *words], [PROGRAMS[peer], *words],
               [Figure("pairs_s", "/s", 1.2, LEAST), Figure("p50_us", "µs"),
                Figure("p99_us", "µs"), Figure("cpu_us", "µs")],
               **PAIR_LENGTH, beside=peer, peer=peer)


def peer_hot_row(peer: str, threads: int) -> Row:
    words = ["{tcp}", str(threads), "{ms}"]
    return Row(f"{peer}-hot-{threads}", f"one hot lock, {threads} at once, hold 0",
               ["ours-hot", *words], [PROGRAMS[peer], *words, "hot"],
               [Figure("grants_s", "/s"), Figure("fewest", ""), Figure("most", ""),
                Figure("cpu_us", "µs")], **PAIR_LENGTH, beside=peer, peer=peer)


def peer_rows() -> list[Row]:
    """Other libraries: their goroutines and asynchronous loops beside our threads."""
    return [row for peer in PROGRAMS
            for row in (*(peer_row(peer, threads) for threads in PEER_THREADS),
                        *(peer_plain_row(peer, threads) for threads in (8, 64)),
                        peer_hot_row(peer, 8))] + [
        peer_async_row("node-redlock", pairs) for pairs in (8, 64)]


def all_rows() -> list[Row]:
    through = [*(deployment_row(name) for name in ("sentinel", "cluster")), masters_row(64),
               *(found_row(name) for name in ("sentinel", "cluster"))]
    return [*pair_rows(), *through, *async_rows(), hot_row(8), hot_row(64), *share_rows(),
            *kind_rows(), *other_rows(), *peer_rows()]
