"""`make dist`, from clean clones: the same bytes each time. test_recipes.py builds them."""
from __future__ import annotations

import tarfile

from conftest import GIT, ROOT, distribution, run


def test_the_same_commit_makes_the_same_bytes(folder, dist, tarball):
    """Whatever the user has configured."""
    own = folder / "home"
    own.mkdir()
    (own / ".gitconfig").write_text("[tar]\n\tumask = 0077\n[core]\n\tautocrlf = true\n")
    other = distribution(folder, "another clone", HOME=str(own), TZ="Asia/Tokyo",
                         LC_ALL="C.UTF-8", URL="https://example.com/releases/")
    assert (other / tarball.name).read_bytes() == tarball.read_bytes()
    spec = (other / "packaging/rpm/lockkeeper.spec").read_text()
    assert f"Source0:        https://example.com/releases/{tarball.name}\n" in spec


def test_the_checksum_is_its_own(dist, tarball):
    run("sha256sum", "--check", f"{tarball.name}.sha256", cwd=dist)


def test_it_has_what_is_committed(folder, tarball):
    place = folder / "unpacked"
    with tarfile.open(tarball) as archive:
        archive.extractall(place, filter="data") if hasattr(tarfile, "data_filter") \
            else archive.extractall(place)
    (tree,) = place.iterdir()
    assert tree.name == tarball.name.removesuffix(".tar.gz")
    kept = run("git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD",
               env=GIT).stdout.splitlines()
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir()} \
        == set(kept)
    run("meson", "setup", tree / "build")


def test_changes_that_are_not_committed_are_refused(folder, dist):
    clone = folder / "clone"
    (clone / "README.md").write_text("changed\n")
    done = run("make", "dist", cwd=clone, env=GIT, check=False)
    assert done.returncode and "README.md" in done.stderr
    run("git", "-C", clone, "checkout", "--quiet", "README.md", env=GIT)
