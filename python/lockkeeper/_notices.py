"""Notices about holds: a thread for each client reads them, once somebody wants them."""
from __future__ import annotations

import asyncio
import queue
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._lockkeeper import ffi, lib

if TYPE_CHECKING:
    from ._acquire import HoldBase

UNREAD_MOST = 10000  # of one reader; then the oldest go


@dataclass(frozen=True)
class Notice:
    """What happens to a hold.

    type      "at_risk": it ends soon unless a renewal still arrives; "lost": it is over without a
              release; "abandoned": its owner is gone
    name      of the lock
    field     its owner field in Redis
    fence     its fence token, or 0
    code      why: a code of the library, or 0; `reason` says it in words
    server    who refused, or did not answer
    node      the server that last confirmed the hold
    deadline  when the hold ends or ended, in seconds of CLOCK_BOOTTIME
    """

    type: Literal["at_risk", "lost", "abandoned", "unknown"]
    name: bytes
    field: str
    fence: int
    code: int
    reason: str
    server: str
    node: str
    deadline: float

    def text(self) -> str:
        name = self.name.decode(errors="replace")
        return f'"{name}" is {self.type}: {self.reason or "nobody renews it"}'


_TYPES: dict[int, Literal["at_risk", "lost", "abandoned"]] = {
    lib.LK_EVENT_AT_RISK: "at_risk", lib.LK_EVENT_LOST: "lost",
    lib.LK_EVENT_ABANDONED: "abandoned"}


def _read(event: Any) -> Notice:
    def text(member: Any) -> str:
        return ffi.string(member).decode(errors="replace")

    return Notice(_TYPES.get(event.type, "unknown"), ffi.string(event.name), text(event.field),
                  event.fence, event.code, text(event.reason), text(event.server),
                  text(event.node), event.deadline_ns / 1e9)


_Reader = Callable[["Notice | None"], None]


class Notices:
    """Those of one client in one process."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        self._holds: weakref.WeakValueDictionary[int, HoldBase] = weakref.WeakValueDictionary()
        self._readers: list[_Reader] = []
        self._ended = False
        self._mutex = threading.Lock()
        self.thread = threading.Thread(target=self._run, name="lockkeeper-notices", daemon=True)
        self.thread.start()

    def watch(self, hold: HoldBase) -> None:
        self._holds[hold._number] = hold

    def _run(self) -> None:
        event = ffi.new("lk_event *", {"struct_size": ffi.sizeof("lk_event")})
        while lib.lk_event_wait(self._pointer, event, -1, ffi.NULL, ffi.NULL) == 1:
            self._tell(_read(event), self._holds.get(event.tag))
        with self._mutex:
            self._ended = True
            readers, self._readers = self._readers, []
        for reader in readers:
            reader(None)
        del self._pointer

    def _tell(self, notice: Notice, hold: HoldBase | None) -> None:
        with self._mutex:
            readers = list(self._readers)
        for reader in readers:
            reader(notice)
        if hold is None:
            return
        try:
            hold._noticed(notice)
        except Exception:  # of the program's on_lost
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self.thread)))

    def add(self, reader: _Reader) -> None:
        with self._mutex:
            if not self._ended:
                self._readers.append(reader)
                return
        reader(None)

    def remove(self, reader: _Reader) -> None:
        with self._mutex:
            if reader in self._readers:
                self._readers.remove(reader)


class NoticeStream:
    """client.notices(): `for` and `async for`, until the client is closed."""

    def __init__(self, start: Callable[[], Notices]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Notice]:
        waiting: queue.Queue[Notice | None] = queue.Queue()

        def put(notice: Notice | None) -> None:
            if waiting.qsize() >= UNREAD_MOST:
                waiting.get_nowait()
            waiting.put(notice)

        return self._read(put, waiting)

    def _read(self, reader: _Reader, waiting: queue.Queue[Notice | None]) -> Iterator[Notice]:
        notices = self._start()
        notices.add(reader)
        try:
            while (notice := waiting.get()) is not None:
                yield notice
        finally:
            notices.remove(reader)

    async def __aiter__(self) -> AsyncIterator[Notice]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[Notice | None] = asyncio.Queue()

        def put_here(notice: Notice | None) -> None:
            if waiting.qsize() >= UNREAD_MOST:
                waiting.get_nowait()
            waiting.put_nowait(notice)

        def put(notice: Notice | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(put_here, notice)

        reader, notices = put, self._start()
        notices.add(reader)
        try:
            while (notice := await waiting.get()) is not None:
                yield notice
        finally:
            notices.remove(reader)
