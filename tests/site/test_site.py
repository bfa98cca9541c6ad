"""The manuals as HTML: they are whole, their links lead somewhere, a browser without scripts shows
them, one with scripts searches them, and they fit a phone and a wide screen."""
from __future__ import annotations

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 180
BROWSER = shutil.which("chromium")
FRAMES = 40  # pages that Chromium has open at once
PAGES = ["index.html", "docs/choosing.html", "docs/kinds.html", "docs/guarantees.html",
         "docs/failover.html", "docs/election.html", "docs/command.html",
         "docs/man/lockkeeper.1.html", "include/lockkeeper/index.html", "cpp/index.html",
         "python/index.html"]


def made(root: pathlib.Path, folder: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(root / "scripts/site.py"), str(folder)],
                          capture_output=True, text=True, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = made(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def browse(profile, *words) -> str:
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
                           "--allow-file-access-from-files", f"--user-data-dir={profile}", *words],
                          capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_needs_no_script(site, page):
    text = (site / page).read_text()
    assert re.findall(r"<script[^>]*>", text) == [
        f'<script src="{"../" * page.count("/")}search.js" defer>']
    assert "onclick" not in text
    body = re.search("<main>(.*)</main>", text, re.DOTALL)[1]
    assert body.strip().startswith("<h1 ")
    assert len(text_of(body)) > 1000
    menu = re.search("<nav.*</nav>", text, re.DOTALL)[0]
    places = {(site / page).parent.joinpath(link).resolve()
              for link in re.findall(r'href="([^"#]+)"', menu)}
    assert {site / other for other in PAGES} <= places


def test_every_function_of_the_library_is_there(site):
    exported = re.findall(r"^\s*(lk_\w+);", (ROOT / "src/lockkeeper.map").read_text(),
                          re.MULTILINE)
    pages = "".join(page.read_text() for page in (site / "include").rglob("*.html"))
    assert exported and [name for name in exported if f'<h3 id="{name}">' not in pages] == []


def test_the_same_tree_makes_the_same_bytes(site, tmp_path):
    assert made(ROOT, tmp_path / "again").returncode == 0
    again = sorted((tmp_path / "again").rglob("*"))
    assert len(again) == len(list(site.rglob("*")))
    for path in again:
        if path.is_file():
            assert path.read_bytes() == (site / path.relative_to(tmp_path / "again")).read_bytes()


@pytest.mark.parametrize("link", ["docs/nowhere.md", "docs/kinds.md#nothing-of-this-name",
                                  "../outside.md"])
def test_a_link_to_nowhere_is_found(tmp_path, link):
    root = tmp_path / "tree"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(
        "build", "build-*", ".git", "bench", "src"))
    with (root / "README.md").open("a") as page:
        page.write(f"\n[a link]({link})\n")
    done = made(root, tmp_path / "site")
    assert done.returncode == 1 and link in done.stdout.replace(".html", ".md")


@pytest.mark.skipif(not BROWSER, reason="it needs chromium")
@pytest.mark.parametrize("words,first", [
    ("lk_lock_release", "include/lockkeeper/lock.html#lk_lock_release"),
    ("fence tokens", "docs/kinds.html#fence-tokens"),
    ("LEASE_MAX_MS", "")])
def test_the_search_finds(site, tmp_path, words, first):
    page = browse(tmp_path, "--dump-dom", "--virtual-time-budget=5000",
                  f"file://{site}/docs/kinds.html?q={words.replace(' ', '+')}")
    found = re.search(r'<main class="found".*?</main>', page, re.DOTALL)[0]
    links = re.findall(r'<a href="([^"]*)"', found)
    assert links and all((site / "docs" / link.partition("#")[0]).is_file() for link in links)
    assert not first or (site / "docs" / links[0]).resolve() == site / first
    assert words.split("_")[-1].lower() in text_of(found).lower()


@pytest.mark.skipif(not BROWSER, reason="it needs chromium")
def test_the_search_finds_nothing(site, tmp_path):
    page = browse(tmp_path, "--dump-dom", "--virtual-time-budget=5000",
                  f"file://{site}/index.html?q=%3Cb%3Exyzzy")
    assert "No sections" in page and "<b>xyzzy" not in page


@pytest.mark.skipif(not BROWSER, reason="it needs chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits(site, tmp_path, width):
    """None is wider than the screen: what is, scrolls by itself."""
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    for begin in range(0, len(pages), FRAMES):
        some = pages[begin:begin + FRAMES]
        harness = tmp_path / "harness.html"
        harness.write_text(HARNESS.replace("FRAMES", "".join(
            f'<iframe width="{width}" height="800" src="file://{site}/{page}"></iframe>'
            for page in some)))
        said = browse(tmp_path / "profile", "--dump-dom", f"file://{harness}")
        widths = json.loads(re.search(r'<pre id="widths">(.*?)</pre>', said)[1])
        wide = {page: seen for page, seen in zip(some, widths, strict=True) if seen > width}
        assert not wide


HARNESS = """<!DOCTYPE html><meta charset="utf-8"><pre id="widths"></pre>FRAMES<script>
onload = () => document.getElementById("widths").textContent = JSON.stringify(
	[...document.querySelectorAll("iframe")].map(
		frame => frame.contentDocument.documentElement.scrollWidth));
</script>"""
