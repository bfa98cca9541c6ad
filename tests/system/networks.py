"""Networks for servers and clients, between which the way can be cut: a partition.

Each site is a network namespace, linked to a bridge in one more: nothing of it is in the network of
the machine. Who may not make such networks (not root, or a container without the right) cannot run
the tests that need them. Unix sockets do not belong to a network: tests reach servers through them.
"""
from __future__ import annotations

import os
import subprocess
from typing import NamedTuple


class Site(NamedTuple):
    """What runs behind the prefix has this address, and reaches others by theirs."""
    name: str
    host: str
    prefix: tuple[str, ...]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


def why_not() -> str:
    """Why there can be no such networks; "": there can."""
    name = f"lk-{os.getpid()}-may"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "bridge", "type", "bridge")
    except FileNotFoundError:
        return "there is no ip command"
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return ""


class Networks:
    """Sites that reach each other, until the way is cut. close() removes all."""

    def __init__(self, *names: str):
        self.hub = f"lk-{os.getpid()}-hub"
        self.sites: dict[str, Site] = {}
        try:
            ip("netns", "add", self.hub)
            ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.hub, "link", "set", "bridge", "up")
            for number, name in enumerate(names, 1):
                self.add(name, f"10.99.0.{number}")
        except BaseException:
            self.close()
            raise

    def add(self, name: str, host: str) -> None:
        own = f"lk-{os.getpid()}-{name}"
        self.sites[name] = Site(own, host, ("ip", "netns", "exec", own))
        ip("netns", "add", own)
        ip("-n", self.hub, "link", "add", name, "type", "veth",
           "peer", "name", "eth0", "netns", own)
        ip("-n", self.hub, "link", "set", name, "master", "bridge", "up")
        ip("-n", own, "link", "set", "lo", "up")
        ip("-n", own, "addr", "add", f"{host}/24", "dev", "eth0")
        ip("-n", own, "link", "set", "eth0", "up")

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def isolate(self, name: str, word: str) -> None:
        ip("-n", self.hub, "link", "set", name, "type", "bridge_slave", "isolated", word)

    def cut(self, one: str, other: str) -> None:
        """They do not reach each other any more. Each reaches the others."""
        for name in (one, other):
            self.isolate(name, "on")

    def cut_off(self, name: str) -> None:
        """It reaches no other, and no other reaches it."""
        ip("-n", self.hub, "link", "set", name, "down")

    def use_ports(self, name: str, ports: str) -> None:
        """New connections from there leave from these ports: "first last"."""
        subprocess.run([*self[name].prefix, "tee", "/proc/sys/net/ipv4/ip_local_port_range"],
                       input=ports, check=True, capture_output=True, text=True, timeout=20)

    def drop_ports(self, name: str, ports: str) -> None:
        """What leaves there from these ports is dropped, and what others send to them."""
        first, last = ports.split()
        for site in self.sites:
            side = "sport" if site == name else "dport"
            ip("-n", self[site].name, "rule", "add", "ipproto", "tcp", side, f"{first}-{last}",
               "blackhole")

    def heal(self) -> None:
        for name in self.sites:
            self.isolate(name, "off")
            ip("-n", self.hub, "link", "set", name, "up")

    def close(self) -> None:
        for name in [*(site.name for site in self.sites.values()), self.hub]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
