"""What packagers ask for: options, prefixes, staging, uninstalling, reproducible files."""
from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from conftest import PACKAGE_S, ROOT, run

MINIMAL = ("-Dtests=false", "-Dbench=false", "-Ddemo=false", "--buildtype=release")
TREE = ("include", "cpp", "src", "cli", "docs", "examples", "scripts", "meson.build",
        "meson_options.txt", "LICENSE", "Makefile", ".clang-format", "Containerfile",
        "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
        "tests/README.md")


@pytest.fixture(scope="module")
def minimal(folder):
    """A build folder without tests, configured by hand."""
    made = folder / "minimal"
    run("meson", "setup", made, *MINIMAL, "--prefix=/opt/by-hand", cwd=ROOT)
    return made


def make(*words: str, cwd=ROOT):
    return run("make", *words, cwd=cwd, env={**os.environ, "MAKEFLAGS": ""})


def installed(place) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}


def test_install_keeps_the_configured_prefix_and_can_be_undone(minimal, folder):
    place = folder / "one stage"
    make("install", f"BUILD={minimal}", f"DESTDIR={place}")
    names = installed(place)
    assert "opt/by-hand/bin/lockkeeper" in names
    assert "opt/by-hand/share/doc/lockkeeper/LICENSE" in names
    assert all(name.startswith("opt/by-hand/") for name in names)
    make("uninstall", f"BUILD={minimal}")
    assert installed(place) == set()


def test_a_new_prefix_and_a_relative_destdir_are_taken(minimal, folder):
    place = folder / "other"
    make("install", f"BUILD={minimal}", "PREFIX=/opt/named",
         f"DESTDIR={os.path.relpath(place, ROOT)}")
    assert "opt/named/bin/lockkeeper" in installed(place)
    package = next(place.rglob("lockkeeper.pc")).read_text()
    assert "prefix=/opt/named\n" in package


@pytest.mark.parametrize("by_environment", [True, False], ids=["environment", "command line"])
def test_the_makefile_takes_its_variables_from_either(folder, by_environment):
    """A packager writes `DESTDIR=/x make install`. Where nothing is set it installs for real."""
    given = {"DESTDIR": "/staged", "PREFIX": "/opt/given", "BUILD": str(folder / "given"),
             "PYTHON": "/opt/python", "RELEASE": "sid"}
    words = [] if by_environment else [f"{name}={value}" for name, value in given.items()]
    done = run("make", "-n", "install", "docs", "check-debian", *words, cwd=ROOT, env={
        **os.environ, "MAKEFLAGS": "", **(given if by_environment else {})}).stdout
    for line in (f'meson setup "{folder}/given" --prefix="/opt/given"',
                 f"/opt/python scripts/make_docs.py {folder}/given",
                 "/opt/python scripts/debian.py --release sid --check",
                 'destdir="/staged"; case'):
        assert line in done, done


def test_tests_bench_and_demo_can_be_left_out(minimal):
    run("ninja", "-C", minimal)
    assert not [name for name in ("tests", "bench", "demo", "examples")
                if (minimal / name).exists()]


def tree_copy(tree) -> None:
    """The sources without what a build of the library and the command does not need."""
    tree.mkdir(parents=True)
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tree / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tree / name)


def test_debian_packages_build_and_pass_lintian(folder):
    tree = folder / "debian" / "lockkeeper-0.2.0"
    tree_copy(tree)
    run("tar", "-C", tree.parent, "-czf", tree.parent / "lockkeeper_0.2.0.orig.tar.gz", tree.name)
    shutil.copytree(ROOT / "debian", tree / "debian")
    plain = {name: value for name, value in os.environ.items() if name not in ("CC", "MAKEFLAGS")}
    run("dpkg-buildpackage", "-us", "-uc", cwd=tree, env=plain, limit_s=PACKAGE_S)
    packages = {path.name.split("_")[0] for path in tree.parent.glob("*.deb")}
    assert {"lockkeeper", "liblockkeeper0.2", "liblockkeeper-dev"} <= packages
    changes = next(tree.parent.glob("*.changes"))
    own = folder / "lintian"  # it leaves files behind
    own.mkdir()
    done = run("lintian", "--allow-root", "--pedantic", "--display-info", "--fail-on",
               "error,warning,info,pedantic", changes, check=False, env={
                   **plain, "LC_ALL": "C.UTF-8", "TMPDIR": str(own)})
    assert done.returncode == 0, done.stdout


def test_the_same_sources_make_the_same_files(minimal, folder):
    tree = folder / "elsewhere" / "tree"
    tree_copy(tree)
    run("meson", "setup", tree / "build", *MINIMAL, "--prefix=/opt/by-hand", cwd=tree)
    run("meson", "configure", minimal, "--prefix=/opt/by-hand")
    for build in (minimal, tree / "build"):
        run("ninja", "-C", build)
    for name in ("cli/lockkeeper", "src/liblockkeeper.a", "src/liblockkeeper.so"):
        assert (minimal / name).read_bytes() == (tree / "build" / name).read_bytes(), name


def test_format_works_in_a_tarball(folder):
    tree = folder / "tarball"
    (tree / "include").mkdir(parents=True)
    for name in ("cpp", "src", "cli", "tests", "examples", "demo", "bench"):
        (tree / name).mkdir()
    for name in ("Makefile", ".clang-format"):
        shutil.copy(ROOT / name, tree / name)
    (tree / "src" / "one file.c").write_text("int  main( void ){return 0;}\n")
    make("format", cwd=tree)
    assert "int main(void)\n{\n" in (tree / "src" / "one file.c").read_text()


def test_every_source_names_its_licence():
    for folder in ("include", "cpp", "src", "cli"):
        sources = [path for ending in ("*.c", "*.h", "*.hpp")
                   for path in (ROOT / folder).rglob(ending)]
        for path in sorted(sources):
            assert path.read_text().startswith("/* SPDX-License-Identifier: MIT */\n"), path



def test_warnings_are_errors_only_on_request():
    options = subprocess.run(["meson", "introspect", "--buildoptions", ROOT / "meson.build"],
                             capture_output=True, text=True, check=True).stdout
    assert '"name": "werror", "value": true' not in options
