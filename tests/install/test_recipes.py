"""The recipes of package managers, as `make dist` leaves them: an RPM is built, the syntax of the
others is checked."""
from __future__ import annotations

import json
import re
import shutil

import pytest

from conftest import GIT, PACKAGE_S, ROOT, run

# What vcpkg has for ports; a port may set variables besides.
VCPKG = ["vcpkg_download_distfile", "vcpkg_extract_source_archive", "vcpkg_configure_meson",
         "vcpkg_install_meson", "vcpkg_fixup_pkgconfig", "vcpkg_cmake_config_fixup",
         "vcpkg_install_copyright"]


def needed(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"there is no {program}: make check-packages")


def test_each_has_version_and_checksum(dist, tarball):
    sha256 = (dist / f"{tarball.name}.sha256").read_text().split()[0]
    for path in (dist / "packaging").rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"@\w+@", text), path
            if path.name in ("conanfile.py", "lockkeeper.rb"):
                assert sha256 in text and dist.as_uri() in text, path


def test_rpms_are_built(folder, dist, tarball, server):
    needed("rpmbuild")
    top = folder / "rpm"
    (top / "SOURCES").mkdir(parents=True)
    shutil.copy(tarball, top / "SOURCES")
    # What it needs here comes from Debian's packages, of which rpm knows nothing.
    run("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {top}", "--define",
        f"_dbpath {top}/db", dist / "packaging/rpm/lockkeeper.spec", limit_s=PACKAGE_S)
    files = {}
    for path in (top / "RPMS").rglob("*.rpm"):
        name = run("rpm", "-qp", "--qf", "%{NAME}", path).stdout
        files[name] = run("rpm", "-qpl", path).stdout
        unpacked = folder / "from rpms"
        unpacked.mkdir(exist_ok=True)
        run("sh", "-c", 'rpm2cpio "$1" | cpio --quiet -idu', "sh", path, cwd=unpacked)
    assert {"lockkeeper", "lockkeeper-libs", "lockkeeper-devel"} <= files.keys()
    assert "/usr/bin/lockkeeper\n" in files["lockkeeper"]
    assert re.search(r"/liblockkeeper\.so\.[\d.]+\n", files["lockkeeper-libs"])
    for name in ("lockkeeper.h", "lockkeeper.hpp", "lockkeeper-config.cmake", "lockkeeper.pc",
                 "lk_lock_acquire.3"):
        assert name in files["lockkeeper-devel"], name
    done = run(unpacked / "usr/bin/lockkeeper", "run", "rpm", "--", "echo", "held",
               env={"LOCKKEEPER_URL": server.url, "PATH": "/usr/bin:/bin"})
    assert done.stdout == "held\n"


def test_conan(dist):
    path = dist / "packaging/conan/conanfile.py"
    compile(path.read_text(), str(path), "exec")


def test_homebrew(dist):
    needed("ruby")
    run("ruby", "-wc", dist / "packaging/homebrew/lockkeeper.rb")


def test_vcpkg(folder, dist):
    """The manifest, and the port with stand-ins for vcpkg's functions."""
    manifest = json.loads((dist / "packaging/vcpkg/vcpkg.json").read_text())
    assert manifest["name"] == "lockkeeper"
    needed("cmake")
    stand_ins = "".join(f"function({name})\nendfunction()\n" for name in VCPKG)
    script = folder / "port.cmake"
    script.write_text(f'{stand_ins}set(CURRENT_PACKAGES_DIR "{folder}/vcpkg")\n'
                      f'include("{dist}/packaging/vcpkg/portfile.cmake")\n')
    run("cmake", "-P", script)


def test_hiredis_as_a_subproject(folder, dist, server):
    """With the sources that hiredis for Python has inside: this machine may not reach others."""
    fetched = folder / "fetched"
    done = run("python3", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "hiredis",
               "--dest", fetched, "hiredis==2.3.2", check=False)
    if done.returncode:
        pytest.skip(f"pip does not fetch hiredis: {done.stderr.strip()[:120]}")
    run("tar", "-xzf", fetched / "hiredis-2.3.2.tar.gz", "-C", fetched)
    tree = folder / "with hiredis"
    run("git", "clone", "--quiet", "--no-local", ROOT, tree, env=GIT)
    own = tree / "subprojects/hiredis-1.2.0"
    shutil.copytree(fetched / "hiredis-2.3.2/vendor/hiredis", own)
    shutil.copytree(tree / "subprojects/packagefiles/hiredis", own, dirs_exist_ok=True)
    run("meson", "setup", tree / "build", "--wrap-mode=nodownload", "--werror",
        "--force-fallback-for=hiredis", "-Dcli=false", "-Dtests=false", "-Dbench=false",
        "-Ddemo=false", "--prefix=/", cwd=tree)
    run("ninja", "-C", tree / "build", "product", limit_s=PACKAGE_S)
    place = folder / "hiredis inside"
    run("meson", "install", "--no-rebuild", "-C", tree / "build",
        env={**GIT, "DESTDIR": str(place)})
    library = next(place.rglob("liblockkeeper.a"))
    package = (library.parent / "pkgconfig/lockkeeper.pc").read_text()
    assert "hiredis" not in package
    run("cc", ROOT / "examples/lock.c", f"-I{place}/include", library, "-pthread", "-ldl", "-o",
        folder / "inside")
    assert run(folder / "inside", env={"LOCKKEEPER_URL": server.url}).stdout == "alone at work\n"
    shared = next(place.rglob("liblockkeeper.so"))
    assert "hiredis" not in run("readelf", "-d", shared).stdout
    assert "redisReader" not in run("nm", "-D", "--defined-only", shared).stdout


def test_workflows_run_the_gate_alone():
    for path in (ROOT / ".github/workflows").iterdir():
        assert re.findall(r"^\s*(?:- )?run:\s*(.*)$", path.read_text(), re.MULTILINE) \
            == [".ci/run"], path
