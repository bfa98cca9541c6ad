"""The page of `lockkeeper metrics --listen` in a real browser, on a phone and on a wide screen."""
from __future__ import annotations

import shutil

import pytest

from conftest import run
from png import pixels

BROWSER = shutil.which("chromium")
HOSTILE = [b"<script>document.body.textContent='ran'</script>", b"</td></table><h1>broken",
           b"\xff\xfe", b"new\nline", "\u202eright-to-left".encode(), b"x" * 3000, b'" onload="x']


@pytest.fixture(scope="module")
def locks(server):
    for name in [*HOSTILE, b"backup", b"order:4711"]:
        server.call("HSET", name, "6f1d9b8e-6a3c-4a7f-8d52-90c1f0a6f1de:1", "1")
        server.call("PEXPIRE", name, "600000")
    yield
    for name in [*HOSTILE, b"backup", b"order:4711"]:
        server.call("DEL", name)


def browse(folder, *words):
    done = run(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={folder}", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.skipif(not BROWSER, reason="it needs chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(locks, page, pictures, tmp_path, width):
    picture = pictures / f"page-{width}.png"
    browse(tmp_path, f"--screenshot={picture}", f"--window-size={width},900",
           f"{page}/?sort=held")
    seen, height, rows = pixels(picture)
    assert (seen, height) == (width, 900)
    background = rows[0][0]
    inked = [y for y, row in enumerate(rows) if any(pixel != background for pixel in row)]
    assert len(inked) > 300  # there is a page
    # What is too wide would be cut off at the right edge: its margin is empty.
    assert all(pixel == background for row in rows for pixel in row[-8:])


@pytest.mark.skipif(not BROWSER, reason="it needs chromium")
def test_nothing_of_a_name_is_markup(locks, page, tmp_path):
    """As the browser understood it, which would have run a script."""
    text = browse(tmp_path, "--dump-dom", page)
    assert "<script" not in text and text.count("<h1>") == 1
    assert "&lt;script&gt;document.body" in text
    assert "\u202e" not in text and "order:4711" in text
