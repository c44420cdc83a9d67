"""Servers of one job in network namespaces, and the etcd on the switch that joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.etcd.servers import PROGRAM, EtcdServer
from tests.running import Running
from tests.two_servers import Server, lose_packets, pin_neighbour, switch_and_servers

TTL, FENCE = 4, 15
ETCD_PORT = 2379


class Cluster:
    """The first ``size`` of the ``servers`` run ``ranks`` ranks each; the others are spares."""

    def __init__(
        self,
        root: Path,
        etcd: EtcdServer,
        network: tuple[Server, ...],
        supervised: Callable[..., Running],
        size: int,
        ranks: int,
    ) -> None:
        self.root = root
        self.etcd = etcd
        self._switch, *self.servers = network
        self._supervised = supervised
        self._size = size
        self._ranks = ranks

    def start(
        self,
        index: int,
        *words: str,
        job: str = "test",
        fence: int = FENCE,
        environ: Mapping[str, str] | None = None,
        deadline: float = 100.0,
    ) -> Running:
        """The supervisor of this server, with these options and this command."""
        server = self.servers[index]
        root = self.root / job / f"server-{index}"
        root.mkdir(parents=True, exist_ok=True)
        return self._supervised(
            *("--servers", str(self._size), "--standalone", str(self._ranks)),
            *(("--node-rank", str(index)) if index < self._size else ()),
            *("--restarts", "3", "--restart-delay", "0", "--release-delay", "0", "--grace", "5"),
            *("--peers", self.etcd.url, "--peers-job", job),
            *("--peers-ttl", str(TTL), "--peers-fence", str(fence), "--peers-timeout", "90"),
            *words,
            root=root,
            before=server.within,
            deadline=deadline,
            environ={"GLOO_SOCKET_IFNAME": server.interface, **(environ or {})},
        )

    def cut(self, index: int) -> None:
        """From now on its packets are lost, and those to it; nobody is told."""
        pin_neighbour(self.servers[index], self._switch)
        lose_packets(self._switch, index, all_of_them=True)

    def mend(self, index: int) -> None:
        lose_packets(self._switch, index, all_of_them=False)


@contextmanager
def cabled_servers(
    root: Path, count: int, ranks: int, supervised: Callable[..., Running], spares: int = 0
) -> Iterator[Cluster]:
    """Skips the test where there is no etcd, or no namespace can be made."""
    if PROGRAM is None:
        pytest.skip("etcd is not installed here (Debian: etcd-server)")
    with switch_and_servers(count + spares) as network:
        switch = network[0]
        etcd = EtcdServer(
            root / "etcd", host=switch.address, port=ETCD_PORT, before=switch.within
        ).start()
        try:
            yield Cluster(root, etcd, network, supervised, count, ranks)
        finally:
            etcd.kill()
