"""``etcd_server(...)`` starts an etcd; ``etcd`` is one that runs. Import them in a conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.etcd.servers import PROGRAM, EtcdServer


@pytest.fixture
def etcd_server(tmp_path: Path) -> Iterator[Callable[..., EtcdServer]]:
    """Start etcd servers, which do not outlive the test: ``etcd_server(tls=..., host=...)``."""
    if PROGRAM is None:
        pytest.skip("etcd is not installed here (Debian: etcd-server)")
    started: list[EtcdServer] = []

    def start(**options: Any) -> EtcdServer:
        started.append(EtcdServer(tmp_path / f"etcd-{len(started)}", **options))
        return started[-1].start()

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def etcd(etcd_server: Callable[..., EtcdServer]) -> EtcdServer:
    """One etcd, without TLS and users, that answers."""
    return etcd_server()
