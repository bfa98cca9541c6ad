#!/usr/bin/env python3
"""Makes the tarball of a release, its checksum, and the recipes of package managers for it.

usage: dist.py FOLDER [URL]

Writes lockkeeper-VERSION.tar.gz and .sha256 into FOLDER, and into FOLDER/packaging the files of
packaging/ with version, checksums and the URL below which the tarball will be (FOLDER itself, where
none is named). The tarball has what is committed, of HEAD: the same commit makes the same bytes.
"""
from __future__ import annotations

import gzip
import hashlib
import pathlib
import re
import subprocess
import sys

from tree import ROOT

TEMPLATES = ROOT / "packaging"


def git(*words: str) -> bytes:
    # What a user has configured changes no byte.
    plain = ["-c", "tar.umask=0022", "-c", "core.autocrlf=false"]
    return subprocess.run(["git", "-C", str(ROOT), *plain, *words], check=True,
                          stdout=subprocess.PIPE).stdout


def version() -> str:
    return subprocess.run([str(ROOT / "scripts/version.sh")], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def recipes(folder: pathlib.Path, values: dict[str, str]) -> None:
    for template in sorted(TEMPLATES.rglob("*")):
        if template.is_file() and template.suffix != ".md":
            made = folder / "packaging" / template.relative_to(TEMPLATES)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(re.sub(r"@(\w+)@", lambda match: values[match[1]],
                                   template.read_text()))


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip().splitlines()[2])
    changed = git("status", "--porcelain", "--untracked-files=no").decode()
    if changed:
        sys.exit(f"make dist: not committed, and so not in a tarball:\n{changed}")
    folder, number = pathlib.Path(sys.argv[1]).resolve(), version()
    name = f"lockkeeper-{number}.tar.gz"
    tar = git("archive", "--format=tar", f"--prefix=lockkeeper-{number}/", "HEAD")
    packed = gzip.compress(tar, 9, mtime=0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(packed)
    sha256 = hashlib.sha256(packed).hexdigest()
    (folder / f"{name}.sha256").write_text(f"{sha256}  {name}\n")
    below = sys.argv[2].rstrip("/") if len(sys.argv) == 3 else folder.as_uri()
    recipes(folder, {"version": number, "url": f"{below}/{name}", "sha256": sha256,
                     "sha512": hashlib.sha512(packed).hexdigest()})
    print(f"{folder / name}\nsha256 {sha256}")


main()
