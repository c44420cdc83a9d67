"""The training of train_ddp.py on one server: ranks of one pod, as ModelArts describes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.e2e import __file__ as here
from tests.ports import free_port
from tests.running import Running

SCRIPT = Path(here).with_name("train_ddp.py")
POD = "jobe2e-job-trainjob-0"
RUN_SECONDS = 240.0
"""Most of it goes into importing torch: 2 s of CPU for each rank."""
Start = Callable[..., Running]


def train(
    supervised: Start, root: Path, *victim: str, ranks: int = 2, options: Sequence[str] = ()
) -> Running:
    config = root / "user" / "config"
    config.mkdir(parents=True)
    (config / "jobstart_hccl.json").write_text(json.dumps(rank_table(ranks)))
    return supervised(
        *("--restarts", "1", "--restart-delay", "0", "--release-delay", "0", *options),
        *("--", sys.executable, str(SCRIPT), str(root / "checkpoint.pt"), *victim),
        root=root,
        environ={
            "MA_CURRENT_INSTANCE_NAME": POD,
            "MA_NUM_HOSTS": "1",
            "MA_NUM_GPUS": str(ranks),
            "VC_TASK_INDEX": "0",
            "VC_WORKER_HOSTS": "127.0.0.1",
            "RANK_TABLE_FILE": str(config),
            "MASTER_PORT": str(free_port()),
            # Where the ranks talk to each other is not left to what this machine's name means.
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        },
    )


def rank_table(ranks: int) -> dict[str, object]:
    """A template 2 table; the devices' ids are physical, those of a pod that has the upper half."""
    devices = [
        {"device_id": str(4 + rank), "device_ip": f"192.1.10.{rank}"} for rank in range(ranks)
    ]
    instance = {"pod_name": POD, "server_id": "192.168.0.25", "devices": devices}
    group = {
        "group_name": "job-trainjob",
        "device_count": str(ranks),
        "instance_count": "1",
        "instance_list": [instance],
    }
    return {"status": "completed", "group_count": "1", "group_list": [group]}


def ended(job: Running) -> int:
    """Its exit code; on a loaded machine it needs longer than other tests."""
    job.process.wait(RUN_SECONDS)
    return job.end()


def begun(job: Running, generation: int) -> list[str]:
    """Where every rank began."""
    return [line_of(job, rank, generation, "generation ") for rank in ranks_of(job, generation)]


def digests(job: Running, generation: int) -> list[str]:
    """What every rank's parameters were in the end."""
    told = "parameters "
    ranks = ranks_of(job, generation)
    return [line_of(job, rank, generation, told).removeprefix(told) for rank in ranks]


def ranks_of(job: Running, generation: int) -> list[int]:
    return [event["rank"] for event in job.all("process.started", generation=generation)]


def line_of(job: Running, rank: int, generation: int, beginning: str) -> str:
    """The line among those of a rank, which torch adds warnings to."""
    said = job.said(rank, generation)
    (line,) = (line for line in said if line.startswith(beginning))
    return line
