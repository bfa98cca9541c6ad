"""A drop-in for redis.lock.Lock, on the same keys: both exclude each other.

    from lockkeeper.compat.redis import Lock

    with client.lock("backup", timeout=60, lock_class=Lock):
        …

Waiters are woken by a release of this class instead of asking ten times a second, and a grant whose
answer was lost is given back. docs: python/README.md, *Drop-in for redis-py*.
"""
from __future__ import annotations

from typing import Any, Literal

import redis.lock

from ..._acquire import Hold
from ..._acquire import Lock as OwnLock
from ..._errors import Busy, Unreachable
from ._clients import as_theirs, client_of, lease_of, poll_of, refuse_token, wait_of

__all__ = ["Lock"]


class Lock(redis.lock.Lock):
    """As redis.lock.Lock; without `timeout` the lock is renewed until it is released."""

    def register_scripts(self) -> None:
        self._lock: OwnLock = client_of(self.redis).plain_lock(self.name,
                                                               poll=poll_of(self.sleep))

    def acquire(self, sleep: float | None = None, blocking: bool | None = None,
                blocking_timeout: float | None = None, token: Any = None) -> bool:
        refuse_token(token)
        wait = wait_of(self.sleep if sleep is None else sleep,
                       self.blocking if blocking is None else blocking,
                       self.blocking_timeout if blocking_timeout is None else blocking_timeout)
        try:
            with as_theirs("acquire", self.name):
                hold = self._acquired(wait)
        except Busy:
            return False
        _keep(self.local, hold)
        return True

    def _acquired(self, wait: float | None) -> Hold:
        lease = lease_of(self.timeout)
        try:
            return self._lock.acquire(wait, lease=lease)
        except Unreachable:
            if not wait:
                raise
        # A short limit is none for the server's answer there.
        return self._lock.acquire(0, lease=lease)

    def locked(self) -> bool:
        with as_theirs("ask for", self.name):
            return self._lock.locked()

    def owned(self) -> bool:
        token = self.local.token
        with as_theirs("ask for", self.name):
            return token is not None and self._lock.held_by(token)

    def do_release(self, expected_token: Any) -> None:
        hold = _hold(self.local, expected_token)
        with as_theirs("release", self.name):
            if hold is not None:
                hold.release()
            else:
                self._lock.release_field(expected_token)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        with as_theirs("extend", self.name):
            left = 0 if replace_ttl else self._lock.server_ttl() or 0
            self._extend(left + additional_time)
        return True

    def do_reacquire(self) -> Literal[True]:
        with as_theirs("reacquire", self.name):
            self._extend(self.timeout)
        return True

    def _extend(self, seconds: float) -> None:
        hold, lease = _hold(self.local, self.local.token), lease_of(seconds) or 0
        if hold is not None:
            hold.extend(lease)
        else:
            self._lock.extend_field(self.local.token, lease)


def _keep(local: Any, hold: Hold) -> None:
    """The hold of that thread. As in redis-py, it stays when its lock is collected."""
    hold._keep()
    local.token = local.of_hold = hold.field.encode()
    local.hold = hold


def _hold(local: Any, token: Any) -> Hold | None:
    """That of the token, unless the program has set another one."""
    return local.hold if token is not None and token == getattr(local, "of_hold", None) else None
