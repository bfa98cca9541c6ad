"""A drop-in for redis.asyncio.lock.Lock: see lockkeeper.compat.redis."""
from __future__ import annotations

from typing import Any, Literal

import redis.asyncio.lock

from ..._acquire import Hold
from ..._acquire import Lock as OwnLock
from ..._errors import Busy, Unreachable
from . import _hold, _keep
from ._clients import as_theirs, client_of, lease_of, poll_of, refuse_token, wait_of

__all__ = ["Lock"]


class Lock(redis.asyncio.lock.Lock):
    """As redis.asyncio.lock.Lock; without `timeout` the lock is renewed until it is released."""

    def register_scripts(self) -> None:
        self._lock: OwnLock = client_of(self.redis).plain_lock(self.name,
                                                               poll=poll_of(self.sleep))

    async def acquire(self, blocking: bool | None = None, blocking_timeout: float | None = None,
                      token: Any = None) -> bool:
        refuse_token(token)
        wait = wait_of(self.sleep, self.blocking if blocking is None else blocking,
                       self.blocking_timeout if blocking_timeout is None else blocking_timeout)
        try:
            with as_theirs("acquire", self.name):
                hold = await self._acquired(wait)
        except Busy:
            return False
        _keep(self.local, hold)
        return True

    async def _acquired(self, wait: float | None) -> Hold:
        lease = lease_of(self.timeout)
        try:
            return await self._lock.hold(wait, lease=lease)
        except Unreachable:
            if not wait:
                raise
        # A short limit is none for the server's answer there.
        return await self._lock.hold(0, lease=lease)

    async def locked(self) -> bool:
        with as_theirs("ask for", self.name):
            return await self._lock.alocked()

    async def owned(self) -> bool:
        token = self.local.token
        with as_theirs("ask for", self.name):
            return token is not None and await self._lock.aheld_by(token)

    async def do_release(self, expected_token: Any) -> None:
        hold = _hold(self.local, expected_token)
        with as_theirs("release", self.name):
            if hold is not None:
                await hold.arelease()
            else:
                await self._lock.arelease_field(expected_token)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        with as_theirs("extend", self.name):
            left = 0 if replace_ttl else await self._lock.aserver_ttl() or 0
            await self._extend(left + additional_time)
        return True

    async def do_reacquire(self) -> Literal[True]:
        with as_theirs("reacquire", self.name):
            await self._extend(self.timeout)
        return True

    async def _extend(self, seconds: float) -> None:
        hold, lease = _hold(self.local, self.local.token), lease_of(seconds) or 0
        if hold is not None:
            await hold.aextend(lease)
        else:
            await self._lock.aextend_field(self.local.token, lease)
