"""A server whose packets are lost: no connection is refused or closed, nothing is answered."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ascend_supervisor.processes.pid import Pid
from tests.peers.cabled_servers import FENCE, TTL, Cluster, cabled_servers
from tests.peers.servers import RANK, boot_time
from tests.running import Running, wait_until


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Cluster]:
    with cabled_servers(tmp_path, 2, 1, supervised) as made:
        yield made


def test_a_server_whose_packets_are_lost_for_a_while_restarts_with_the_others(cluster):
    """For twice the TTL, and for less than the fence."""
    servers = started(cluster, fence=60)
    cut_at = boot_time()
    cluster.cut(1)
    assert servers[0].wait_for("generation.ended")["cause"].startswith("server 1 was lost (")
    servers[1].wait_for("peers.unreachable")
    wait_until(lambda: boot_time() > cut_at + 2 * TTL)
    assert not servers[1].all("generation.ended")
    cluster.mend(1)
    servers[1].wait_for("peers.reachable")
    for rank, server in enumerate(servers):
        server.wait_for("output", generation=1, msg=f"rank {rank} runs")
        started_rank = server.wait_for("process.started", generation=1)
        os.kill(started_rank["child_pid"], signal.SIGUSR2)
    assert [server.end() for server in servers] == [0, 0]


def test_a_server_whose_packets_are_lost_for_ever_kills_its_ranks_before_the_fence(cluster):
    servers = started(cluster)
    rank = Pid.of(servers[1].wait_for("process.started")["child_pid"])
    assert rank is not None
    cut_at = boot_time()
    cluster.cut(1)
    assert servers[1].end() == 69
    assert not rank.lives
    assert boot_time() - cut_at < FENCE + 15  # the end of a program takes long on a busy machine
    assert "etcd has not confirmed this server" in servers[1].events[-1]["reason"]
    assert servers[0].wait_for("generation.ended")["cause"].startswith("server 1 was lost (")
    servers[0].send(signal.SIGTERM)
    assert servers[0].end() == 143


def started(cluster: Cluster, fence: int = FENCE) -> list[Running]:
    """Both servers, when their ranks run."""
    words = ("--", sys.executable, "-c", RANK)
    servers = [cluster.start(index, *words, fence=fence) for index in (0, 1)]
    for rank, server in enumerate(servers):
        server.wait_for("output", msg=f"rank {rank} runs")
    return servers
