"""The network of `make demo-cluster`: a namespace for each server, or all of them on loopback.

Namespaces need root and `ip`; nothing outside of them is changed, and they are deleted at the end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SUBNET = "10.77.1"
ETCD_PORT = 2379


@dataclass(frozen=True)
class Host:
    """``within`` are the words before a command that is to run there."""

    address: str
    within: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """``hub`` is reached from all servers, and nobody listens at ``port`` there."""

    hub: Host
    port: int
    servers: tuple[Host, ...]
    description: str


@contextmanager
def network(count: int) -> Iterator[Network]:
    """``count`` servers, each in a network namespace of its own where one can be made."""
    if os.geteuid() == 0 and shutil.which("ip") is not None:
        names = [f"ascend-demo-{os.getpid()}-{part}" for part in ("hub", *range(count))]
        try:
            if _ip("netns", "add", names[0]):
                yield _switched(names)
                return
        finally:
            for name in names:
                _ip("netns", "delete", name)
    yield _loopback(count)


def _switched(names: Sequence[str]) -> Network:
    """The first is the switch that joins the others."""
    hub, *servers = names
    _must("-n", hub, "link", "add", "switch", "type", "bridge")  # gone with the namespace
    _must("-n", hub, "address", "add", f"{SUBNET}.254/24", "dev", "switch")
    for device in ("switch", "lo"):
        _must("-n", hub, "link", "set", device, "up")
    for number, server in enumerate(servers):
        _must("netns", "add", server)
        cable = ("type", "veth", "peer", "name", "eth0", "netns", server)
        _must("-n", hub, "link", "add", f"port{number}", *cable)
        _must("-n", hub, "link", "set", f"port{number}", "master", "switch", "up")
        _must("-n", server, "address", "add", f"{SUBNET}.{number + 1}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _must("-n", server, "link", "set", device, "up")
    addresses = [f"{SUBNET}.{number + 1}" for number in range(len(servers))]
    return Network(
        Host(f"{SUBNET}.254", _within(hub)),
        ETCD_PORT,
        tuple(Host(at, _within(name)) for at, name in zip(addresses, servers, strict=True)),
        "each in a network namespace of its own",
    )


def _loopback(count: int) -> Network:
    here = Host("127.0.0.1")
    with socket.socket() as one:
        one.bind((here.address, 0))
        port: int = one.getsockname()[1]
    return Network(
        here, port, (here,) * count, "all on loopback: network namespaces need root and ip"
    )


def _within(name: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", name)


def _must(*words: str) -> None:
    if not _ip(*words):
        raise OSError(f"ip {' '.join(words)} has failed")


def _ip(*words: str) -> bool:
    done = subprocess.run(
        ("ip", *words),
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
        start_new_session=True,  # Ctrl-C is not for it
    )
    return done.returncode == 0
