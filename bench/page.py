"""Results for people: lines on the terminal, docs/performance.md, and the pictures by gnuplot."""
from __future__ import annotations

import collections
import pathlib
import statistics
import subprocess
import tempfile

from peer_programs import PROGRAMS
from rows import PEER_THREADS

IDLE_CORES = 0.1  # other work that takes no more leaves a machine idle

PICTURE = [  # row, figure, what the bar says; the ratio that is better when it is higher
    ("pair-tcp", "p50_us", "1 thread"), ("pair-unix", "p50_us", "1 thread, unix"),
    ("pair-tcp-no-wait", "p50_us", "1 thread, release not waited for"),
    ("apart-tcp", "p50_us", "1 thread, server on another core"),
    ("apart-tcp-no-wait", "p50_us", "the same, release not waited for"),
    ("threads-8", "pairs_s", "8 threads"), ("threads-64", "pairs_s", "64 threads"),
    ("threads-256", "pairs_s", "256 threads"),
    ("threads-64-no-wait", "pairs_s", "64, release not waited for"),
    ("threads-256-no-wait", "pairs_s", "256, release not waited for"),
    ("hot-8", "grants_s", "hot lock, 8 threads"), ("hot-64", "grants_s", "hot lock, 64 threads"),
    ("handover", "p50_us", "hand-over to another process"),
]


def number(value: float | None) -> str:
    if value is None:
        return "–"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"


def target(figure: dict) -> str:
    if "target" not in figure:
        return ""
    sign = "≥" if figure["target"]["sense"] == "at least" else "≤"
    times = " ×" if figure["target"]["of"] == "ratio" else ""
    return f"{sign} {figure['target']['bound']:,g}{times}"


def ratio(figure: dict) -> str:
    return f"{figure['ratio']:.2f} ×" if "ratio" in figure else ""


def verdict(figure: dict) -> str:
    return {True: "yes", False: "**no**", None: ""}[figure.get("reached")]


def plain(result: dict) -> str:
    lines = [f"{result['name']}: {result['title']}"]
    for figure in result["figures"]:
        missed = "  MISSED" if figure.get("reached") is False else ""
        lines.append(f"    {figure['key']:22}{number(figure['floor']):>12}"
                     f"{number(figure['ours']):>12} {figure['unit']:20}"
                     f"{ratio(figure):>9}  {target(figure)}{missed}")
    return "\n".join(lines)


def session(document: dict, row: dict) -> tuple[str, str]:
    """When a row was measured, and on what, with what."""
    facts = document | row
    about, versions = facts["machine"], facts["versions"]
    priority = f"; server and programs at nice {facts['nice']}" if facts["nice"] else ""
    return facts["date"], (
        f"{about['cpu']}, {about['cores']} cores, {about['system']} {about['kernel']}; "
        f"{versions['redis'].split(' sha=')[0]}; {versions['lockkeeper']}; "
        f"{versions['compiler']}; hiredis {versions['hiredis']}{priority}")


def sessions(document: dict) -> list[tuple[str, str]]:
    return sorted({session(document, row) for row in document["rows"]})


def other_work(row: dict) -> str:
    cores = row.get("others_cores")
    if cores is None:
        return f"load {row['load_1m_before']:.1f}"
    return "idle" if cores <= IDLE_CORES else f"{cores:.1f} cores busy"


def table(beside: str, rows: list[dict], document: dict) -> list[str]:
    lines = [f"| what | figure | {beside} | Lockkeeper | ratio | target | reached | taken |",
             "|---|---|--:|--:|--:|--:|---|---|"]
    order = sessions(document)
    for row in rows:
        title = row["title"]
        taken = f"{order.index(session(document, row)) + 1}, {other_work(row)}"
        for figure in row["figures"]:
            unit = f" ({figure['unit']})" if figure["unit"] else ""
            lines.append(f"| {title} | `{figure['key']}`{unit} | {number(figure['floor'])} | "
                         f"{number(figure['ours'])} | {ratio(figure)} | {target(figure)} | "
                         f"{verdict(figure)} | {taken} |")
            title = taken = ""
    return lines


def tables(document: dict) -> list[str]:
    """A table for each program that the library is compared with: it heads a column."""
    sorts: dict[str, list[dict]] = {}
    for row in document["rows"]:
        sorts.setdefault(row["beside"], []).append(row)
    return [line for beside, rows in sorts.items()
            for line in ["", *table(beside, rows, document)]]


def about(document: dict, results: pathlib.Path) -> list[str]:
    """What the tables have in common, and a list of when and on what machines they were taken."""
    lines = [f"Medians of {document['runs_a_side']} runs per side, in turn. All runs: "
             f"`{results}`. The column *taken* has the number of the entry in "
             f"this list that says when and on which machine, and whether that was idle: `idle` if "
             f"between the runs other work took at most {IDLE_CORES} cores, else how many it took. "
             "For rows from before this was measured it has the load average at their start, "
             "which counts the work of the row before, too.", ""]
    known = ""
    for place, (date, facts) in enumerate(sessions(document), 1):
        lines.append(f"{place}. {date}: {'as before' if facts == known else facts}.")
        known = facts
    measured = {row["beside"] for row in document["rows"]}
    missing = [name for name in document.get("not_there", []) if name not in measured]
    return lines + (["", f"Not installed there: {', '.join(missing)}."] if missing else [])


def write_page(docs: pathlib.Path, document: dict, results: pathlib.Path) -> None:
    """The tables go below the line in the page; the text above it is written by hand."""
    path = docs / "performance.md"
    mark = "<!-- below: made by `make bench` -->"
    head = path.read_text().split(mark)[0] if path.exists() else "# Performance\n\n"
    picture = ["", "![Beside other libraries](peers.svg)"] if peer_points(document) else []
    path.write_text("\n".join([head + mark, "", *about(document, results), *picture,
                               *tables(document), ""]))


def write_picture(docs: pathlib.Path, document: dict) -> None:
    rows = {row["name"]: row for row in document["rows"]}
    bars = []
    for name, key, text in PICTURE:
        if name not in rows:
            continue
        figure = next(f for f in rows[name]["figures"] if f["key"] == key)
        better = figure["ratio"] if key.endswith("_s") else 1 / figure["ratio"]
        bars.append(f'"{text}" {better:.3f} "{better:.2f} ×"')
    script = f"""
set terminal svg size 800,420 font "sans-serif,13" background "#ffffff"
set output "{docs / 'performance.svg'}"
set label "Speed beside bare hiredis programs that block (= 1); longer is faster" \\
    at screen 0.5,0.95 center
set tmargin 4
set tics nomirror
set yrange [{len(bars) - 0.4}:-0.6]
set logscale x 2
set xrange [0.5:32]
set xlabel "times as fast"
set grid xtics lc rgb "#dddddd"
set arrow from 1,{len(bars) - 0.4} to 1,-0.6 nohead lc rgb "#888888" lw 2
set style fill solid noborder
set lmargin 34
set rmargin 8
unset key
plot "-" using (0.5+($2-0.5)/2):0:(($2-0.5)/2):(0.35):ytic(1) with boxxyerror lc rgb "#2a6f97", \\
     "-" using 2:0:3 with labels left offset 0.5,0
"""
    block = "\n".join(bars) + "\ne\n"
    run_gnuplot(script + block + block)


def in_one_run(document: dict) -> dict[str, dict]:
    """The rows by their names, of the one session that measured most of those beside others:
    machines and days do not compare."""
    taken = {row["name"]: session(document, row) for row in document["rows"]}
    counts = collections.Counter(taken[row["name"]] for row in document["rows"]
                                 if row["beside"] in PROGRAMS)
    most = max(counts, key=lambda when: (counts[when], when), default=None)
    return {row["name"]: row for row in document["rows"] if taken[row["name"]] == most}


def peer_points(document: dict) -> dict[str, list[tuple[int, float, float]]]:
    """For each library: (callers at once, pairs a second, p99 in us). Ours was measured beside each
    of the others: the median of that."""
    points: dict[str, list[tuple[int, float, float]]] = {}
    rows = in_one_run(document)
    for threads in PEER_THREADS:
        beside = {peer: rows[f"{peer}-{threads}"]["median"] for peer in PROGRAMS
                  if f"{peer}-{threads}" in rows}
        if not beside:
            continue
        sides = {"Lockkeeper": [median["ours"] for median in beside.values()]}
        bare = rows.get(f"threads-{threads}" if threads > 1 else "pair-tcp")
        if bare:
            sides["bare hiredis"] = [bare["median"]["floor"]]
        sides |= {peer: [median["floor"]] for peer, median in beside.items()}
        for name, sides_of in sides.items():
            points.setdefault(name, []).append((threads, *(
                statistics.median(side[key] for side in sides_of)
                for key in ("pairs_s", "p99_us"))))
    return points


def run_gnuplot(script: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".gnuplot") as file:
        file.write(script)
        file.flush()
        subprocess.run(["gnuplot", file.name], check=True)


def write_peers_picture(docs: pathlib.Path, document: dict) -> None:
    points = peer_points(document)
    blocks = "".join(f"$line{at} << EOD\n" + "".join(f"{n} {pairs:.6g} {p99:.6g}\n"
                                                     for n, pairs, p99 in line) + "EOD\n"
                     for at, line in enumerate(points.values()))
    width = {"Lockkeeper": 4}

    def plot(column: int) -> str:
        return "plot " + ", ".join(
            f'$line{at} using 1:{column} with linespoints lw {width.get(name, 2)} title "{name}"'
            for at, name in enumerate(points))
    run_gnuplot(f"""
set terminal svg size 800,720 font "sans-serif,13" background "#ffffff"
set output "{docs / 'peers.svg'}"
set multiplot layout 2,1 title "Acquire and release, each caller a name of its own"
set logscale x 2
set xrange [{PEER_THREADS[0] * 0.9}:{PEER_THREADS[-1] * 1.1}]
set xtics ({", ".join(str(threads) for threads in PEER_THREADS)})
set tics nomirror
set grid lc rgb "#dddddd"
set key outside right samplen 2
set xlabel "callers at once (threads, goroutines, asynchronous loops)"
{blocks}set ylabel "pairs a second"
set yrange [0:*]
{plot(2)}
set ylabel "p99 of a pair, µs"
set logscale y
set yrange [*:*]
{plot(3)}
""")


def write(docs: pathlib.Path, document: dict, results: pathlib.Path) -> list[str]:
    """Answers what it has written."""
    write_page(docs, document, results)
    write_picture(docs, document)
    if not peer_points(document):
        return ["performance.md", "performance.svg"]
    write_peers_picture(docs, document)
    return ["performance.md", "performance.svg", "peers.svg"]
