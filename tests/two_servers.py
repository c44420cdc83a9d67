"""Two servers of a cluster on one machine: network namespaces, joined by a cable."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import Running


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


@contextmanager
def two_servers() -> Iterator[tuple[Server, Server]]:
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip (Debian's package iproute2)")
    tag = os.getpid()
    first, second = (
        Server(f"as-{tag}-{n}", f"10.77.0.{n + 1}", f"as{tag}{n}"[:15]) for n in range(2)
    )
    made = []
    try:
        for server in (first, second):
            if _ip("netns", "add", server.name).returncode:
                pytest.skip("no network namespace can be made here")
            made.append(server)
        _must("link", "add", first.interface, "type", "veth", "peer", "name", second.interface)
        for server in (first, second):
            _must("link", "set", server.interface, "netns", server.name)
            inside = ("-n", server.name)
            _must(*inside, "address", "add", f"{server.address}/24", "dev", server.interface)
            _must(*inside, "link", "set", server.interface, "up")
            _must(*inside, "link", "set", "lo", "up")
        yield first, second
    finally:
        for server in made:
            _ip("netns", "delete", server.name)


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


def _must(*words: str) -> None:
    done = _ip(*words)
    assert done.returncode == 0, done.stderr


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], check=False, capture_output=True, text=True, timeout=30)
