"""Semaphores, permit semaphores, latches and barriers."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _loop, _process
from ._acquire import HoldBase
from ._call import Handle, as_bytes, check, lease_ms, made, wait_checked, wait_ms
from ._lockkeeper import ffi, lib

if TYPE_CHECKING:
    from ._client import Client
    from ._notices import Notice


class _Counter(Handle):
    """A handle; `_handle` is the member of lk_request that has it."""

    _handle: str
    _free: Any
    _new: Any
    _type: str

    def __init__(self, client: Client, name: bytes, options: Any) -> None:
        self.client, self.name = client, name
        super().__init__(lambda: made(self._free, self._type, self._new, client.pointer(), name,
                                      len(name), options))

    def _call(self, call: Callable[..., int], *arguments: Any) -> int:
        return check(call, self.pointer(), *arguments)

    def _ask(self, call: Callable[..., int], *arguments: Any) -> int:
        out = ffi.new("int64_t *")
        check(call, self.pointer(), *arguments, out)
        return out[0]

    async def _acall(self, operation: int,
                     give_back: Callable[[_loop.Completion], None] | None = None,
                     **members: Any) -> int:
        members[self._handle] = self.pointer()
        completion = await _loop.current().call(operation, give_back, **members)
        return completion.answer

    def __repr__(self) -> str:
        return f"<lockkeeper.{type(self).__name__} {self.name!r}>"


class SemaphoreHold(HoldBase):
    """Permits of a semaphore for a block; nobody owns them, and they have no lease."""

    def __init__(self, semaphore: Semaphore, permits: int, wait: float | None) -> None:
        super().__init__(semaphore.client, wait, None)
        self._semaphore, self.permits = semaphore, permits

    def _take(self) -> None:
        pointer = self._semaphore.pointer()
        wait_checked(lambda left_ms, token, error: lib.lk_semaphore_acquire(
            pointer, self.permits, left_ms, token, error), self._wait_ms)
        self._inside = True

    async def _atake(self) -> None:
        await self._semaphore._acall(
            lib.LK_OP_ACQUIRE, lambda _: self._return(), number=self.permits,
            wait_ms=self._wait_ms)
        self._inside = True

    def _return(self) -> None:
        lib.lk_semaphore_release(self._semaphore.pointer(), self.permits, ffi.NULL, ffi.NULL)

    def _give_back(self) -> None:
        if self._inside and self._process == _process.number:
            self._return()
        self._inside = self._begun = False

    def release(self) -> None:
        self._check_process()
        self._inside = self._begun = False
        self._semaphore.release(self.permits)

    async def arelease(self) -> None:
        self._check_process()
        self._inside = self._begun = False
        await self._semaphore.arelease(self.permits)


class Semaphore(_Counter):
    """A number of permits that nobody owns."""

    _handle = "semaphore"
    _free, _new, _type = lib.lk_semaphore_free, lib.lk_semaphore_new, "lk_semaphore **"

    def hold(self, permits: int = 1, wait: float | None = None) -> SemaphoreHold:
        """`with semaphore.hold(2, wait=5):`, all or none. Raises Busy."""
        return SemaphoreHold(self, permits, wait)

    def acquire(self, permits: int = 1, wait: float | None = None) -> None:
        pointer = self.pointer()
        wait_checked(lambda left_ms, token, error: lib.lk_semaphore_acquire(
            pointer, permits, left_ms, token, error), wait_ms(wait))

    async def aacquire(self, permits: int = 1, wait: float | None = None) -> None:
        await self._acall(
            lib.LK_OP_ACQUIRE,
            lambda _: lib.lk_semaphore_release(self.pointer(), permits, ffi.NULL, ffi.NULL),
            number=permits, wait_ms=wait_ms(wait))

    def release(self, permits: int = 1) -> None:
        self._call(lib.lk_semaphore_release, permits, ffi.NULL)

    async def arelease(self, permits: int = 1) -> None:
        await self._acall(lib.LK_OP_RELEASE, number=permits)

    def try_set(self, permits: int, ttl: float = 0) -> bool:
        """Sets the number if there is none."""
        return bool(self._call(lib.lk_semaphore_try_set, permits, wait_ms(ttl)))

    async def atry_set(self, permits: int, ttl: float = 0) -> bool:
        return bool(await self._acall(lib.LK_OP_TRY_SET, number=permits, ttl_ms=wait_ms(ttl)))

    def add(self, change: int) -> None:
        self._call(lib.lk_semaphore_add, change)

    async def aadd(self, change: int) -> None:
        await self._acall(lib.LK_OP_ADD, number=change)

    def drain(self) -> int:
        """Acquires all free permits; how many."""
        return self._ask(lib.lk_semaphore_drain)

    async def adrain(self) -> int:
        return await self._acall(lib.LK_OP_DRAIN)

    def available(self) -> int:
        return self._ask(lib.lk_semaphore_available)

    async def aavailable(self) -> int:
        return await self._acall(lib.LK_OP_COUNT)

    def delete(self) -> bool:
        return bool(self._call(lib.lk_semaphore_delete))

    async def adelete(self) -> bool:
        return bool(await self._acall(lib.LK_OP_DELETE))


class PermitHold(HoldBase):
    """One permit of a permit semaphore; `id` is what Redis knows it by."""

    def __init__(self, semaphore: PermitSemaphore, wait: float | None, lease: float | None,
                 on_lost: Callable[[Notice], object] | None) -> None:
        super().__init__(semaphore.client, wait, on_lost)
        self._semaphore = semaphore
        self._permit = ffi.new("lk_permit *")
        self._options = ffi.new("lk_acquire_options *")
        self._options.struct_size = ffi.sizeof("lk_acquire_options")
        self._options.tag = self._number
        self._options.lease_ms = lease_ms(lease)

    @property
    def id(self) -> str:
        return ffi.string(self._permit.id).decode()

    def _take(self) -> None:
        pointer, options = self._semaphore.pointer(), self._options

        def start(left_ms: int, token: Any, error: Any) -> int:
            options.cancel = token
            return lib.lk_permit_semaphore_acquire(pointer, 1, self._permit, left_ms, options,
                                                   error)

        wait_checked(start, self._wait_ms)

    async def _atake(self) -> None:
        self._options.cancel = ffi.NULL
        completion = await _loop.current().call(
            lib.LK_OP_ACQUIRE, self._returned, permit_semaphore=self._semaphore.pointer(),
            number=1, wait_ms=self._wait_ms, acquire=self._options)
        self._permit.id = completion.field.encode()

    def _returned(self, completion: _loop.Completion) -> None:
        self._permit.id = completion.field.encode()
        self._give_back()

    def _give_back(self) -> None:
        if self._permit.id[0] != b"\0" and self._process == _process.number:
            lib.lk_permit_semaphore_release(self._semaphore.pointer(), self._permit, 1, ffi.NULL)
        self._over()

    def _over(self) -> None:
        self._permit.id = b""
        self._inside = self._begun = False

    def release(self) -> None:
        self._check_process()
        try:
            check(lib.lk_permit_semaphore_release, self._semaphore.pointer(), self._permit, 1)
        finally:
            self._over()

    async def arelease(self) -> None:
        self._check_process()
        try:
            await self._semaphore._acall(lib.LK_OP_RELEASE, permits=self._permit, number=1)
        finally:
            self._over()

    def remaining(self) -> float:
        """For how many seconds the permit is still certain. A memory read."""
        self._check_process()
        return self._semaphore._ask(lib.lk_permit_semaphore_remaining_ms, self._permit.id) / 1000

    def check(self) -> None:
        """Raises Lost if the permit was lost."""
        self.remaining()


class PermitSemaphore(_Counter):
    """Permits with ids and leases."""

    _handle = "permit_semaphore"
    _free, _new, _type = (lib.lk_permit_semaphore_free, lib.lk_permit_semaphore_new,
                          "lk_permit_semaphore **")

    def hold(self, wait: float | None = None, *, lease: float | None = None,
             on_lost: Callable[[Notice], object] | None = None) -> PermitHold:
        """`with semaphore.hold(wait=5) as permit:`; see Lock.hold()."""
        return PermitHold(self, wait, lease, on_lost)

    def release(self, ids: Sequence[str]) -> None:
        """Releases permits by their ids, ours or another's: all or none."""
        permits = ffi.new("lk_permit[]", len(ids))
        for permit, number in zip(permits, ids):
            permit.id = as_bytes(number)
        self._call(lib.lk_permit_semaphore_release, permits, len(ids))

    def try_set(self, permits: int) -> bool:
        """Sets the number if there is none."""
        return bool(self._call(lib.lk_permit_semaphore_try_set, permits))

    async def atry_set(self, permits: int) -> bool:
        return bool(await self._acall(lib.LK_OP_TRY_SET, number=permits))

    def set(self, permits: int) -> None:
        self._call(lib.lk_permit_semaphore_set, permits)

    async def aset(self, permits: int) -> None:
        await self._acall(lib.LK_OP_SET, number=permits)

    def add(self, change: int) -> None:
        self._call(lib.lk_permit_semaphore_add, change)

    async def aadd(self, change: int) -> None:
        await self._acall(lib.LK_OP_ADD, number=change)

    def count(self) -> tuple[int, int]:
        """How many are free, and how many in use."""
        free, used = ffi.new("int64_t *"), ffi.new("int64_t *")
        self._call(lib.lk_permit_semaphore_count, free, used)
        return free[0], used[0]

    def update_lease(self, permit_id: str, seconds: float) -> None:
        """The permit ends so long from now, sooner or later than before."""
        self._call(lib.lk_permit_semaphore_update_lease, as_bytes(permit_id), lease_ms(seconds))

    async def aupdate_lease(self, permit_id: str, seconds: float) -> None:
        permit = ffi.new("lk_permit *", {"id": as_bytes(permit_id)})
        await self._acall(lib.LK_OP_EXTEND, permits=permit, number=1, lease_ms=lease_ms(seconds))

    def delete(self) -> bool:
        return bool(self._call(lib.lk_permit_semaphore_delete))

    async def adelete(self) -> bool:
        return bool(await self._acall(lib.LK_OP_DELETE))


class Latch(_Counter):
    """Others wait until its count is zero."""

    _handle = "latch"
    _free, _new, _type = lib.lk_latch_free, lib.lk_latch_new, "lk_latch **"

    def wait(self, wait: float | None = None) -> None:
        """Until it is open; raises Busy when `wait` seconds have passed."""
        pointer = self.pointer()
        wait_checked(lambda left_ms, token, error: lib.lk_latch_await(
            pointer, left_ms, token, error), wait_ms(wait))

    async def await_open(self, wait: float | None = None) -> None:
        await self._acall(lib.LK_OP_AWAIT, wait_ms=wait_ms(wait))

    def try_set(self, count: int) -> bool:
        """Closes an open latch."""
        return bool(self._call(lib.lk_latch_try_set, count))

    async def atry_set(self, count: int) -> bool:
        return bool(await self._acall(lib.LK_OP_TRY_SET, number=count))

    def count_down(self, by: int = 1) -> int:
        """The count that is left."""
        return self._ask(lib.lk_latch_count_down, by)

    async def acount_down(self, by: int = 1) -> int:
        return await self._acall(lib.LK_OP_COUNT_DOWN, number=by)

    def count(self) -> int:
        return self._ask(lib.lk_latch_count)

    async def acount(self) -> int:
        return await self._acall(lib.LK_OP_COUNT)

    def delete(self) -> bool:
        """Opens it, whatever its count."""
        return bool(self._call(lib.lk_latch_delete))

    async def adelete(self) -> bool:
        return bool(await self._acall(lib.LK_OP_DELETE))


class Barrier(Handle):
    """One party of a barrier, with one call at a time: each thread or task makes its own."""

    def __init__(self, client: Client, name: bytes, parties: int, options: Any) -> None:
        self.client, self.name, self.parties = client, name, parties
        super().__init__(lambda: made(lib.lk_barrier_free, "lk_barrier **", lib.lk_barrier_new,
                                      client.pointer(), name, len(name), parties, options))

    def _meet(self, call: Callable[..., int], wait: float | None, *out: Any) -> None:
        pointer = self.pointer()
        wait_checked(lambda left_ms, token, error: call(pointer, left_ms, token, *out, error),
                     wait_ms(wait))

    async def _ameet(self, operation: int, wait: float | None) -> int:
        completion = await _loop.current().call(operation, None, barrier=self.pointer(),
                                                wait_ms=wait_ms(wait))
        return completion.answer

    def wait(self, wait: float | None = None) -> int:
        """Until all have come; the generation. Raises Busy when `wait` seconds have passed."""
        generation = ffi.new("uint64_t *")
        self._meet(lib.lk_barrier_await, wait, generation)
        return generation[0]

    async def await_all(self, wait: float | None = None) -> int:
        return await self._ameet(lib.LK_OP_AWAIT, wait)

    def enter(self, wait: float | None = None) -> int:
        """Until all enter together; it is inside then, until it leaves."""
        generation = ffi.new("uint64_t *")
        self._meet(lib.lk_barrier_enter, wait, generation)
        return generation[0]

    async def aenter(self, wait: float | None = None) -> int:
        return await self._ameet(lib.LK_OP_ENTER, wait)

    def leave(self, wait: float | None = None) -> None:
        """Until all that entered with it have left."""
        self._meet(lib.lk_barrier_leave, wait)

    async def aleave(self, wait: float | None = None) -> None:
        await self._ameet(lib.LK_OP_LEAVE, wait)

    def __repr__(self) -> str:
        return f"<lockkeeper.Barrier {self.name!r} of {self.parties}>"
