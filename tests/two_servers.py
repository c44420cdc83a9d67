"""Servers of a cluster on one machine: network namespaces, joined by a cable or a switch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import Running

PROXY = Path(__file__).with_name("user_space_proxy.py")


@dataclass(frozen=True)
class Server:
    """``within`` are the words before a command that is to run there."""

    name: str
    address: str
    interface: str

    @property
    def within(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def kill_all(self) -> None:
        """As the end of its container does, in one moment for all."""
        pids = subprocess.run(
            ("ip", "netns", "pids", self.name), check=True, capture_output=True, timeout=30
        )
        for pid in map(int, pids.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def unplug(self) -> None:
        """As the loss of its node does: the others do not learn that its connections have ended."""
        _must("-n", self.name, "link", "set", self.interface, "down")


@contextmanager
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Joined by a cable."""
    with _namespaces(2) as (first, second):
        _must("link", "add", first.interface, "type", "veth", "peer", "name", second.interface)
        for server in (first, second):
            _must("link", "set", server.interface, "netns", server.name)
            _begin(server)
        yield first, second


@contextmanager
def switched_servers(count: int) -> Iterator[tuple[Server, ...]]:
    """Joined by a switch: that one of them is unplugged, the others do not notice."""
    with switch_and_servers(count) as (_, *servers):
        yield tuple(servers)


@contextmanager
def three_servers(service: str, port: int) -> Iterator[tuple[Server, Server, Server]]:
    """Joined by a switch; all reach this port of the first by a service.

    No server has the address of the service.
    """
    with switch_and_servers(3) as (switch, first, second, third):
        _must("-n", switch.name, "address", "add", f"{service}/32", "dev", "lo")
        for server in (first, second, third):
            _must("-n", server.name, "route", "add", f"{service}/32", "via", switch.address)
        with _passed_on(switch, service, first, port):
            yield first, second, third


@contextmanager
def switch_and_servers(count: int) -> Iterator[tuple[Server, ...]]:
    """A switch, which is a namespace of its own, and the servers that it joins."""
    with _namespaces(count + 1) as (*servers, switch):
        inside = ("-n", switch.name)
        _must(*inside, "link", "add", "bridge", "type", "bridge")
        _must(*inside, "address", "add", f"{switch.address}/24", "dev", "bridge")
        for device in ("bridge", "lo"):
            _must(*inside, "link", "set", device, "up")
        for number, server in enumerate(servers):
            plug = f"port{number}"
            cable = ("link", "add", plug, "type", "veth", "peer", "name", server.interface)
            _must(*inside, *cable, "netns", server.name)
            _must(*inside, "link", "set", plug, "master", "bridge", "up")
            _begin(server)
        yield (switch, *servers)


@contextmanager
def _passed_on(switch: Server, service: str, backend: Server, port: int) -> Iterator[None]:
    words = (sys.executable, str(PROXY), service, backend.address, str(port))
    with subprocess.Popen((*switch.within, *words), stdout=subprocess.PIPE) as proxy:
        try:
            assert proxy.stdout is not None
            assert proxy.stdout.readline() == b"ready\n"
            yield
        finally:
            proxy.kill()


def add_second_address(address: str, owner: Server, others: Sequence[Server]) -> None:
    """The others reach it through the owner's first address."""
    _must("-n", owner.name, "address", "add", f"{address}/32", "dev", "lo")
    for other in others:
        _must("-n", other.name, "route", "add", f"{address}/32", "via", owner.address)


@contextmanager
def _namespaces(count: int) -> Iterator[list[Server]]:
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip (Debian's package iproute2)")
    tag = os.getpid()
    made: list[Server] = []
    try:
        for n in range(count):
            server = Server(f"as-{tag}-{n}", f"10.77.0.{n + 1}", f"as{tag}{n}"[:15])
            if _ip("netns", "add", server.name).returncode:
                pytest.skip("no network namespace can be made here")
            made.append(server)
        yield made
    finally:
        for server in made:
            _ip("netns", "delete", server.name)


def _begin(server: Server) -> None:
    """Give it its address; its end of the cable is in the namespace already."""
    inside = ("-n", server.name)
    _must(*inside, "address", "add", f"{server.address}/24", "dev", server.interface)
    _must(*inside, "link", "set", server.interface, "up")
    _must(*inside, "link", "set", "lo", "up")


def on_each(
    servers: Sequence[Server],
    supervised: Callable[..., Running],
    root: Path,
    *words: str,
    deadline: float,
    environ: Mapping[str, str] | None = None,
) -> list[Running]:
    """A supervisor on each of them, told who it is as ModelArts does."""
    return [
        supervised(
            *("--release-delay", "0", *words),
            root=root / server.name,
            before=server.within,
            deadline=deadline,
            environ={
                "MA_NUM_HOSTS": str(len(servers)),
                "VC_TASK_INDEX": str(index),
                "VC_WORKER_HOSTS": ",".join(other.address for other in servers),
                "GLOO_SOCKET_IFNAME": server.interface,
                **(environ or {}),
            },
        )
        for index, server in enumerate(servers)
    ]


def in_pods(
    servers: Sequence[Server],
    supervised: Callable[..., Running],
    root: Path,
    pods: Sequence[Mapping[str, str]],
    *words: str,
    deadline: float,
) -> list[Running]:
    """A supervisor on each of them, in a pod that an operator gave these variables."""
    return [
        supervised(
            *("--release-delay", "0", *words),
            root=root / server.name,
            before=server.within,
            deadline=deadline,
            environ={"GLOO_SOCKET_IFNAME": server.interface, **pod},
        )
        for server, pod in zip(servers, pods, strict=True)
    ]


def pin_neighbour(server: Server, neighbour: Server) -> None:
    """From now on it knows this address even if nobody answers, as that of a router."""
    words = ("neigh", "change", neighbour.address, "dev", server.interface, "nud", "permanent")
    _must("-n", server.name, *words)


def lose_packets(switch: Server, number: int, *, all_of_them: bool) -> None:
    """Of the server at this port of the switch: silently, no end of a connection is told."""
    state = "0" if all_of_them else "3"  # disabled, or forwarding
    words = ("bridge", "link", "set", "dev", f"port{number}", "state", state)
    subprocess.run((*switch.within, *words), check=True, timeout=30)


def _must(*words: str) -> None:
    done = _ip(*words)
    assert done.returncode == 0, done.stderr


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], check=False, capture_output=True, text=True, timeout=30)
