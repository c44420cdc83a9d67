"""Two supervisors, each in a network of its own, and real collectives across them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import Running
from tests.two_servers import Server, on_each, two_servers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

SUM = """
import os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
os.write(1, f"rank {rank} of {world}: the sum is {total.item():g}\\n".encode())
dist.barrier()
end, _, after = (sys.argv[1 + rank] if len(sys.argv) > 1 else "0").partition("@")
time.sleep(float(after or 0))
sys.stdout.flush()
os._exit(int(end))
"""


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as made:
        yield made


@pytest.fixture
def torchrun(
    servers: tuple[Server, Server], supervised: Callable[..., Running], tmp_path: Path
) -> Callable[..., list[Running]]:
    """``torchrun(*ends, cards=1)`` on both servers; a rank ends with ``status@seconds``."""
    launcher = Path(sys.executable).with_name("torchrun")
    if not launcher.exists():
        pytest.skip(f"{launcher} is not installed")
    script = tmp_path / "sum.py"
    script.write_text(SUM)

    def start(*ends: str, cards: int) -> list[Running]:
        return on_each(
            servers,
            supervised,
            tmp_path,
            *("--", sys.executable, str(script), *ends),
            deadline=120.0,
            environ={"MA_RUN_METHOD": "torchrun", "MA_NUM_GPUS": str(cards)},
        )

    return start


DDP = """
import argparse, os, sys
import torch, torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--init_method")
parser.add_argument("--rank", type=int)
parser.add_argument("--world_size", type=int)
told = parser.parse_args()
torch.set_num_threads(1)
dist.init_process_group("gloo", told.init_method, rank=told.rank, world_size=told.world_size)
total = torch.tensor([told.rank + 1.0])
dist.all_reduce(total)
line = f"rank {told.rank} of {told.world_size}: the sum is {total.item():g}\\n"
os.write(1, line.encode())
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


def test_torch_ddp_adds_up_across_two_servers(servers, supervised, tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    script = tmp_path / "ddp.py"
    script.write_text(DDP)
    jobs = on_each(
        servers,
        supervised,
        tmp_path,
        *("--method", "torch-ddp", "--master-port", "29611", "--", sys.executable, str(script)),
        deadline=120.0,
    )
    assert [job.end() for job in jobs] == [0, 0]
    for rank, job in enumerate(jobs):
        assert f"rank {rank} of 2: the sum is 3" in job.said(rank)


def test_torchrun_adds_up_across_two_servers(torchrun):
    jobs = torchrun(cards=2)
    assert [job.end() for job in jobs] == [0, 0]
    for index, job in enumerate(jobs):
        said = {event["msg"] for event in job.all("output")}
        for rank in (2 * index, 2 * index + 1):
            assert f"rank {rank} of 4: the sum is 10" in said
        assert not job.survivors()


@pytest.mark.parametrize("ends", [("5@6", "0"), ("5", "0@6")])
def test_torchrun_does_not_end_well_on_a_server_if_another_has_failed(torchrun, servers, ends):
    failing, healthy = torchrun(*ends, cards=1)
    assert failing.end() == 5
    assert failing.events[-1]["root_cause"].startswith("rank 0 failed first")
    assert healthy.end() == 69
    cause = healthy.events[-1]["root_cause"]
    assert cause == (
        "torchrun ended with 0 here, but the job did not: its workers ended well, and it then "
        f"waited in vain for the other servers; look at what ended {servers[0].address}"
    )
