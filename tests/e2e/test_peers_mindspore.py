"""MindSpore on two servers that agree in etcd: its cluster begins anew in each generation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.cabled_servers import Cluster, cabled_servers
from tests.running import Running

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(300)]

SUM = """
import os, sys, time
from pathlib import Path
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_device("CPU")
init()


class Sum(nn.Cell):
    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        return self.reduce(x)


reduce = Sum()
rank, died = get_rank(), Path(sys.argv[1])
total = reduce(Tensor(np.array([1.0 + rank], np.float32)))
if not died.exists():
    if rank == 1:
        died.touch()
        os.kill(os.getpid(), 9)
    time.sleep(600)
if rank == 1:
    time.sleep(8)  # it saves longer than the other one
sys.stdout.write(f"rank {rank} of {get_group_size()}: the sum is {total}\\n")
sys.stdout.flush()
"""
"""At first rank 1 is killed when all have met; afterwards all succeed, one later than the other."""


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Cluster]:
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    with cabled_servers(tmp_path, 2, 1, supervised) as made:
        yield made


@pytest.mark.parametrize("method", ["mindspore", "msrun"])
def test_its_cluster_begins_anew_and_lasts_until_all_workers_have_ended(cluster, method):
    script = cluster.root / "sum.py"
    script.write_text(SUM)
    words = ("--method", method, "--", sys.executable, str(script), str(cluster.root / "died"))
    servers = [cluster.start(index, *words, deadline=200.0) for index in (0, 1)]
    assert [server.end() for server in servers] == [0, 0]
    for rank, server in enumerate(servers):
        (restart,) = server.all("restart.scheduled")
        assert restart["cause"].startswith("server 1: ")
        said = [event["msg"] for event in server.all("output", generation=1)]
        assert f"rank {rank} of 2: the sum is [3.]" in said
        assert not server.survivors()
    first, last = servers
    if method == "mindspore":
        (told,) = first.all("ranks.ended")
        assert told["awaited"] == "the scheduler"
    assert last.all("ranks.ended") == []
