"""Results for people: lines on the terminal, docs/performance.md, and the picture by gnuplot."""
from __future__ import annotations

import pathlib
import subprocess
import tempfile

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


def table(beside: str, rows: list[dict]) -> list[str]:
    lines = [f"| what | figure | {beside} | Lockkeeper | ratio | target | reached |",
             "|---|---|--:|--:|--:|--:|---|"]
    for row in rows:
        title = row["title"]
        for figure in row["figures"]:
            unit = f" ({figure['unit']})" if figure["unit"] else ""
            lines.append(f"| {title} | `{figure['key']}`{unit} | {number(figure['floor'])} | "
                         f"{number(figure['ours'])} | {ratio(figure)} | {target(figure)} | "
                         f"{verdict(figure)} |")
            title = ""
    return lines


def tables(document: dict) -> list[str]:
    """A table for each program that the library is compared with: it heads a column."""
    sorts: dict[str, list[dict]] = {}
    for row in document["rows"]:
        sorts.setdefault(row["beside"], []).append(row)
    return [line for beside, rows in sorts.items() for line in ["", *table(beside, rows)]]


def later(document: dict) -> str:
    """Which rows were measured again, and when."""
    names: dict[str, list[str]] = {}
    for row in document["rows"]:
        if "date" in row:
            names.setdefault(row["date"], []).append(row["name"])
    return "".join(f" Measured again {date}: {', '.join(rows)}." for date, rows in names.items())


def write_page(docs: pathlib.Path, document: dict, results: pathlib.Path) -> None:
    """The table goes below the line in the page; the text above it is written by hand."""
    path = docs / "performance.md"
    mark = "<!-- below: made by `make bench` -->"
    head = path.read_text().split(mark)[0] if path.exists() else "# Performance\n\n"
    about, versions = document["machine"], document["versions"]
    priority = f"Server and programs at nice {document['nice']}. " if document["nice"] else ""
    facts = (f"Measured {document['date']}: {about['cpu']}, {about['cores']} cores, "
             f"{about['system']} {about['kernel']}; {versions['redis'].split(' sha=')[0]}; "
             f"{versions['lockkeeper']}; {versions['compiler']}; hiredis {versions['hiredis']}. "
             f"{priority}Medians of {document['runs_a_side']} runs per side, in turn. All runs: "
             f"[{results.name}](../{results}).{later(document)}")
    path.write_text("\n".join([head + mark, "", facts, *tables(document), ""]))


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
