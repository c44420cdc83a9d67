"""torchrun on two servers that agree through etcd: its store begins anew with each generation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.cabled_servers import Cluster, cabled_servers
from tests.running import Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SUM = """
import os, signal, sys
from pathlib import Path
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
died = Path(sys.argv[1])
if not died.exists():
    dist.barrier()
    if rank == 0:
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
os.write(1, f"rank {rank} of {world}: the sum is {total.item():g}\\n".encode())
dist.barrier()
os._exit(0)
"""
"""At first rank 0 is killed when all have met; afterwards all succeed."""


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Cluster]:
    if not Path(sys.executable).with_name("torchrun").exists():
        pytest.skip("torchrun is not installed: .venv/bin/pip install --group e2e")
    with cabled_servers(tmp_path, 2, 1, supervised) as made:
        yield made


def test_torchrun_meets_again_at_the_same_port_after_its_first_worker_was_killed(cluster):
    script = cluster.root / "sum.py"
    script.write_text(SUM)
    words = ("--method", "torchrun", "--", sys.executable, str(script), str(cluster.root / "died"))
    servers = [cluster.start(index, *words) for index in (0, 1)]
    assert [server.end() for server in servers] == [0, 0]
    for index, server in enumerate(servers):
        (restart,) = server.all("restart.scheduled")
        assert restart["cause"] == "server 0: torchrun exited with status 1"
        said = {event["msg"] for event in server.all("output", generation=1)}
        assert f"rank {index} of 2: the sum is 3" in said
        assert not server.survivors()
