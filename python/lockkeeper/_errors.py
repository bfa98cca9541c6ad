"""One exception for each code of the library."""
from __future__ import annotations

from ._lockkeeper import ffi, lib


class Error(Exception):
    """A call has failed. Every code but those with `maybe_held` says that nothing was done."""

    code = 0

    def __init__(self, message: str = "", code: int | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def name(self) -> str:
        """The name of the code in C: "LK_EBUSY"."""
        return ffi.string(lib.lk_error_name(self.code)).decode()

    @property
    def retryable(self) -> bool:
        """The same call may succeed later without any change."""
        return bool(lib.lk_error_is_retryable(self.code))

    @property
    def maybe_held(self) -> bool:
        """The server may hold the lock for us although the call has failed."""
        return bool(lib.lk_error_maybe_held(self.code))


class Invalid(Error, ValueError):
    """An argument, an option or a URL is wrong; the message names it."""


class NoMemory(Error, MemoryError):
    """Memory ran out."""


class SystemRefused(Error, OSError):
    """The system refused a descriptor or a thread."""


class Busy(Error, TimeoutError):
    """Another owner holds the lock."""


class Cancelled(Error):
    """The call was cancelled."""


class Lost(Error):
    """The lock was lost: stop the work that needs it."""


class NotOwner(Error):
    """The lock is not held by this owner."""


class MayBeHeld(Error):
    """The outcome is unknown: the server may hold the lock until the lease ends."""


class NotDurable(MayBeHeld):
    """Done at the master, but too few replicas or disks have it."""


class Unreachable(Error, ConnectionError):
    """No connection to the server, or no answer in time."""


class Unavailable(Error, ConnectionError):
    """The server loads its data, is read-only, or is otherwise not available for a while."""


class Denied(Error, PermissionError):
    """The server's user lacks the right."""


class Unauthenticated(Denied):
    """The server refused the password."""


class TLSRefused(Error, ConnectionError):
    """TLS failed: a certificate, or what the peers can agree on."""


class ProtocolViolated(Error, ConnectionError):
    """The peer does not speak the Redis protocol."""


class Refused(Error):
    """The server refused the command."""


class WrongKind(Error, TypeError):
    """The key holds something other than this kind of lock."""


class Closed(Error):
    """The client is closed."""


class Draining(Error):
    """The client is being drained, and takes nothing new."""


class Forked(Error):
    """The hold, or the client, belongs to the parent process."""


class StillHeld(Error):
    """The client still holds locks."""


class LimitReached(Error):
    """A configured limit is reached."""


class UpgradeRefused(Error):
    """This owner holds the read lock; it has to release it first."""


class NoQuorum(Error, ConnectionError):
    """Too few nodes answered, or may vote."""


class StaleToken(Error):
    """A newer fence token has been seen."""


class Internal(Error):
    """A defect of the library; please report it."""


_CLASSES: dict[int, type[Error]] = {
    lib.LK_EINVAL: Invalid,
    lib.LK_ENOMEM: NoMemory,
    lib.LK_ESYSTEM: SystemRefused,
    lib.LK_EBUSY: Busy,
    lib.LK_ETIMEDOUT: Busy,
    lib.LK_ECANCELLED: Cancelled,
    lib.LK_ELOST: Lost,
    lib.LK_ENOTOWNER: NotOwner,
    lib.LK_EMAYBEHELD: MayBeHeld,
    lib.LK_EUNREACHABLE: Unreachable,
    lib.LK_EAUTH: Unauthenticated,
    lib.LK_EDENIED: Denied,
    lib.LK_ETLS: TLSRefused,
    lib.LK_EPROTOCOL: ProtocolViolated,
    lib.LK_EUNAVAILABLE: Unavailable,
    lib.LK_EREFUSED: Refused,
    lib.LK_EWRONGTYPE: WrongKind,
    lib.LK_ECLOSED: Closed,
    lib.LK_EFORKED: Forked,
    lib.LK_EHELD: StillHeld,
    lib.LK_ELIMIT: LimitReached,
    lib.LK_EINTERNAL: Internal,
    lib.LK_EUPGRADE: UpgradeRefused,
    lib.LK_ENOQUORUM: NoQuorum,
    lib.LK_ESTALE: StaleToken,
    lib.LK_ENOTDURABLE: NotDurable,
    lib.LK_EDRAINING: Draining,
}
for _code, _class in reversed(_CLASSES.items()):
    _class.code = _code  # of two codes, the first


__all__ = ["Error", *sorted({known.__name__ for known in _CLASSES.values()})]


def error_of(code: int, message: str) -> Error:
    """The exception for a code; `Error` itself for one that this package does not know."""
    made = _CLASSES.get(code, Error)(message)
    made.code = code
    return made
