"""An etcd whose database is full: it reads and keeps leases alive, but writes nothing."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.etcd.servers import EtcdServer
from tests.peers.servers import Job
from tests.running import Running

FULL = (
    r": its database is full (NOSPACE), so it only reads and deletes: make room (etcdctl compact, "
    "then etcdctl defrag) or raise its --quota-backend-bytes, then end the alarm (etcdctl alarm "
    "disarm)"
)


@pytest.fixture
def small_job(
    tmp_path: Path, etcd_server: Callable[..., EtcdServer], supervised: Callable[..., Running]
) -> Iterator[Job]:
    etcd = etcd_server(arguments=["--quota-backend-bytes=2000000"])
    made = Job(tmp_path, 2, etcd, supervised)
    yield made
    made.close()


def fill(etcd: EtcdServer) -> None:
    """Until it takes no more, and has raised its alarm."""
    with suppress(subprocess.CalledProcessError):
        for number in range(100):
            etcd.control("put", f"/other/{number}", "x" * 100_000)
    assert "NOSPACE" in etcd.control("alarm", "list")


def make_room(etcd: EtcdServer) -> None:
    """What the sentence says."""
    etcd.control("del", "--prefix", "/other/")
    revision = etcd.control("get", "/", "-w", "json").partition('"revision":')[2].partition(",")[0]
    etcd.control("compact", revision)
    etcd.control("defrag")
    etcd.control("alarm", "disarm")


def test_a_failure_while_etcd_is_full_is_told_with_what_to_do_and_restarts_all_after_it(small_job):
    job = small_job
    job.start_all()
    fill(job.etcd)
    job.signal_rank(1, signal.SIGUSR1)
    told = job.servers[1].wait_for("peers.unreachable")
    assert told["reason"] == f"etcd cannot be written to: {job.cables[1].url}{FULL}"
    make_room(job.etcd)
    job.all_up(1)
    job.succeed(1)


def test_where_etcd_stays_full_a_failed_server_ends_and_says_why(small_job):
    job = small_job
    job.start_all()
    fill(job.etcd)
    job.signal_rank(1, signal.SIGUSR1)
    assert job.servers[1].end() == 69
    assert FULL in job.servers[1].events[-1]["reason"]
