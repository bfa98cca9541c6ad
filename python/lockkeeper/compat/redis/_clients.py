"""From a client of redis-py to one of this package, and from errors to those of redis-py."""
from __future__ import annotations

import ssl
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import redis.exceptions as theirs

from ... import _errors as ours
from ..._call import milliseconds
from ..._client import Client
from ..._lockkeeper import lib

LEASE_MIN_S = lib.LK_LEASE_MIN_MS / 1000
LEASE_MAX_S = lib.LK_LEASE_MAX_MS / 1000
POLL_MIN_S, POLL_MAX_S = lib.LK_POLL_MIN_MS / 1000, lib.LK_POLL_MAX_MS / 1000

# By connection pool; of a cluster, by what knows its nodes.
_clients: weakref.WeakKeyDictionary[Any, Client] = weakref.WeakKeyDictionary()
_making = threading.Lock()

_SAME = {"username": "username", "password": "password", "client_name": "client_name",
         "ssl_ca_certs": "tls_ca_file", "ssl_ca_path": "tls_ca_dir",
         "ssl_ca_data": "tls_ca_data", "ssl_certfile": "tls_cert_file",
         "ssl_keyfile": "tls_key_file", "ssl_password": "tls_key_password"}
_TIMES = {"socket_timeout": "command_timeout_ms", "socket_connect_timeout": "connect_timeout_ms"}
# What TLS can do there and not here, unless it has one of these values.
_TLS = {"ssl_min_version": (None,), "ssl_ciphers": (None,), "ssl_validate_ocsp": (False, None),
        "ssl_validate_ocsp_stapled": (False, None), "ssl_include_verify_flags": (None,),
        "ssl_exclude_verify_flags": (None,)}


# What a client verifies of a server; for one, "optional" is the same as "required".
_CERTIFICATES = {"none": "off", 0: "off", "optional": "on", 1: "on", "required": "on", 2: "on",
                 None: "off"}


def _verify(settings: dict[str, Any]) -> str:
    wanted = _CERTIFICATES.get(settings.get("ssl_cert_reqs", "required"))
    if wanted is None:
        raise ours.error_of(lib.LK_EINVAL, "ssl_cert_reqs is not none, optional or required")
    if wanted == "on" and settings.get("ssl_check_hostname", True) is False:
        return "authority"
    return wanted


def client_of(redis: Any) -> Client:
    """The client for a redis.Redis, redis.asyncio.Redis or a cluster's: one for each pool."""
    source = getattr(redis, "nodes_manager", None) or redis.connection_pool
    with _making:
        client = _clients.get(source)
        if client is None:
            client = _clients[source] = _made(source)
        return client


def _made(source: Any) -> Client:
    settings = dict(source.connection_kwargs)
    tls = bool(settings.get("ssl")) or "SSL" in getattr(
        getattr(source, "connection_class", None), "__name__", "")
    options: dict[str, object] = {"client_record": "off"}
    for name, allowed in _TLS.items():
        if tls and name in settings and settings[name] not in allowed:
            raise ours.error_of(lib.LK_EINVAL, f"{name} has nothing like it in lockkeeper")
    options.update({option: settings[name] for name, option in _SAME.items()
                    if settings.get(name) and (tls or not name.startswith("ssl_"))})
    if tls:
        options["tls_verify"] = _verify(settings)
    if isinstance(options.get("tls_ca_data"), bytes):
        options["tls_ca_data"] = ssl.DER_cert_to_PEM_cert(options["tls_ca_data"])
    options.update({option: max(10, milliseconds(settings[name], 3600000))
                    for name, option in _TIMES.items() if settings.get(name)})
    if settings.get("db"):
        options["database"] = settings["db"]
    provider = settings.get("credential_provider")

    def credentials(place: str) -> tuple[str, str]:
        assert provider is not None
        words = provider.get_credentials()
        return ("", words[0]) if len(words) == 1 else (words[0], words[1])

    # As in redis-py, what is held stays held until its lease ends.
    return Client(_url(source, settings, tls), credentials=credentials if provider else None,
                  _environment=False, _at_exit="abandon", **options)


def _url(source: Any, settings: dict[str, Any], tls: bool) -> str:
    scheme = "rediss" if tls else "redis"
    if hasattr(source, "startup_nodes"):
        nodes = source.startup_nodes
        nodes = nodes.values() if isinstance(nodes, dict) else nodes
        return f"{scheme}-cluster://" + ",".join(_place(node.host, node.port) for node in nodes)
    if hasattr(source, "sentinel_manager"):
        sentinels = [sentinel.connection_pool.connection_kwargs
                     for sentinel in source.sentinel_manager.sentinels]
        places = ",".join(_place(each["host"], each["port"]) for each in sentinels)
        return f"{scheme}-sentinel://{places}/{quote(source.service_name, safe='')}"
    if settings.get("path"):
        return "unix://" + quote(settings["path"])
    return f"{scheme}://" + _place(settings.get("host", "localhost"), settings.get("port", 6379))


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def lease_of(timeout: float | None) -> float | None:
    """Within what the library takes; None, and 0, is a lease that is renewed while it is held."""
    return min(max(timeout, LEASE_MIN_S), LEASE_MAX_S) if timeout else None


def wait_of(sleep: float, blocking: bool, blocking_timeout: float | None) -> float | None:
    """redis-py gives up before a sleep that would end behind the limit: so it tries once where the
    first one would, and otherwise ends half a sleep before the limit, on average."""
    if not blocking:
        return 0
    if blocking_timeout is None:
        return None
    return 0 if blocking_timeout < sleep else blocking_timeout - sleep / 2


def poll_of(sleep: float) -> float:
    return min(max(sleep, POLL_MIN_S), POLL_MAX_S)


def refuse_token(token: object) -> None:
    if token is not None:
        raise ours.error_of(lib.LK_EINVAL, "a token cannot be chosen: a release frees only the "
                            "grant that it belongs to, and each grant has a token of its own")


@contextmanager
def as_theirs(what: str, name: Any) -> Iterator[None]:
    """Raises the errors of redis-py in place of ours."""
    try:
        yield
    except (ours.Lost, ours.NotOwner) as error:
        raise theirs.LockNotOwnedError(f"Cannot {what} a lock that's no longer owned",
                                       lock_name=name) from error
    except ours.Unauthenticated as error:
        raise theirs.AuthenticationError(str(error)) from error
    except ours.Denied as error:
        raise theirs.NoPermissionError(str(error)) from error
    except ours.WrongKind as error:
        raise theirs.ResponseError(str(error)) from error
    except (ours.MayBeHeld, ConnectionError) as error:
        raise theirs.ConnectionError(str(error)) from error
