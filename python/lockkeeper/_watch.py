"""Watching locks from outside: their present state, and each change, told when it happens."""
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _loop
from ._call import Handle, as_bytes, check, made, wait_checked, wait_ms
from ._errors import Closed
from ._lockkeeper import ffi, lib

if TYPE_CHECKING:
    from ._client import Client

Kind = Literal["state", "acquired", "renewed", "released", "broken", "expired", "lost", "unknown",
               "count", "gap", "other"]

_KINDS: dict[int, Kind] = {
    lib.LK_CHANGE_STATE: "state", lib.LK_CHANGE_ACQUIRED: "acquired",
    lib.LK_CHANGE_RENEWED: "renewed", lib.LK_CHANGE_RELEASED: "released",
    lib.LK_CHANGE_BROKEN: "broken", lib.LK_CHANGE_EXPIRED: "expired",
    lib.LK_CHANGE_LOST: "lost", lib.LK_CHANGE_UNKNOWN: "unknown",
    lib.LK_CHANGE_COUNT: "count", lib.LK_CHANGE_GAP: "gap"}


@dataclass(frozen=True)
class Who:
    """What an owner's client tells of itself; `since` in seconds since 1970."""

    client_id: str
    host: str
    pid: int
    since: float
    user: str
    program: str
    note: str


@dataclass(frozen=True)
class Change:
    """What has become of a lock.

    kind      "state": how it is, at the beginning (`initial`) and behind each gap; "acquired",
              "renewed"; how a hold ended: "released", "broken", "expired", "lost" with the
              server's data, or "unknown"; "count" of a semaphore or a latch; "gap": what told of
              changes broke, and `reason` says how
    told      the server tells of changes; False: it is asked now and then
    owner     the field in Redis of who has it, `client` who that is; None: nobody, or unknown
    was       the same of who had it before, `was_client`
    holders   how many have it now
    ttl       the rest of the owner's lease in seconds; None: it has no end, or no owner
    fence     the newest fence token, or 0
    count     of a semaphore or a latch, else None
    at        when it was seen, by the server's clock, in seconds since 1970; 0: unknown
    """

    kind: Kind
    name: bytes
    type: str
    initial: bool
    told: bool
    owner: str | None
    client: Who | None
    was: str | None
    was_client: Who | None
    holders: int
    ttl: float | None
    fence: int
    count: int | None
    at: float
    reason: str | None


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode(errors="replace")


def _field(pointer: Any, size: int) -> str | None:
    return None if pointer == ffi.NULL else ffi.buffer(pointer, size)[:].decode(errors="replace")


def _who(info: Any) -> Who | None:
    if info == ffi.NULL:
        return None
    return Who(_text(info.client_id), _text(info.host), info.pid, info.since_ms / 1e3,
               _text(info.user), _text(info.program), _text(info.note))


def _read(change: Any) -> Change:
    return Change(
        _KINDS.get(change.kind, "other"), ffi.buffer(change.name, change.name_size)[:],
        _text(change.type), bool(change.initial), bool(change.told),
        _field(change.owner, change.owner_size), _who(change.client),
        _field(change.was, change.was_size), _who(change.was_client), change.holder_count,
        change.ttl_ms / 1e3 if change.owner != ffi.NULL and change.ttl_ms >= 0 else None,
        change.fence, change.count if change.is_counter else None, change.at_ms / 1e3,
        None if change.reason == ffi.NULL else _text(change.reason))


class Watch(Handle):
    """`for change in client.watch("a", "b")`, or `async for`, until the client is closed.

    One thread or task at a time. A slow program is told of fewer changes, and none is stored.
    """

    def __init__(self, client: Client, names: tuple[str | bytes, ...], options: Any) -> None:
        self.client, self.names = client, dict.fromkeys(map(as_bytes, names))

        def make() -> Any:
            pointer = made(lib.lk_watch_free, "lk_watch **", lib.lk_watch_new, client.pointer(),
                           options)
            for name in self.names:
                check(lib.lk_watch_add, pointer, name, len(name))
            return pointer

        super().__init__(make)

    def add(self, name: str | bytes) -> None:
        """Watches one more name."""
        encoded = as_bytes(name)
        check(lib.lk_watch_add, self.pointer(), encoded, len(encoded))
        self.names[encoded] = None

    def remove(self, name: str | bytes) -> None:
        """Forgets a name, and its changes that were not taken."""
        encoded = as_bytes(name)
        check(lib.lk_watch_remove, self.pointer(), encoded, len(encoded))
        self.names.pop(encoded, None)

    def next(self, wait: float | None = None) -> Change | None:
        """The next change; None when `wait` seconds have passed."""
        pointer = self.pointer()
        change = ffi.new("lk_change *", {"struct_size": ffi.sizeof("lk_change")})
        came = wait_checked(
            lambda left_ms, token, error: lib.lk_watch_next(pointer, left_ms, token, change, error),
            wait_ms(wait))
        return _read(change) if came else None

    async def anext(self) -> Change:
        """The next change."""
        while (change := self.next(0)) is None:
            await _loop.current().call(lib.LK_OP_WATCH, None, watch=self.pointer())
        return change

    def __iter__(self) -> Iterator[Change]:
        try:
            while True:
                change = self.next()
                if change is not None:
                    yield change
        except Closed:
            return

    async def __aiter__(self) -> AsyncIterator[Change]:
        try:
            while True:
                yield await self.anext()
        except Closed:
            return

    def __repr__(self) -> str:
        return f"<lockkeeper.Watch of {len(self.names)} names>"
