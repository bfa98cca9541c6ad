"""Deployments as the conformance suite knows them: URLs, and how one gets to them."""
from __future__ import annotations

import pathlib
from typing import NamedTuple

from clusters import PATIENT_MS, Cluster
from deployments import Replicas, Watched
from servers import Server

ALWAYS = ("single-tcp", "single-unix", "single-tls", "replicas-tcp", "sentinel-tcp", "cluster-tcp",
          "cluster-tls", "quorum-tcp", "quorum-mixed")
MORE = ("replicas-tls", "sentinel-tls", "quorum-unix", "quorum-tls")
QUORUM = 5


class Place(NamedTuple):
    """Where locks are, until kill() is called. A quorum has several URLs."""
    urls: tuple[str, ...]
    options: dict
    parts: tuple

    def kill(self) -> None:
        for part in self.parts:
            part.kill()


def secured(url: str) -> str:
    return url.replace("redis", "rediss", 1)


def servers(folder: pathlib.Path, count: int, tls: dict | None) -> list[Server]:
    made = []
    for number in range(count):
        own = folder / f"node{number}"
        own.mkdir()
        made.append(Server(own, {}, tls).start_anywhere())
    return made


def mixture(folder: pathlib.Path) -> list:
    """A quorum of a cluster, a master that sentinels watch, and a server."""
    folders = [folder / name for name in ("cluster", "sentinel", "single")]
    for own in folders:
        own.mkdir()
    cluster = Cluster(folders[0], node_timeout_ms=PATIENT_MS)
    return [cluster, Watched(folders[1]), *servers(folders[2], 1, None)]


def place(name: str, folder: pathlib.Path, certificates) -> Place:
    deployment, _, transport = name.partition("-")
    tls = certificates.files("good") if transport == "tls" else None
    if transport == "mixed":
        parts = mixture(folder)
        urls = [part.url for part in parts]
    elif deployment in ("single", "quorum"):
        parts = servers(folder, QUORUM if deployment == "quorum" else 1, tls)
        urls = [part.unix_url if transport == "unix" else part.url for part in parts]
    else:
        kind = {"replicas": Replicas, "sentinel": Watched, "cluster": Cluster}[deployment]
        more = {"node_timeout_ms": PATIENT_MS} if kind is Cluster else {}
        parts = [kind(folder, **more, **({"tls": tls} if tls else {}))]
        urls = [parts[0].url]
    options = {"tls_ca_file": certificates.ca} if tls else {}
    return Place(tuple(map(secured, urls) if tls else urls), options, tuple(parts))
