"""What a file of this tree is as HTML: Markdown, a public header, a manual page, a folder, text.

Markdown is made by cmark-gfm, so that a page looks as it does where the repository is shown; a
header is read as scripts/make_manual.py reads it; mandoc makes the page of the command.
"""
from __future__ import annotations

import html
import pathlib
import re
import subprocess
import textwrap
from typing import NamedTuple

import make_manual
from tree import ROOT

LIMIT_S = 60
TYPE = re.compile(r"^#define (LK_\w+)|^typedef [^;{]*?\b(lk_\w+);|^\} (lk_\w+);"
                  r"|^typedef [^;{]*\(\*(lk_\w+)\)|^\tX\((LK_E\w+),", re.MULTILINE)
WORD = re.compile(r"`([^`]+)`|\b(lk_\w+(?:\(\))?|LK_[A-Z]\w*)|&lt;(lockkeeper/\w+\.h)&gt;")


class Body(NamedTuple):
    title: str  # HTML, as `html` is
    html: str


def tool(words: list[str], text: str) -> str:
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True,
                          timeout=LIMIT_S).stdout


def slug(heading: str, taken: dict[str, int]) -> str:
    """The name of a heading's place, as the pages' links have it."""
    text = html.unescape(re.sub(r"<[^>]*>", "", heading)).strip().lower()
    made = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
    count = taken.get(made, 0)
    taken[made] = count + 1
    return f"{made}-{count}" if count else made


def markdown(path: pathlib.Path) -> Body:
    text = re.sub(r"^<!--.*?-->\n", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    made = tool(["cmark-gfm", "-e", "table", "-e", "autolink"], text)
    taken: dict[str, int] = {}
    made = re.sub(r"<h(\d)>(.*?)</h\1>", lambda found: (
        f'<h{found[1]} id="{slug(found[2], taken)}">{found[2]}</h{found[1]}>'), made,
        flags=re.DOTALL)
    made = made.replace("<table>", '<div class="wide"><table>').replace("</table>",
                                                                       "</table></div>")
    title = re.search(r"<h1[^>]*>(.*?)</h1>", made, re.DOTALL)
    return Body(re.sub(r"<[^>]*>", "", title[1]) if title else path.name, made)


def paragraph(text: str) -> str:
    lead = make_manual.LEAD.match(text)
    if lead and len(lead[1]) >= 4 and not lead[1].startswith("LK_"):
        rest = text[lead.end():]
        return (f"<p><strong>{html.escape(lead[1])}{lead[2]}</strong>{prose(rest)}</p>" if rest
                else f"<h4>{html.escape(lead[1])}</h4>")
    return f"<p>{prose(text)}</p>"


def prose(text: str) -> str:
    def word(found: re.Match) -> str:
        if found[3]:
            name = pathlib.Path(found[3]).stem
            return f'<a href="{name}.h"><code>&lt;{found[3]}&gt;</code></a>'
        return f"<code>{found[1] or found[2]}</code>"
    return WORD.sub(word, html.escape(text, quote=False))


def comment(text: str) -> str:
    made: list[str] = []
    items: list[str] = []

    def end_list() -> None:
        if items:
            made.append(f"<ul>{''.join(items)}</ul>")
            items.clear()
    for sort, block in make_manual.chunks(text):
        if sort == "item":
            items.append(f"<li>{prose(' '.join(line.strip() for line in block))}</li>")
            continue
        end_list()
        made.append(code(block) if sort == "literal" else paragraph("\n".join(block)))
    end_list()
    return "\n".join(made)


def code(lines: list[str]) -> str:
    shown = textwrap.dedent("\n".join(line.expandtabs(8) for line in lines)).strip("\n")
    return f"<pre><code>{html.escape(shown, quote=False)}</code></pre>"


def names(path: pathlib.Path) -> list[str]:
    """The functions, types and constants that a header has, each once."""
    read = make_manual.read(path)
    types = [next(filter(None, found)) for found in TYPE.findall(read.types)]
    return list(dict.fromkeys([*types, *(function.name for function in read.functions)]))


def types(text: str, functions: set[str]) -> str:
    """The types and constants, each where links to it lead."""
    marked: set[str] = set(functions)
    made = []
    for line in text.expandtabs(8).split("\n"):
        shown = html.escape(line, quote=False)
        found = TYPE.match(re.sub(r"^ {8}", "\t", line))
        name = next(filter(None, found.groups())) if found else None
        if name and name not in marked:
            marked.add(name)
            shown = f'<span id="{name}">{shown}</span>'
        made.append(shown)
    return "\n".join(made)


def declared(function: make_manual.Function) -> str:
    begin = f"{function.returns} {function.name}(".replace("* lk", "*lk")
    one = f"{begin}{', '.join(function.parameters)});"
    if len(one) <= 78:
        return code([one])
    return code([begin, *textwrap.wrap(", ".join(function.parameters) + ");", 70,
                                       initial_indent="    ", subsequent_indent="    ",
                                       break_long_words=False)])


def header(path: pathlib.Path) -> Body:
    read = make_manual.read(path)
    title = f"&lt;{read.include}&gt;"
    made = [f'<h1 id="top"><code>{title}</code></h1>', comment(read.about)]
    functions = {function.name for function in read.functions}
    if functions:
        made.append("<ul class=\"names\">" + "".join(
            f'<li><a href="#{function.name}"><code>{function.name}()</code></a></li>'
            for function in read.functions) + "</ul>")
    if read.types:
        made += ['<h2 id="types">Types and constants</h2>',
                 f"<pre><code>{types(read.types, functions)}</code></pre>"]
    if functions:
        made.append('<h2 id="functions">Functions</h2>')
    for function in read.functions:
        made += [f'<h3 id="{function.name}"><code>{function.name}()</code></h3>',
                 declared(function), comment(function.comment)]
    return Body(title, "\n".join(made))


def first_sentence(read: make_manual.Header) -> str:
    text = re.split(r"\.(?:\s|$)", " ".join(read.about.split()), maxsplit=1)[0]
    return prose(text)


def headers(paths: list[pathlib.Path]) -> Body:
    """What is where, then every function in the order of its name."""
    made = ['<h1 id="top">The functions of C</h1>',
            "<p><code>#include &lt;lockkeeper.h&gt;</code> has them all. A header begins with what "
            "its calls have in common; each function says since when it is there, and how it can "
            "fail.</p>", '<h2 id="headers">Headers</h2>', '<div class="wide"><table>']
    places: dict[str, str] = {}
    for path in paths:
        read = make_manual.read(path)
        made.append(f'<tr><td><a href="{path.name}"><code>{path.name}</code></a></td>'
                    f"<td>{first_sentence(read)}</td></tr>")
        places |= {function.name: path.name for function in read.functions}
    made += ["</table></div>", '<h2 id="functions">Functions</h2>', '<ul class="names">']
    made += [f"<li><code>{name}()</code></li>" for name in sorted(places)]
    return Body("The functions of C", "\n".join([*made, "</ul>"]))


def manual(path: pathlib.Path) -> Body:
    made = tool(["mandoc", "-T", "html", "-O", "fragment", str(path)], "")
    made = re.sub(r'<table class="(?:head|foot)">.*?</table>', "", made, flags=re.DOTALL)
    # Its headings go below the title of the page.
    made = re.sub(r'<h([12]) class="\w+" id="([^"]*)">(.*?)</h\1>', lambda found: (
        f'<h{int(found[1]) + 1} id="{found[2]}">{found[3]}</h{int(found[1]) + 1}>'), made,
        flags=re.DOTALL)
    title = f"{path.stem}({path.suffix[1:]})"
    return Body(title, f'<h1 id="top">{title}</h1>\n<div class="manual">{made}</div>')


def listing(folder: pathlib.Path) -> Body:
    title = html.escape(f"{folder.relative_to(ROOT)}/")
    rows = [f'<li><a href="{path.name}"><code>{path.name}{"/" if path.is_dir() else ""}</code>'
            "</a></li>" for path in sorted(folder.iterdir())
            if path.name not in ("meson.build", "__pycache__")]
    return Body(title, f'<h1 id="top">{title}</h1>\n<ul>{"".join(rows)}</ul>')


def plain(path: pathlib.Path) -> Body:
    title = html.escape(str(path.relative_to(ROOT)))
    shown = html.escape(path.read_text().expandtabs(8).strip("\n"), quote=False)
    return Body(title, f'<h1 id="top"><code>{title}</code></h1>\n<pre><code>{shown}</code></pre>')
