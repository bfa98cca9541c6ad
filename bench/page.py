"""Results for people: lines on the terminal, docs/performance.md, and the picture by gnuplot."""
from __future__ import annotations

import pathlib
import subprocess
import tempfile

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
             f"[{results.name}](../{results}). The column *taken* has the number of the entry in "
             f"this list that says when and on which machine, and whether that was idle: `idle` if "
             f"between the runs other work took at most {IDLE_CORES} cores, else how many it took. "
             "For rows from before this was measured it has the load average at their start, "
             "which counts the work of the row before, too.", ""]
    known = ""
    for place, (date, facts) in enumerate(sessions(document), 1):
        lines.append(f"{place}. {date}: {'as before' if facts == known else facts}.")
        known = facts
    return lines


def write_page(docs: pathlib.Path, document: dict, results: pathlib.Path) -> None:
    """The tables go below the line in the page; the text above it is written by hand."""
    path = docs / "performance.md"
    mark = "<!-- below: made by `make bench` -->"
    head = path.read_text().split(mark)[0] if path.exists() else "# Performance\n\n"
    path.write_text("\n".join([head + mark, "", *about(document, results), *tables(document), ""]))


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
    with tempfile.NamedTemporaryFile("w", suffix=".gnuplot") as file:
        file.write(script + block + block)
        file.flush()
        subprocess.run(["gnuplot", file.name], check=True)


def write(docs: pathlib.Path, document: dict, results: pathlib.Path) -> None:
    write_page(docs, document, results)
    write_picture(docs, document)
