"""Distributed locks on Redis and Valkey that say the truth about themselves.

    from lockkeeper import Client

    client = Client("redis://localhost")
    with client.lock("backup").hold(wait=10) as hold:
        for step in steps:
            hold.check()
            step()

A lease is not a mutex: whoever is paused past the deadline has lost the lock, and nothing here can
stop the next write. `hold.check()` and `hold.remaining()` are memory reads; fence tokens
(`client.fenced_lock()`) let the thing that is protected refuse a late writer.
"""
from ._acquire import Hold, Lock, thread_owner
from ._client import Client, Held, multi_lock, red_lock
from ._counters import Barrier, Latch, PermitHold, PermitSemaphore, Semaphore, SemaphoreHold
from ._errors import *  # noqa: F403
from ._errors import __all__ as _error_names
from ._lockkeeper import ffi as _ffi
from ._lockkeeper import lib as _lib
from ._notices import Notice
from ._watch import Change, Watch, Who

__version__ = _ffi.string(_lib.lk_version()).decode()

__all__ = ["Barrier", "Change", "Client", "Held", "Hold", "Latch", "Lock", "Notice", "PermitHold",
           "PermitSemaphore", "Semaphore", "SemaphoreHold", "Watch", "Who", "multi_lock",
           "red_lock", "thread_owner", *_error_names]
