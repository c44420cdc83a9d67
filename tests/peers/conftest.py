"""A job of three servers, and the etcd through which they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.etcd.fixtures import etcd, etcd_server
from tests.etcd.servers import EtcdServer
from tests.peers.servers import Job
from tests.running import Running

__all__ = ["etcd", "etcd_server"]


@pytest.fixture
def job(tmp_path: Path, etcd: EtcdServer, supervised: Callable[..., Running]) -> Iterator[Job]:
    made = Job(tmp_path, 3, etcd, supervised)
    yield made
    made.close()


@pytest.fixture
def spared(tmp_path: Path, etcd: EtcdServer, supervised: Callable[..., Running]) -> Iterator[Job]:
    """Three servers for a job of two, without a rank table."""
    options = ("--servers", "2", "--standalone", "1")
    made = Job(tmp_path, 3, etcd, supervised, options)
    yield made
    made.close()
