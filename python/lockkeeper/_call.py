"""How Python calls the library: arguments, errors, and Ctrl-C.

cffi releases the interpreter's lock in every call. A blocking call of the main thread has a cancel
token that ends it when a signal comes; then the interpreter runs the signal's handler, with no call
of the library in progress, and the wait goes on if the handler has raised nothing.
"""
from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from . import _process
from ._errors import error_of
from ._lockkeeper import ffi, lib

_tokens: list[Any] = []  # of the main thread; a handler may wait for another lock


def fail(error: Any) -> None:
    raise error_of(error.code, ffi.string(error.message).decode(errors="replace"))


def check(call: Callable[..., int], *arguments: Any) -> int:
    """Makes a call whose last parameter is the error; returns its answer, or raises."""
    error = ffi.new("lk_error *")
    answer = call(*arguments, error)
    if answer < 0:
        fail(error)
    return answer


def milliseconds(seconds: float, most: int) -> int:
    """At least as long, and no longer than the library takes."""
    if seconds != seconds or seconds < 0:
        raise error_of(lib.LK_EINVAL, f"{seconds!r} is not a time")
    # Rounded first: 10.499 + 10.5 is a little more than 20.999.
    return most if seconds >= most / 1000 else math.ceil(round(seconds * 1000, 6))


def lease_ms(seconds: float | None) -> int:
    """0, the watchdog's lease, for None. What is out of range, the library refuses."""
    return 0 if seconds is None else max(1, milliseconds(seconds, lib.LK_WAIT_MAX_MS))


def wait_ms(seconds: float | None) -> int:
    """-1, no limit, for None."""
    return -1 if seconds is None else milliseconds(seconds, lib.LK_WAIT_MAX_MS)


def as_bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)


def _token() -> Any:
    if _tokens:
        return _tokens.pop()
    made = ffi.new("lk_cancel **")
    check(lib.lk_cancel_new, made)
    lib.lk_cancel_on_interrupt(made[0], lib.lk_python_interrupted, ffi.NULL)
    return ffi.gc(made[0], lib.lk_cancel_free)


def wait(start: Callable[[int, Any], int], limit_ms: int) -> int:
    """Makes a blocking call, start(limit_ms, token), and returns its answer."""
    if threading.get_ident() != _process.main_thread:
        return start(limit_ms, ffi.NULL)
    token, until = _token(), time.monotonic() + limit_ms / 1000
    try:
        while True:
            answer = start(limit_ms, token)
            if answer != lib.LK_ECANCELLED:
                return answer
            lib.lk_cancel_reset(token)
            if limit_ms >= 0:
                limit_ms = max(0, math.ceil((until - time.monotonic()) * 1000))
    finally:
        lib.lk_cancel_reset(token)
        _tokens.append(token)


def wait_checked(start: Callable[[int, Any, Any], int], limit_ms: int) -> int:
    """The same for start(limit_ms, token, error); raises what failed."""
    error = ffi.new("lk_error *")
    answer = wait(lambda left_ms, token: start(left_ms, token, error), limit_ms)
    if answer < 0:
        fail(error)
    return answer


class Handle:
    """Something of the library that `make` makes, and makes again in a forked child."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._pointer, self._process = make(), _process.number

    def pointer(self) -> Any:
        if self._process == _process.number:
            return self._pointer
        return self._made_again()

    def _made_again(self) -> Any:
        with _process.making:
            if self._process != _process.number:
                self._pointer, self._process = self._make(), _process.number
            return self._pointer


def made(free: Callable[[Any], Any], pointer_type: str, call: Callable[..., int],
         *arguments: Any) -> Any:
    """What call(pointer_out, …) makes, freed when Python has no reference to it any more, and then
    the arguments, of which a client is one.

    Not by ffi.gc(): of objects that refer to one another, the collector might free a lock before it
    calls __del__ of a hold of it. What a weak reference calls comes behind every __del__, as the
    pointer itself is nothing that the collector looks at. A program that ends frees nothing.
    """
    out = ffi.new(pointer_type)
    check(call, out, *arguments)
    pointer = out[0]
    weakref.finalize(pointer, _free, free, out[0], arguments).atexit = False
    return pointer


def _free(free: Callable[[Any], Any], pointer: Any, arguments: tuple[Any, ...]) -> None:
    free(pointer)
