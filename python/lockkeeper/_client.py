"""The client: connections to a deployment, and all that is made from it."""
from __future__ import annotations

import atexit
import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from . import _process
from ._acquire import Lock
from ._call import Handle, as_bytes, check, fail, made, milliseconds, wait, wait_ms
from ._counters import Barrier, Latch, PermitSemaphore, Semaphore
from ._lockkeeper import ffi, lib
from ._notices import Notices, NoticeStream
from ._watch import Watch

Credentials = Callable[[str], tuple[str, str]]

_HOW = {"release": lib.LK_CLOSE_RELEASE, "abandon": lib.LK_CLOSE_ABANDON,
        "idle": lib.LK_CLOSE_IF_IDLE}
_LEVELS = {lib.LK_LOG_ERROR: logging.ERROR, lib.LK_LOG_WARNING: logging.WARNING,
           lib.LK_LOG_INFO: logging.INFO, lib.LK_LOG_DEBUG: logging.DEBUG}

_open: weakref.WeakSet[Client] = weakref.WeakSet()


@ffi.def_extern()
def lk_python_log(context: Any, level: int, line: Any) -> None:
    ffi.from_handle(context).log.log(_LEVELS.get(level, logging.DEBUG), "%s",
                                     ffi.string(line).decode(errors="replace"))


@ffi.def_extern(error=-1)
def lk_python_credentials(context: Any, place: Any, out: Any) -> int:
    username, password = ffi.from_handle(context).credentials(ffi.string(place).decode())
    for member, text in ((out.username, username), (out.password, password)):
        encoded = (text or "").encode()
        if len(encoded) >= lib.LK_CREDENTIAL_SIZE:
            return -1
        ffi.memmove(member, encoded, len(encoded))
    return 0


def _text(value: object) -> bytes:
    if isinstance(value, bool):
        return b"1" if value else b"0"
    return str(value).encode()


class _Configuration:
    """What a client is made from, kept for a forked child."""

    def __init__(self, url: str | None, options: dict[str, object],
                 credentials: Credentials | None, log: logging.Logger | None,
                 environment: bool) -> None:
        self.url, self.options, self.credentials, self.log = url, options, credentials, log
        self.environment = environment

    def client(self) -> Any:
        config = made(lib.lk_config_free, "lk_config **", lib.lk_config_new)
        if self.environment:
            check(lib.lk_config_load_environment, config)
        if self.url is not None:
            check(lib.lk_config_set, config, b"url", self.url.encode())
        for name, value in self.options.items():
            check(lib.lk_config_set, config, name.encode(), _text(value))
        context = ffi.new_handle(self)
        if self.log is not None:
            level = lib.LK_LOG_DEBUG if self.log.isEnabledFor(logging.DEBUG) else lib.LK_LOG_INFO
            lib.lk_config_set_log(config, level, lib.lk_python_log, context)
        if self.credentials is not None:
            lib.lk_config_set_credentials(config, lib.lk_python_credentials, context)

        def free(pointer: Any, context: Any = context) -> None:
            lib.lk_client_free(pointer)  # `context` lives until then

        return made(free, "lk_client **", lib.lk_client_new, config)


@dataclass(frozen=True)
class Held:
    """Something that a client holds; `since` and `deadline` by CLOCK_BOOTTIME, in seconds."""

    kind: str
    name: str
    owner: str
    field: str
    since: float
    deadline: float
    lease: float
    renewed: bool


def _held(held: Any) -> Held:
    def text(member: Any) -> str:
        return ffi.string(member).decode(errors="replace")

    return Held(text(held.kind), text(held.name), text(held.owner), text(held.field),
                held.since_ns / 1e9, held.deadline_ns / 1e9, held.lease_ms / 1e3,
                bool(held.is_renewed))


class Client(Handle):
    """Connections to a server, a cluster, or a master with replicas or sentinels.

    url          redis://…, rediss://…, unix://…, redis-sentinel://…, redis-cluster://…,
                 redis-replicas://…; None: from the environment (LOCKKEEPER_URL)
    credentials  called with a server's address, returns user name and password; for tokens that
                 expire. It runs on a thread of the library, and must not use this package
    log          a logger for lost connections, lost locks and the like
    options      the library's options by name: watchdog_ms=10000

    Any number of threads and event loops may use one client. A forked child makes a client of its
    own when it first uses this one. A program that ends releases what it holds.
    """

    def __init__(self, url: str | None = None, *, credentials: Credentials | None = None,
                 log: logging.Logger | None = None, _environment: bool = True,
                 _at_exit: Literal["release", "abandon"] = "release", **options: object) -> None:
        configuration = _Configuration(url, options, credentials, log, _environment)
        super().__init__(configuration.client)
        self._at_exit = _at_exit
        self._noticed: tuple[int, Notices] | None = None
        _open.add(self)

    # ---- what it is ----

    @property
    def id(self) -> str:
        """The UUID with which every owner field of this client begins."""
        return ffi.string(lib.lk_client_id(self.pointer())).decode()

    @property
    def node(self) -> str:
        """The server, as a URL without secrets."""
        return ffi.string(lib.lk_client_node(self.pointer())).decode()

    def ping(self) -> None:
        """Asks the server for its time; connects first if necessary."""
        check(lib.lk_client_ping, self.pointer())

    # ---- locks ----

    def _lock(self, call: Callable[..., int], name: str | bytes, *rest: Any) -> Lock:
        encoded = as_bytes(name)
        return Lock(self, lambda: made(lib.lk_lock_free, "lk_lock **", call, self.pointer(),
                                       encoded, len(encoded), *rest), name)

    def lock(self, name: str | bytes) -> Lock:
        """A reentrant lock: one owner at a time."""
        return self._lock(lib.lk_lock_new, name)

    def fair_lock(self, name: str | bytes) -> Lock:
        """First come, first served, among all processes."""
        return self._lock(lib.lk_fair_lock_new, name)

    def fenced_lock(self, name: str | bytes, *, share_java: bool = False) -> Lock:
        """Each grant has a token, `hold.fence`, greater than all before it."""
        return self._lock(lib.lk_fenced_lock_new, name, _options(
            "lk_fenced_lock_options", share_java=share_java))

    def spin_lock(self, name: str | bytes, *, min: float = 0, max: float = 0,
                  factor: int = 0) -> Lock:
        """Without messages: a waiter asks again after pauses of `min` to `max` seconds."""
        return self._lock(lib.lk_spin_lock_new, name, _options(
            "lk_spin_lock_options", spin_min_ms=_ms(min), spin_max_ms=_ms(max),
            spin_factor=factor))

    def plain_lock(self, name: str | bytes, *, poll: float = 0,
                   notify: str | None = None) -> Lock:
        """SET NX PX, shared with redis-py's Lock and its like. A waiter asks at least every `poll`
        seconds; `notify` names the library whose waiters a release wakes."""
        return self._lock(lib.lk_plain_lock_new, name, _options(
            "lk_plain_lock_options", poll_ms=_ms(poll), notify=notify))

    def read_lock(self, name: str | bytes, *, prefer_writers: bool = False) -> Lock:
        """The side of a read/write lock that many may hold."""
        return self._lock(lib.lk_read_lock_new, name, _options(
            "lk_read_write_options", prefer_writers=prefer_writers))

    def write_lock(self, name: str | bytes, *, prefer_writers: bool = False) -> Lock:
        """The side of a read/write lock that one holds alone."""
        return self._lock(lib.lk_write_lock_new, name, _options(
            "lk_read_write_options", prefer_writers=prefer_writers))

    # ---- counts ----

    def semaphore(self, name: str | bytes, permits: int = 0, *, ttl: float = 0) -> Semaphore:
        """A number of permits that nobody owns; `permits` are set where it is missing."""
        return Semaphore(self, as_bytes(name), _options(
            "lk_semaphore_options", permits=permits, ttl_ms=_ms(ttl)))

    def permit_semaphore(self, name: str | bytes, permits: int = 0, *,
                         ttl: float = 0) -> PermitSemaphore:
        """Permits with ids and leases, which come back from a process that dies."""
        return PermitSemaphore(self, as_bytes(name), _options(
            "lk_permit_semaphore_options", permits=permits, ttl_ms=_ms(ttl)))

    def latch(self, name: str | bytes, *, ttl: float = 0) -> Latch:
        """A count down to zero, for which others wait."""
        return Latch(self, as_bytes(name), _options("lk_latch_options", ttl_ms=_ms(ttl)))

    def barrier(self, name: str | bytes, parties: int, *, margin: float = 0) -> Barrier:
        """One of `parties` that wait for each other, again and again."""
        return Barrier(self, as_bytes(name), parties, _options(
            "lk_barrier_options", margin_ms=_ms(margin)))

    # ---- fence tokens ----

    def fence_check(self, key: str | bytes, token: int, *, ttl: float = 0) -> None:
        """Raises StaleToken if `key` has seen a newer token, else remembers this one."""
        encoded = as_bytes(key)
        check(lib.lk_fence_check, self.pointer(), encoded, len(encoded), token,
              _options("lk_fence_options", ttl_ms=_ms(ttl)), ffi.NULL)

    # ---- from outside ----

    def watch(self, *names: str | bytes, poll: float = 0, renewals: bool = False) -> Watch:
        """`for change in client.watch("orders")`: who has a lock, and how each hold ended. Where
        the server does not tell, it is asked every `poll` seconds."""
        return Watch(self, names, _options("lk_watch_options", poll_ms=_ms(poll),
                                           renewals=renewals))

    # ---- notices, the end ----

    def _notices(self) -> Notices:
        pointer = self.pointer()
        noticed = self._noticed
        if noticed is not None and noticed[0] == _process.number:
            return noticed[1]
        with _process.making:
            if self._noticed is None or self._noticed[0] != _process.number:
                self._noticed = (_process.number, Notices(pointer))
            return self._noticed[1]

    def notices(self) -> NoticeStream:
        """`for notice in client.notices()`, or `async for`, until the client is closed."""
        return NoticeStream(self._notices)

    def held(self) -> list[Held]:
        """What the client holds."""
        room = 16
        while True:
            out = ffi.new("lk_held[]", room)
            out[0].struct_size = ffi.sizeof("lk_held")
            count = check(lib.lk_client_held, self.pointer(), out, room)
            if count <= room:
                return [_held(out[i]) for i in range(count)]
            room = 2 * count

    def drain(self, limit: float | None = None) -> list[Held]:
        """From now on the client takes nothing new: waits end with Draining, candidates leave, and
        leaders are asked to hand over. Waits until nothing is held any more, at most `limit`
        seconds, and returns what still is."""
        error = ffi.new("lk_error *")
        if wait(lambda left_ms, token: lib.lk_client_drain(self.pointer(), left_ms, token, error),
                wait_ms(limit)) < 0 and error.code != lib.LK_EHELD:
            fail(error)
        return self.held()

    def close(self, how: Literal["release", "abandon", "idle"] = "release") -> None:
        """Closes the client; its waiters get Closed. `how`: holds are released, or are left to
        their leases, or keep the client open (StillHeld)."""
        if self._process != _process.number:
            return
        check(lib.lk_client_close, self._pointer, _HOW[how])
        _open.discard(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_noticed", None) is not None and self._process == _process.number:
            lib.lk_client_close(self._pointer, lib.LK_CLOSE_ABANDON, ffi.NULL)  # ends its thread

    def __repr__(self) -> str:
        return f"<lockkeeper.Client {self.node}>"


def multi_lock(*locks: Lock) -> Lock:
    """Several reentrant locks, of one client or of several, acquired all or none."""
    def make() -> Any:
        parts = [lock.pointer() for lock in locks]
        return made(lib.lk_lock_free, "lk_lock **", lib.lk_multi_lock_new, parts, len(parts))

    return Lock(locks[0].client, make, ", ".join(str(lock.name) for lock in locks))


def red_lock(clients: Sequence[Client], name: str | bytes, *, plain: bool = False,
             quarantine: float = 0, node_limit: float = 0, retry_min: float = 0,
             retry_max: float = 0) -> Lock:
    """One lock on a majority of independent servers, a client for each."""
    encoded, options = as_bytes(name), _options(
        "lk_red_lock_options", plain=plain, node_limit_ms=_ms(node_limit),
        quarantine_ms=-1 if quarantine < 0 else _ms(quarantine), retry_min_ms=_ms(retry_min),
        retry_max_ms=_ms(retry_max))

    def make() -> Any:
        nodes = [client.pointer() for client in clients]
        return made(lib.lk_lock_free, "lk_lock **", lib.lk_red_lock_new, nodes, len(nodes),
                    encoded, len(encoded), options)

    return Lock(clients[0], make, name)


def _ms(seconds: float) -> int:
    return milliseconds(seconds, lib.LK_WAIT_MAX_MS)


def _options(name: str, **members: Any) -> Any:
    options = ffi.new(f"{name} *")
    options.struct_size = ffi.sizeof(name)
    for member, value in members.items():
        if isinstance(value, str):
            value = _kept(options, value)
        if value is not None:
            setattr(options, member, value)
    return options


_texts: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _kept(options: Any, text: str) -> Any:
    _texts[options] = pointer = ffi.new("char[]", text.encode())
    return pointer


@atexit.register
def _close_all() -> None:
    """Holds of a program that ends are released, unless its client says otherwise."""
    for client in list(_open):
        if client._process == _process.number:
            lib.lk_client_close(client._pointer, _HOW[client._at_exit], ffi.NULL)
