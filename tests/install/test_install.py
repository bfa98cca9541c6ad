"""What `make install` lays down, and programs that are built against it alone."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from conftest import ROOT, blocks, run

PROGRAM = blocks("README.md", "c")[0]
# docs/abi.md: until 1.0 the minor version is in it.
SONAME = re.match(r"0\.\d+|\d+", run(ROOT / "scripts/version.sh").stdout).group()


def test_what_is_installed(copy):
    files = {str(path.relative_to(copy.top)) for path in copy.top.rglob("*")
             if not path.is_dir()}
    assert "bin/lockkeeper" in files
    assert "include/lockkeeper.h" in files
    assert "include/lockkeeper.hpp" in files
    headers = {f"include/lockkeeper/{path.name}" for path in
               [*(ROOT / "include/lockkeeper").glob("*.h"),
                *(ROOT / "cpp/lockkeeper").glob("*.hpp")]}
    assert headers == {name for name in files if name.startswith("include/lockkeeper/")}
    libraries = {name.rsplit("/", 1)[-1] for name in files if "/liblockkeeper" in name}
    version = run(ROOT / "scripts/version.sh").stdout.strip()
    assert libraries == {"liblockkeeper.a", "liblockkeeper.so", f"liblockkeeper.so.{SONAME}",
                         f"liblockkeeper.so.{version}"}
    dynamic = run("readelf", "-d", copy.libraries / "liblockkeeper.so").stdout
    assert f"soname: [liblockkeeper.so.{SONAME}]" in dynamic
    assert any(name.endswith("man1/lockkeeper.1") for name in files)
    assert {"share/bash-completion/completions/lockkeeper.bash",
            "share/zsh/site-functions/_lockkeeper",
            "share/fish/vendor_completions.d/lockkeeper.fish"} <= files
    strays = {name for name in files if re.search(r"(test|example|demo|bench|driver)", name)
              and not name.startswith("share/doc/lockkeeper/")}
    assert not strays
    assert not any(name.endswith("meson.build") for name in files)


def test_every_page_is_installed(copy):
    """With what it shows and leads to."""
    documentation = copy.top / "share/doc/lockkeeper"
    pages = list((ROOT / "docs").glob("*.md"))
    assert len(pages) > 10
    for page in [*pages, ROOT / "README.md"]:
        assert (documentation / page.relative_to(ROOT)).read_text() == page.read_text()
    dead = {f"{place}: {link}" for place in documentation.rglob("*.md") for link in
            re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", place.read_text())
            if not (place.parent / link).exists()}
    assert not dead


def test_what_is_referred_to_is_installed(copy):
    """By headers, manual and doctor, which name files from the folder of the documentation on."""
    pages = [*(copy.top / "include").rglob("*.h"), next(copy.top.rglob("lockkeeper.1"))]
    texts = {str(page): page.read_text() for page in pages}
    texts["the doctor"] = (ROOT / "src/api/doctor/findings.def").read_text().split("*/", 1)[1]
    texts["the options"] = (ROOT / "src/conf/options.def").read_text().split("*/", 1)[1]
    own = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    strangers = {f"{page}: {name}" for page, text in texts.items()
                 for name in re.findall(rf"(?<![\w/.<-])(?:{own})/[\w./-]*\w", text)
                 if not (copy.top / "share/doc/lockkeeper" / name).is_file()}
    assert not strangers


def functions_of(header: pathlib.Path) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"^(?:LK_API|static inline)\b[^;({]*?\b(lk_\w+)\s*\(", text,
                          re.MULTILINE | re.DOTALL))


def test_each_header_is_a_page_of_the_manual(copy):
    """And each function leads to its page, which has its prototype and its comment."""
    folder = copy.top / "share/man/man3"
    headers = [path for path in (ROOT / "include/lockkeeper").glob("*.h")
               if path.name != "export.h"]
    assert {path.name for path in folder.iterdir() if not path.is_symlink()} == {
        "lockkeeper.3", *(f"lockkeeper_{path.stem}.3" for path in headers)}
    links = {path.stem: os.readlink(path) for path in folder.iterdir() if path.is_symlink()}
    assert links == {name: f"lockkeeper_{path.stem}.3" for path in headers
                     for name in functions_of(path)}
    shown = run("mandoc", "-T", "ascii", folder / "lk_lock_release.3").stdout
    shown = re.sub(r".\x08", "", shown)
    assert "#include <lockkeeper/lock.h>" in shown and "lk_lock_release(lk_lock *lock," in shown
    words = " ".join(shown.split())
    assert "A lease is not a mutex." in words and "typedef struct lk_acquire_options {" in words


def test_the_pages_of_section_3_pass_mandoc(copy):
    pages = [path for path in (copy.top / "share/man/man3").iterdir() if not path.is_symlink()]
    done = run("mandoc", "-T", "lint", *pages, check=False)
    problems = [line for line in done.stdout.splitlines()
                if "outdated mandoc.db" not in line and "referenced manual not found" not in line]
    assert not problems


def test_version(copy):
    version = run(ROOT / "scripts/version.sh").stdout.strip()
    assert run("pkg-config", "--modversion", "lockkeeper", env=copy.environment).stdout.strip() \
        == version
    assert version in run("lockkeeper", "--version", env=copy.environment).stdout


def test_pkg_config_needs_no_other_package(copy):
    """With the files of the package alone; no header or library of another is named."""
    alone = {**copy.environment, "PKG_CONFIG_LIBDIR": str(copy.pkgconfig), "PKG_CONFIG_PATH": ""}
    for words in (["--cflags"], ["--libs"], ["--cflags", "--libs", "--static"]):
        run("pkg-config", *words, "lockkeeper", env=alone)
    assert run("pkg-config", "--print-requires", "--print-requires-private", "lockkeeper",
               env=alone).stdout == ""
    flags = run("pkg-config", "--cflags", "--libs", "lockkeeper", env=alone).stdout.split()
    assert flags == [f"-I{copy.top}/include", f"-L{copy.libraries}", "-llockkeeper"]


@pytest.mark.parametrize("link", ["shared", "static"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_program_of_the_readme(copy, server, environment, folder, compiler, link):
    source = folder / ("readme.cpp" if compiler.endswith("++") else "readme.c")
    source.write_text(PROGRAM)
    program = folder / f"{compiler}-{link}"
    words = ["--cflags", "--libs", *(["--static"] if link == "static" else [])]
    flags = [f"{copy.libraries}/liblockkeeper.a" if flag == "-llockkeeper" and link == "static"
             else flag for flag in copy.flags(*words)]
    run(compiler, "-Wall", "-Werror", source, *flags, "-o", program)
    linked = run("ldd", program, env=environment).stdout
    assert ("liblockkeeper" in linked) == (link == "shared")
    assert run(program, env=environment).stdout == "alone at work\n"
    assert server.ask("EXISTS", "backup") == "0"


def test_a_static_program_is_not_linked_with_what_is_loaded(copy):
    """Debian 13's OpenSSL would ask for libraries of its own, whose headers nothing installs."""
    libraries = copy.flags("--libs", "--static")
    assert "-lhiredis" in libraries
    assert not {"-lssl", "-lcrypto", "-lzstd", "-lncursesw"} & set(libraries)
    assert "ssl" not in (copy.pkgconfig / "lockkeeper.pc").read_text()


def test_program_of_the_readme_without_a_server(copy, environment, folder):
    source = folder / "readme.c"
    source.write_text(PROGRAM)
    run("gcc", source, *copy.flags("--cflags", "--libs"), "-o", folder / "lonely")
    done = run(folder / "lonely", check=False,
               env={**environment, "LOCKKEEPER_URL": f"unix://{folder}/nowhere"})
    assert done.returncode == 1
    assert "no lock: " in done.stderr and f"{folder}/nowhere" in done.stderr


def test_program_of_the_readme_waits_its_turn(copy, server, environment, folder):
    source = folder / "readme.c"
    source.write_text(PROGRAM)
    run("gcc", source, *copy.flags("--cflags", "--libs"), "-o", folder / "waits")
    server.ask("HSET", "backup", "other:1", "1")
    server.ask("PEXPIRE", "backup", "60000")
    waiting = subprocess.Popen([folder / "waits"], env=environment, stdout=subprocess.PIPE,
                               text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        server.ask("DEL", "backup")
        server.ask("PUBLISH", "redisson_lock__channel:{backup}", "0")
        assert waiting.communicate(timeout=10)[0] == "alone at work\n"
    finally:
        waiting.kill()
        waiting.wait()


def test_manual_page(copy):
    page = next(copy.top.rglob("lockkeeper.1"))
    done = run("mandoc", "-T", "lint", "-W", "warning", page, check=False)
    assert done.stdout == ""
    assert "lockkeeper" in run("mandoc", "-T", "utf8", page).stdout
