"""find_package(lockkeeper) of CMake, with an installed copy that has been moved."""
from __future__ import annotations

import shutil

import pytest

from conftest import ROOT, run

PROJECT = ROOT / "tests/install/cmake"
SAID = {"shared": "alone at work\n", "static": "alone at work\n",
        "cpp": "alone at work\nstill alone\n"}


@pytest.fixture(scope="module")
def moved(copy, folder):
    if not shutil.which("cmake"):
        pytest.skip("there is no cmake: make check-packages")
    place = folder / "moved"
    shutil.copytree(copy.top, place, symlinks=True)
    return place


def configured(moved, made, wanted="", check=True):
    return run("cmake", "-S", PROJECT, "-B", made, f"-DCMAKE_PREFIX_PATH={moved}",
               f"-DEXAMPLES={ROOT / 'examples'}", f"-DWANTED={wanted}", check=check)


def test_a_project_finds_both_libraries(moved, folder, server):
    made = folder / "cmake project"
    configured(moved, made)
    run("cmake", "--build", made)
    for name, said in SAID.items():
        done = run(made / name, env={"LOCKKEEPER_URL": server.url})
        assert done.stdout == said
        linked = "liblockkeeper.so" in run("readelf", "-d", made / name).stdout
        assert linked == (name != "static")


@pytest.mark.parametrize("wanted, found", [("0.2", True), ("0.2.0", True), ("0.2.9", False),
                                           ("0.1", False), ("0.3", False), ("1.0", False)])
def test_versions_of_one_soname_go_together(moved, folder, wanted, found):
    done = configured(moved, folder / f"wants {wanted}", wanted, check=False)
    assert (done.returncode == 0) == found, done.stdout + done.stderr


def test_the_static_library_alone_is_enough(moved, folder, server):
    alone = folder / "static alone"
    shutil.copytree(moved, alone, symlinks=True)
    for path in alone.rglob("liblockkeeper.so*"):
        path.unlink()
    made = folder / "static project"
    configured(alone, made)
    run("cmake", "--build", made)
    for name, said in SAID.items():
        assert run(made / name, env={"LOCKKEEPER_URL": server.url}).stdout == said
