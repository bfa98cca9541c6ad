"""Writes the C source of the extension module: what cffi makes of the public headers.

usage: make_binding.py OUTPUT INCLUDE_FOLDER COMPILER...

The declarations are those that the preprocessor leaves of <lockkeeper.h>, so a new function of the
library needs no line here. Macros that are numbers become constants.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

import cffi

MODULE = "lockkeeper._lockkeeper"
# On the calling thread, without the interpreter: the call ends, and then Python's handlers run.
INTERRUPTED = "static int lk_python_interrupted(void *context) { (void)context; return 1; }"
CALLBACKS = """
extern "Python" void lk_python_log(void *context, int level, const char *line);
extern "Python" int lk_python_credentials(void *context, const char *place,
                                          lk_credentials *credentials_out);
int lk_python_interrupted(void *context);
"""
NUMBER = re.compile(r"#define (LK_\w+) +(?:U?INT64_C\()?(-?\d+)\)?(?:\s|$)")
INLINE = re.compile(r"static inline [^;{]*\{.*?\n\}\n", re.DOTALL)


def preprocessed(include: pathlib.Path, compiler: list[str]) -> str:
    """The headers without what they include from elsewhere, whose types cffi knows."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stddef.h", "stdint.h"):
            pathlib.Path(folder, name).write_text("#define INT64_C(number) number\n"
                                                  "#define UINT64_C(number) number\n"
                                                  "#define NULL 0\n")
        return subprocess.run(
            [*compiler, "-E", "-P", "-nostdinc", "-U__GNUC__", f"-I{folder}", f"-I{include}",
             str(include / "lockkeeper.h")], check=True, capture_output=True, text=True).stdout


def constants(include: pathlib.Path) -> str:
    headers = sorted((include / "lockkeeper").glob("*.h"))
    return "".join(f"#define {name} {number}\n" for header in headers
                   for name, number in NUMBER.findall(header.read_text()))


def main() -> None:
    output, include, compiler = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    builder = cffi.FFI()
    builder.cdef(constants(include))
    builder.cdef(INLINE.sub("", preprocessed(include, compiler)))
    builder.cdef(CALLBACKS)
    builder.set_source(MODULE, f"#include <lockkeeper.h>\n{INTERRUPTED}\n")
    builder.emit_c_code(output)


if __name__ == "__main__":
    main()
