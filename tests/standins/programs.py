"""Proxies in front of a real server, and programs that stand in for one in other projects' tests.

Each is started on a free port of the loopback, and listens when its constructor returns.
scripts/standins.py has fetched them into the folder that LOCKKEEPER_STANDINS names.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess

import pytest

from servers import Server, free_port
from waiting import until

FETCHED = pathlib.Path(os.environ.get("LOCKKEEPER_STANDINS", "/nonexistent"))
IDLE_S = 2  # after so long without a byte a proxy ends a connection


class Program:
    """What runs, and where it listens."""

    name = ""  # of scripts/standins.py

    def __init__(self, folder: pathlib.Path, *words):
        if not (FETCHED / self.name / "run").exists():
            pytest.skip(f"{self.name} was not fetched")
        self.folder, self.port = folder, free_port()
        self.log = folder / "program.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [FETCHED / self.name / "run", *map(str, self.arguments(*words))], cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        until(self.listens, 60, "it listens")

    def arguments(self, *words) -> list:
        return [self.port, *words]

    def listens(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def endpoint(port: int) -> dict:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}


class Envoy(Program):
    """In front of one server, or of several that it spreads keys over."""

    name = "envoy"

    def filter(self) -> dict:
        return {"@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3"
                         ".RedisProxy",
                "stat_prefix": "locks", "settings": {"op_timeout": "5s"},
                "prefix_routes": {"catch_all_route": {"cluster": "servers"}}}

    def arguments(self, *upstreams: Server) -> list:
        where = [{"endpoint": endpoint(server.port)} for server in upstreams]
        config = {"static_resources": {
            "listeners": [{**endpoint(self.port), "filter_chains": [
                {"filters": [{"name": "locks", "typed_config": self.filter()}]}]}],
            "clusters": [{"name": "servers", "type": "STATIC", "connect_timeout": "1s",
                          "lb_policy": "RING_HASH", "load_assignment": {
                              "cluster_name": "servers",
                              "endpoints": [{"lb_endpoints": where}]}}]}}
        (self.folder / "envoy.json").write_text(json.dumps(config))
        return ["-c", self.folder / "envoy.json", "-l", "warn", "--use-dynamic-base-id",
                "--concurrency", 1]


class EnvoyTcp(Envoy):
    """It passes bytes on, and ends connections that are idle."""

    def filter(self) -> dict:
        return {"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3"
                         ".TcpProxy",
                "stat_prefix": "locks", "cluster": "servers", "idle_timeout": f"{IDLE_S}s"}


class HaProxy(Program):
    """It passes bytes on, and ends connections that are idle."""

    name = "haproxy"

    def arguments(self, server: Server) -> list:
        (self.folder / "haproxy.cfg").write_text(f"""defaults
	mode tcp
	timeout connect 1s
	timeout client {IDLE_S}s
	timeout server {IDLE_S}s
listen locks
	bind 127.0.0.1:{self.port}
	server one 127.0.0.1:{server.port}
""")
        return ["-db", "-f", self.folder / "haproxy.cfg"]


class Twemproxy(Program):
    """It knows single commands only."""

    name = "twemproxy"

    def arguments(self, server: Server) -> list:
        (self.folder / "nutcracker.yml").write_text(f"""locks:
  listen: 127.0.0.1:{self.port}
  redis: true
  servers:
   - 127.0.0.1:{server.port}:1
""")
        return ["-c", self.folder / "nutcracker.yml", "-s", free_port(),
                "-o", self.folder / "nutcracker.log"]


class FakeRedis(Program):
    """In Python, for tests of Python programs."""

    name = "fakeredis"


class Miniredis(Program):
    """In Go, for tests of Go programs. Times to live stand still, unless "runs" is said."""

    name = "miniredis"


class JedisMock(Program):
    """In Java, for tests of Java programs."""

    name = "jedis_mock"


class Infinispan(Program):
    """Its RESP endpoint: in Java, a store of several nodes that speaks the protocol too."""

    name = "infinispan"

    def listens(self) -> bool:
        """It answers: before it can it listens already, and says nothing to who comes then."""
        if not super().listens():
            return False
        with contextlib.suppress(OSError), \
                socket.create_connection(("127.0.0.1", self.port), 1) as client:
            client.sendall(b"*1\r\n$4\r\nPING\r\n")
            return b"PONG" in client.recv(100)
        return False


class ClauDb(Program):
    """In Java. Its scripts are LuaJ's, if that is said, or none."""

    name = "claudb"
