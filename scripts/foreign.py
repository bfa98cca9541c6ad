#!/usr/bin/env python3
"""Builds the library, the command and the unit suites for another C library or processor, and runs
these suites and the simulated worlds.

usage: foreign.py musl|aarch64 [--build DIR]

musl     Debian's musl-gcc. What we need beside the C library is built from Debian's sources.
aarch64  Debian's cross compiler, with Debian's libraries for it; qemu-user runs the programs.

All stays in DIR/foreign, and what was fetched and built there is used again. Nothing is installed.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

import check
import parts
import servers
import tally as runners
from tally import ROOT, Tally

LIMIT_S = 900
SEEDS = "10"  # of each world, where the processor is emulated
HEADERS = pathlib.Path("/usr/include")


class Source(NamedTuple):
    """A library in C without a configure step, from Debian's package of that name."""
    package: str
    library: str
    folder: str         # of its .c files; the headers too, but for cmocka
    headers: str
    without: tuple[str, ...]
    flags: tuple[str, ...]
    into: str           # below include/
    module: str         # as pkg-config knows it
    empty: str = ""     # a file that its configure step would write, of which nothing is needed


SOURCES = (
    Source("hiredis", "hiredis", ".", "*.h", ("test.c", "ssl.c"), (), "hiredis", "hiredis"),
    # The configuration for Android is the one that its authors wrote by hand.
    Source("jansson", "jansson", "src", "src/jansson.h android/jansson_config.h", (),
           ("-Iandroid", "-DHAVE_STDINT_H", "-DJSON_INTEGER_FORMAT=\"lld\""), "", "jansson",
           "android/jansson_private_config.h"),
    Source("cmocka", "cmocka", "src", "include/*.h", (),
           ("-Iinclude", "-DHAVE_INTTYPES_H", "-DHAVE_MALLOC_H", "-DHAVE_SIGNAL_H",
            "-DHAVE_STRINGS_H", "-DHAVE_STRSIGNAL", "-DHAVE_STRUCT_TIMESPEC", "-DHAVE_SIGLONGJMP",
            "-DHAVE_CLOCK_REALTIME", "-DHAVE_GCC_THREAD_LOCAL_STORAGE"), "", "cmocka"),
    Source("lua5.1", "lua5.1", "src", "src/*.h etc/lua.hpp", ("lua.c", "luac.c", "print.c"),
           ("-DLUA_USE_MKSTEMP",), "lua5.1", "lua5.1"),
)
# Those whose headers are all that the build takes, from this machine: no word in them is of a C
# library. OpenSSL and ncurses are loaded when a program needs them.
COMMON = ("openssl", "uthash.h", "utlist.h", "curses.h", "ncurses.h", "ncurses_dll.h", "unctrl.h",
          "linux", "asm-generic")
COMMON_OF_MACHINE = ("asm", "openssl/configuration.h", "openssl/opensslconf.h",
                     "lua5.1-deb-multiarch.h")
AARCH64 = ("libc6-dev", "libhiredis-dev", "libssl-dev", "libjansson-dev", "libncurses-dev",
           "libcmocka-dev", "liblua5.1-0-dev", "uthash-dev")
AARCH64_MODULES = "usr/lib/aarch64-linux-gnu/pkgconfig"

CROSS = """[binaries]
c = '{compiler}'
ar = '{ar}'
strip = '{strip}'
pkgconfig = '/usr/bin/pkg-config'
pkg-config = '/usr/bin/pkg-config'
{wrapper}
[built-in options]
c_args = [{flags}]
c_link_args = [{flags}]
[properties]
sys_root = '{sys_root}'
pkg_config_libdir = '{libdir}'
[host_machine]
system = 'linux'
cpu_family = '{cpu}'
cpu = '{cpu}'
endian = 'little'
"""

# They are linked with OpenSSL, which Debian does not have for musl.
WITHOUT = {"musl": ("unit/tls", "unit/tls-memory")}


class Target(NamedTuple):
    root: pathlib.Path
    cross: str
    wrapper: list[str]
    slow: str  # LK_TEST_SLOW

    def sim(self, program: pathlib.Path) -> list[parts.Program]:
        """All seeds that `make check` has; emulated, a few of each world."""
        own = {"LK_TEST_SLOW": self.slow}
        if not self.wrapper:
            return [parts.Program("unit/sim", [str(program)], own, LIMIT_S)]
        worlds = subprocess.run([*self.wrapper, program, "--worlds"], check=True, timeout=60,
                                capture_output=True, text=True).stdout.split()
        return [parts.Program(f"sim/{world}", [*self.wrapper, str(program), world, "1", SEEDS],
                              own, LIMIT_S) for world in worlds]


def release() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def apt(place: pathlib.Path, kind: str, *options: str) -> list[str]:
    row = f"{kind} [signed-by={servers.KEYRING}] {servers.mirror()} {release()} main\n"
    words = servers.own_apt(place, row)
    made = [*words, *(word for option in options for word in ("-o", option))]
    servers.run([*made, "update"])
    return made


def aarch64_root(place: pathlib.Path) -> None:
    words = apt(place, "deb", "APT::Architecture=arm64", "APT::Architectures=arm64")
    servers.run([*words, "-y", "--download-only", "install", *AARCH64])
    for package in sorted((place / "cache/archives").glob("*.deb")):
        servers.run(["dpkg-deb", "-x", str(package), str(place / "root")])
    # The compiler knows the folder anyway: see described().
    module = place / "root" / AARCH64_MODULES / "openssl.pc"
    module.write_text(re.sub("^includedir=.*", "includedir=.", module.read_text(),
                             flags=re.MULTILINE))


def musl_root(place: pathlib.Path) -> None:
    words = apt(place, "deb-src")
    subprocess.run([*words, "source", "--download-only", *(one.package for one in SOURCES)],
                   cwd=place, check=True, timeout=servers.FETCH_LIMIT_S)
    include = place / "root/include"
    include.mkdir(parents=True)
    for names, folder in ((COMMON, HEADERS),
                          (COMMON_OF_MACHINE, HEADERS / f"{platform.machine()}-linux-gnu")):
        for name in names:
            copy = shutil.copytree if (folder / name).is_dir() else shutil.copy
            copy(folder / name, include / name)
    for source in SOURCES:
        (description,) = place.glob(f"{source.package}_*.dsc")
        servers.run(["dpkg-source", "--no-check", "-x", str(description),
                     str(place / source.package)])
        built(source, place / source.package, place / "root")
    for module in ("openssl", "ncursesw"):
        version = subprocess.run(["pkg-config", "--modversion", module], check=True, timeout=60,
                                 capture_output=True, text=True).stdout.strip()
        described(place / "root", module, version, "")


def built(source: Source, tree: pathlib.Path, root: pathlib.Path) -> None:
    names = [path.name for path in sorted((tree / source.folder).glob("*.c"))
             if path.name not in source.without]
    flags = [f"-I{root}/include", *(flag.replace("-I", f"-I{tree}/") for flag in source.flags)]
    folder = tree / source.folder
    if source.empty:
        (tree / source.empty).touch()
    subprocess.run(["musl-gcc", "-O2", "-fPIC", "-w", "-c", *flags, *names], cwd=folder, check=True,
                   timeout=LIMIT_S)
    (root / "lib").mkdir(exist_ok=True)
    subprocess.run(["ar", "rcs", str(root / f"lib/lib{source.library}.a"),
                    *(name.replace(".c", ".o") for name in names)], cwd=folder, check=True,
                   timeout=LIMIT_S)
    into = root / "include" / source.into
    into.mkdir(exist_ok=True)
    for pattern in source.headers.split():
        for header in tree.glob(pattern):
            shutil.copy(header, into)
    version = next(tree.parent.glob(f"{source.package}_*.dsc")).stem.partition("_")[2]
    described(root, source.module, version.partition("-")[0], f"-l{source.library} -lm")


def described(root: pathlib.Path, module: str, version: str, libs: str) -> None:
    """For pkg-config. `includedir` is not the real one, which the compiler is told by the cross
    file: Meson takes no folder within the tree that is not written relative to it."""
    folder = root / "lib/pkgconfig"
    folder.mkdir(parents=True, exist_ok=True)
    libs = f"Libs: -L{root}/lib {libs}\n" if libs else ""
    (folder / f"{module}.pc").write_text(
        f"includedir=.\nName: {module}\nDescription: for musl\n"
        f"Version: {version}\nCflags: -I{root}/include -I{root}/include/lua5.1\n{libs}")


def aarch64(place: pathlib.Path) -> Target:
    root = place / "root"
    wrapper = ["qemu-aarch64", "-L", str(root)]
    prefix = "aarch64-linux-gnu-"
    return Target(root, CROSS.format(
        compiler=f"{prefix}gcc", ar=f"{prefix}ar", strip=f"{prefix}strip", cpu="aarch64",
        wrapper=f"exe_wrapper = {wrapper}", flags=f"'--sysroot={root}'", sys_root=root,
        libdir=f"{root / AARCH64_MODULES}:{root}/usr/share/pkgconfig"), wrapper, "4")


def musl(place: pathlib.Path) -> Target:
    root = place / "root"
    return Target(root, CROSS.format(
        compiler="musl-gcc", ar="ar", strip="strip", cpu=platform.machine(), wrapper="",
        flags=f"'-isystem', '{root}/include'", sys_root="", libdir=root / "lib/pkgconfig"), [], "1")


KINDS = {"musl": (musl_root, musl), "aarch64": (aarch64_root, aarch64)}


def made(kind: str, place: pathlib.Path) -> Target:
    """The root is whole, or not there."""
    make, target = KINDS[kind]
    if not (place / "whole").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        make(place)
        (place / "whole").touch()
    return target(place)


def programs(build: pathlib.Path) -> dict[str, pathlib.Path]:
    """The unit suites by their names."""
    rows = json.loads(subprocess.run(
        ["meson", "introspect", "--tests", str(build)], check=True, capture_output=True, text=True,
        timeout=parts.INTROSPECT_LIMIT_S).stdout)
    return {row["name"].replace("-", "/", 1): pathlib.Path(row["cmd"][-1]) for row in rows
            if any(suite.endswith(":unit") for suite in row["suite"])}


def tried(tally: Tally, kind: str, build: pathlib.Path) -> None:
    place = build.resolve() / "foreign" / kind
    target = made(kind, place)
    cross, folder = place / "cross.ini", place / "build"
    cross.write_text(target.cross)
    if not folder.exists() and not runners.command(tally, f"{kind}-setup", [
            "meson", "setup", "--werror", "--wrap-mode=nodownload", f"--cross-file={cross}",
            "-Dbench=false", "-Ddemo=false", str(folder)]):
        shutil.rmtree(folder)
        return
    suites = {name: path for name, path in programs(folder).items()
              if name not in WITHOUT.get(kind, ())}
    targets = [str(path.relative_to(folder)) for path in suites.values()]
    command = folder / "cli/lockkeeper"
    if not runners.command(tally, f"{kind}-build",
                           ["ninja", "-C", str(folder), "product", *targets], LIMIT_S):
        return
    runners.command(tally, f"{kind}-command", [*target.wrapper, str(command), "--version"], 60)
    simulated = suites.pop("unit/sim")
    check.run_parts(tally, folder, [*target.sim(simulated), *(
        parts.Program(name, [*target.wrapper, str(path)], {"LK_TEST_SLOW": target.slow}, LIMIT_S)
        for name, path in suites.items())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    begun = time.monotonic()
    tally = Tally(arguments.build / "logs" / arguments.kind)
    tried(tally, arguments.kind, arguments.build)
    return check.conclude(tally, begun)


if __name__ == "__main__":
    sys.exit(main())
