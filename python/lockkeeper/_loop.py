"""Asynchronous calls: one completion queue of the library for each event loop.

The loop watches the queue's descriptor. A request has a future; a task that is cancelled asks the
library to end its request and waits for the completion, which comes at once and says whether the
lock was granted all the same. A grant that nobody waits for any more goes back.
"""
from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _process
from ._call import check, made
from ._errors import error_of
from ._lockkeeper import ffi, lib

AT_ONCE = 64
DRAIN_S = 1.0

_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = weakref.WeakKeyDictionary()


class Completion(NamedTuple):
    code: int
    message: str
    field: str
    fence: int
    answer: int


class _Request:
    """Its future belongs to the task that waits, so that a task that its loop has left behind can
    be collected."""

    __slots__ = ("future", "completion", "give_back", "wanted")

    def __init__(self, give_back: Callable[[Completion], None] | None) -> None:
        self.future: weakref.ref[asyncio.Future[Completion]] | None = None
        self.completion: Completion | None = None
        self.give_back = give_back
        self.wanted = True

    def waits(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Completion]:
        future: asyncio.Future[Completion] = loop.create_future()
        self.future = weakref.ref(future)
        return future

    def drop(self) -> None:
        """Nobody waits for it any more."""
        self.wanted = False
        if self.completion is not None:
            self.end(self.completion)

    def deliver(self, completion: Completion) -> None:
        self.completion = completion
        future = self.future() if self.future is not None else None
        if not self.wanted:
            self.end(completion)
        elif future is not None and not future.done() and not future.get_loop().is_closed():
            future.set_result(completion)

    def end(self, completion: Completion) -> None:
        if completion.code == 0 and self.give_back:
            self.give_back(completion)
        self.give_back = None


def _read(completion: Any) -> Completion:
    code = completion.error.code
    message = ffi.string(completion.error.message).decode(errors="replace") if code else ""
    return Completion(code, message, ffi.string(completion.field).decode(errors="replace"),
                      completion.fence, completion.answer)


class Loop:
    """The queue of an event loop, in one process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.process = _process.number
        self._queue = made(lambda queue: lib.lk_queue_free(queue, ffi.NULL), "lk_queue **",
                           lib.lk_queue_new, 0)
        self._requests: dict[int, _Request] = {}
        self._completions = ffi.new("lk_completion[]", AT_ONCE)
        self._completions[0].struct_size = ffi.sizeof("lk_completion")
        self._id = ffi.new("uint64_t *")
        loop.add_reader(check(lib.lk_queue_fd, self._queue), self._take)
        weakref.finalize(loop, Loop._drain, self._queue, self._requests, self.process)

    def _take(self) -> None:
        completions = self._completions
        while True:
            count = lib.lk_queue_take(self._queue, completions, AT_ONCE, 0, ffi.NULL)
            for index in range(count):
                _deliver(self._requests, completions[index])
            if count < AT_ONCE:
                return

    async def call(self, operation: int,
                   give_back: Callable[[Completion], None] | None = None,
                   **members: Any) -> Completion:
        """Makes a request with these members; the completion of a call that succeeded."""
        loop = asyncio.get_running_loop()
        asked = ffi.new("lk_request *", {"struct_size": ffi.sizeof("lk_request"),
                                         "operation": operation, **members})
        check(lib.lk_queue_start, self._queue, asked, self._id)
        number = self._id[0]
        request = self._requests[number] = _Request(give_back)
        completion = await self._completed(loop, number, request)
        if completion.code:
            raise error_of(completion.code, completion.message)
        return completion

    async def _completed(self, loop: asyncio.AbstractEventLoop, number: int,
                         request: _Request) -> Completion:
        try:
            return await request.waits(loop)
        except asyncio.CancelledError:
            try:
                if request.completion is None:
                    lib.lk_queue_cancel(self._queue, number, ffi.NULL)
                    await request.waits(loop)
            finally:
                request.drop()
            raise
        except GeneratorExit:
            lib.lk_queue_cancel(self._queue, number, ffi.NULL)
            request.drop()
            if loop.is_closed():
                Loop._drain(self._queue, self._requests, self.process)
            raise

    @staticmethod
    def _drain(queue: Any, requests: dict[int, _Request], process: int) -> None:
        """The event loop is gone: what it has started ends, and goes back."""
        if process != _process.number:
            return
        for number in requests:
            lib.lk_queue_cancel(queue, number, ffi.NULL)
        completion = ffi.new("lk_completion *", {"struct_size": ffi.sizeof("lk_completion")})
        until = time.monotonic() + DRAIN_S
        while requests and time.monotonic() < until:
            if lib.lk_queue_take(queue, completion, 1, 100, ffi.NULL) == 1:
                _deliver(requests, completion)


def _deliver(requests: dict[int, _Request], completion: Any) -> None:
    request = requests.pop(completion.id, None)
    if request is not None:
        request.deliver(_read(completion))


def current() -> Loop:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    own = _loops.get(loop)
    if own is None or own.process != _process.number:
        own = _loops[loop] = Loop(loop)
    return own
