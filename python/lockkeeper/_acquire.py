"""Locks and holds.

Each hold has an owner name of its own, so it may move between threads and tasks, and a second hold
of the same lock waits for the first. Holds that name the same owner re-enter.
"""
from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _loop, _process
from ._call import (Handle, as_bytes, check, fail, lease_ms, milliseconds, wait, wait_ms)
from ._errors import Busy, Error, error_of
from ._lockkeeper import ffi, lib

if TYPE_CHECKING:
    from ._client import Client
    from ._notices import Notice

_Self = TypeVar("_Self", bound="HoldBase")

STILL_HELD = (lib.LK_ENOMEM, lib.LK_EINVAL)  # after a release that fails so

_numbers = itertools.count(1)
_threads = threading.local()


def thread_owner() -> str:
    """An owner name for the calling thread: its holds with `owner=thread_owner()` re-enter."""
    try:
        return _threads.owner
    except AttributeError:
        _threads.owner = f"thread {next(_numbers)}"
        return _threads.owner


class HoldBase:
    """What is held for a `with` block, of a lock or of permits.

    A hold that is collected is given back; so is one whose acquire met an exception between the
    grant and the block. In a forked child it belongs to the parent, and leaving the block does
    nothing.
    """

    def __init__(self, client: Client, wait: float | None,
                 on_lost: Callable[[Notice], object] | None) -> None:
        self._client = client
        self._wait_ms = wait_ms(wait)
        self._on_lost = on_lost
        self._number = next(_numbers)
        self._process = _process.number
        self._lost: Notice | None = None
        # Weak: a task that its loop has left behind can be collected, and its hold goes back.
        self._task: weakref.ref[asyncio.Task[Any]] | None = None
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._inside = self._begun = self._kept = False

    # What a subclass does.

    def _take(self) -> None:
        raise NotImplementedError

    async def _atake(self) -> None:
        raise NotImplementedError

    def _give_back(self) -> None:
        """Without waiting, if it is held at all."""
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError

    async def arelease(self) -> None:
        raise NotImplementedError

    # Notices, on the thread that reads them.

    def _noticed(self, notice: Notice) -> None:
        if notice.type != "lost":
            return
        self._lost = notice
        loop = self._loop() if self._loop is not None else None
        if loop is not None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._cancel_body)
        if self._on_lost is not None:
            self._on_lost(notice)

    def _cancel_body(self) -> None:
        task = self._task() if self._task is not None else None
        if self._inside and task is not None:
            task.cancel()

    def _check_process(self) -> None:
        if self._process != _process.number:
            raise error_of(lib.LK_EFORKED, "the hold belongs to the parent process")

    def _begin(self) -> None:
        if self._inside:
            raise error_of(lib.LK_EINVAL, "this hold is held already; make another")
        self._process = _process.number
        self._begun, self._lost = True, None
        if self._on_lost is not None:
            self._client._notices().watch(self)

    # Blocking.

    def __enter__(self: _Self) -> _Self:
        self._begin()
        try:
            self._take()
            self._inside = True
            return self
        except BaseException:
            self._give_back()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._process != _process.number:
            return
        if error is None or isinstance(error, Exception):
            self.release()
        else:
            with suppress(Error):
                self.release()

    # In a task.

    async def __aenter__(self: _Self) -> _Self:
        self._begin()
        try:
            task = asyncio.current_task()
            self._loop = weakref.ref(asyncio.get_running_loop())
            self._task = weakref.ref(task) if task is not None else None
            self._client._notices().watch(self)
            await self._atake()
            self._inside = True
            return self
        except BaseException:
            self._give_back()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._process != _process.number:
            return
        self._inside = False
        lost, task = self._lost, self._task() if self._task is not None else None
        self._task = None
        if lost is not None and isinstance(error, asyncio.CancelledError):
            with suppress(Error):
                await self.arelease()
            uncancel = getattr(task, "uncancel", None)  # Python 3.11
            if uncancel is None or uncancel() == 0:
                raise error_of(lib.LK_ELOST, lost.text()) from error
            return
        if error is None or isinstance(error, Exception):
            await self.arelease()
        else:
            with suppress(Error):
                await self.arelease()

    def __await__(self: _Self) -> Generator[Any, None, _Self]:
        """`hold = await lock.hold(…)`: without a block, whose task a loss would cancel."""
        return self._awaited().__await__()

    async def _awaited(self: _Self) -> _Self:
        await self.__aenter__()
        self._task = None
        return self

    def _keep(self) -> None:
        """It stays when it is collected."""
        self._kept = True

    def __del__(self) -> None:
        if getattr(self, "_begun", False) and not self._kept and self._process == _process.number:
            with suppress(Exception):
                self._give_back()


class Hold(HoldBase):
    """One hold of a lock: `with lock.hold(wait=10) as hold:`."""

    def __init__(self, lock: Lock, wait: float | None, lease: float | None,
                 max_hold: float | None, margin: float | None, owner: str | None,
                 on_lost: Callable[[Notice], object] | None, renew: bool,
                 adopts: str | None = None) -> None:
        super().__init__(lock.client, wait, on_lost)
        self._lock = lock
        self._shared = owner is not None
        self._before = 0
        self._owner = ffi.new("char[]", as_bytes(owner) if owner is not None
                              else b"hold %d" % self._number)
        self._options = options = ffi.new("lk_acquire_options *")
        options.struct_size = ffi.sizeof("lk_acquire_options")
        options.owner = self._owner
        options.tag = self._number
        if lease is not None:
            options.lease_ms = lease_ms(lease)
        if max_hold is not None:
            options.max_hold_ms = lease_ms(max_hold)
        if margin is not None:
            options.margin_ms = lease_ms(margin)
        options.renew = renew
        if adopts is not None:
            self._adopts = options.field = ffi.new("char[]", as_bytes(adopts))

    def _count(self, lock: Any) -> int:
        return lib.lk_lock_hold_count(lock, self._owner, ffi.NULL)

    def _begin(self) -> None:
        super()._begin()
        if self._shared:
            self._before = self._count(self._lock.pointer())

    def _take(self) -> None:
        lock, options, error = self._lock.pointer(), self._options, ffi.new("lk_error *")

        def start(limit_ms: int, token: Any) -> int:
            # To adopt takes one round trip, and is not cancelled.
            options.cancel = ffi.NULL if options.field else token
            return lib.lk_lock_acquire(lock, limit_ms, options, error)

        if wait(start, self._wait_ms) < 0:
            fail(error)

    async def _atake(self) -> None:
        self._options.cancel = ffi.NULL
        await _loop.current().call(lib.LK_OP_ACQUIRE, lambda _: self._give_back(),
                                   lock=self._lock.pointer(), wait_ms=self._wait_ms,
                                   acquire=self._options)

    def _release_options(self, keep: float) -> Any:
        options = ffi.new("lk_release_options *")
        options.struct_size = ffi.sizeof("lk_release_options")
        options.owner = self._owner
        if keep:
            options.keep_ms = milliseconds(keep, lib.LK_LEASE_MAX_MS)
        return options

    def _give_back(self) -> None:
        if not self._begun or self._process != _process.number:
            return
        lock = self._lock.pointer()
        if self._inside or self._count(lock) > self._before:
            options = self._release_options(0)
            options.no_wait = 1
            lib.lk_lock_release(lock, options, ffi.NULL)
        self._inside = self._begun = False

    def release(self, keep: float = 0) -> None:
        """Releases the hold; with `keep` seconds for which nobody gets the lock.

        Blocks until the server has answered, at most until the lease ends. Raises Lost if the lock
        was lost before, and NotOwner if it is not held.
        """
        options, error = self._release_options(keep), ffi.new("lk_error *")
        self._check_process()
        self._over(lib.lk_lock_release(self._lock.pointer(), options, error), error)

    def _over(self, answer: int, error: Any) -> None:
        if answer not in STILL_HELD:
            self._inside = self._begun = False
        if answer < 0:
            fail(error)

    async def arelease(self, keep: float = 0) -> None:
        self._check_process()
        try:
            await _loop.current().call(lib.LK_OP_RELEASE, lock=self._lock.pointer(),
                                       release=self._release_options(keep))
        except Error as error:
            if error.code not in STILL_HELD:
                self._inside = self._begun = False
            raise
        self._inside = self._begun = False

    def abandon(self) -> None:
        """Forgets the hold, and leaves the lock to whoever adopts its `field`, or to the end of its
        lease: take the field before. A memory write."""
        options, error = self._release_options(0), ffi.new("lk_error *")
        options.abandon = 1
        self._check_process()
        self._over(lib.lk_lock_release(self._lock.pointer(), options, error), error)

    @property
    def held(self) -> bool:
        """The lock is held, and its deadline has not passed. A memory read."""
        if self._process != _process.number:
            return False
        return bool(lib.lk_lock_is_held(self._lock.pointer(), self._owner, ffi.NULL))

    def remaining(self) -> float:
        """For how many seconds the hold is still certain. A memory read."""
        self._check_process()
        left = ffi.new("int64_t *")
        check(lib.lk_lock_remaining_ms, self._lock.pointer(), self._owner, left)
        return left[0] / 1000

    def check(self) -> None:
        """Raises Lost if the lock was lost: call it before each step that needs the lock."""
        self.remaining()

    @property
    def fence(self) -> int:
        """The fence token of a hold of a fenced lock."""
        self._check_process()
        token = ffi.new("uint64_t *")
        check(lib.lk_lock_fence, self._lock.pointer(), self._owner, token)
        return token[0]

    @property
    def field(self) -> str:
        """The owner field in Redis, by which another process can release, extend or
        adopt the lock."""
        self._check_process()
        field = ffi.new("char[]", lib.LK_FIELD_SIZE)
        check(lib.lk_lock_export, self._lock.pointer(), self._owner, field, lib.LK_FIELD_SIZE)
        return ffi.string(field).decode()

    def extend(self, seconds: float, *, add: bool = False) -> None:
        """The hold lasts at least so long from now, or, to add, from its end; never shorter."""
        self._check_process()
        check(lib.lk_lock_extend, self._lock.pointer(), lease_ms(seconds),
              self._extend_options(add))

    async def aextend(self, seconds: float, *, add: bool = False) -> None:
        self._check_process()
        await _loop.current().call(lib.LK_OP_EXTEND, lock=self._lock.pointer(),
                                   lease_ms=lease_ms(seconds), extend=self._extend_options(add))

    def _extend_options(self, add: bool) -> Any:
        return ffi.new("lk_extend_options *", {"struct_size": ffi.sizeof("lk_extend_options"),
                                               "owner": self._owner, "add": add})


class Lock(Handle):
    """A lock of any kind: client.lock(), client.fair_lock(), … make one."""

    def __init__(self, client: Client, make: Callable[[], Any], name: str | bytes) -> None:
        super().__init__(make)
        self.client = client
        self.name = name

    def hold(self, wait: float | None = None, *, lease: float | None = None,
             max_hold: float | None = None, margin: float | None = None,
             owner: str | None = None,
             on_lost: Callable[[Notice], object] | None = None, renew: bool = False) -> Hold:
        """A hold for `with` or `async with`, which acquires the lock.

        wait      seconds until Busy is raised; 0 tries once, None waits without a limit
        lease     seconds after which the lock ends; None: the client's, renewed while held
        renew     the lease is renewed while held, as the client's is
        max_hold  seconds after which renewals stop
        margin    seconds before the end at which there is a notice that it is at risk
        owner     a name of your own: holds of the same owner re-enter
        on_lost   called with the notice of a loss, on the thread that reads notices
        """
        return Hold(self, wait, lease, max_hold, margin, owner, on_lost, renew)

    def adopt(self, field: str, *, lease: float | None = None, max_hold: float | None = None,
              margin: float | None = None, owner: str | None = None,
              on_lost: Callable[[Notice], object] | None = None, renew: bool = False) -> Hold:
        """A hold for `with` or `async with`, which takes over what is held under that owner field.

        Another process has taken `hold.field` and called `hold.abandon()`; the lock is not free for
        a moment, and its field is another one from then on. Raises NotOwner if nothing is held
        under the field. Not for fair, read/write, multi and red locks.
        """
        return Hold(self, 0, lease, max_hold, margin, owner, on_lost, renew, field)

    def acquire(self, wait: float | None = None, **options: Any) -> Hold:
        """The same without a block: release the hold, or let go of it."""
        return self.hold(wait, **options).__enter__()

    async def aacquire(self, wait: float | None = None, **options: Any) -> Hold:
        return await self.hold(wait, **options)

    def try_acquire(self, **options: Any) -> Hold | None:
        """A hold, or None if another owner has the lock."""
        try:
            return self.acquire(0, **options)
        except Busy:
            return None

    def locked(self) -> bool:
        """Whether anyone holds it; asks the server."""
        out = ffi.new("int *")
        check(lib.lk_lock_is_locked, self.pointer(), out)
        return bool(out[0])

    async def alocked(self) -> bool:
        return await asyncio.to_thread(self.locked)

    def held_by(self, field: str) -> bool:
        """Whether it is held under that owner field; asks the server."""
        out = ffi.new("int *")
        check(lib.lk_lock_is_held_by, self.pointer(), as_bytes(field), out)
        return bool(out[0])

    async def aheld_by(self, field: str) -> bool:
        return await asyncio.to_thread(self.held_by, field)

    def server_ttl(self) -> float | None:
        """Seconds until its key ends, as the server sees it; None for a free lock, and infinity
        for a key without an end."""
        out = ffi.new("int64_t *")
        check(lib.lk_lock_server_ttl_ms, self.pointer(), out)
        return out[0] / 1000 if out[0] >= 0 else None if out[0] == -2 else float("inf")

    async def aserver_ttl(self) -> float | None:
        return await asyncio.to_thread(self.server_ttl)

    def force_release(self) -> bool:
        """Frees it, whoever holds it; False if it was free."""
        return bool(check(lib.lk_lock_force_release, self.pointer()))

    async def aforce_release(self) -> bool:
        return await asyncio.to_thread(self.force_release)

    def release_field(self, field: str) -> None:
        """Frees it if it is held under that owner field, else raises NotOwner."""
        named = ffi.new("char[]", as_bytes(field))
        options = ffi.new("lk_release_options *", {
            "struct_size": ffi.sizeof("lk_release_options"), "field": named})
        check(lib.lk_lock_release, self.pointer(), options)

    async def arelease_field(self, field: str) -> None:
        await asyncio.to_thread(self.release_field, field)

    def extend_field(self, field: str, seconds: float) -> None:
        """It lasts at least so long from now, if it is held under that owner field."""
        named = ffi.new("char[]", as_bytes(field))
        options = ffi.new("lk_extend_options *", {
            "struct_size": ffi.sizeof("lk_extend_options"), "field": named})
        check(lib.lk_lock_extend, self.pointer(), lease_ms(seconds), options)

    async def aextend_field(self, field: str, seconds: float) -> None:
        await asyncio.to_thread(self.extend_field, field, seconds)

    def __repr__(self) -> str:
        return f"<lockkeeper.Lock {self.name!r}>"
