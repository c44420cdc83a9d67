"""A real torchrun and a real accelerate as the command: the cause in their one log is found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

TRAIN = """\
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(4)
dist.all_reduce(total)
if dist.get_rank() == 1:
    {end}
while True: dist.all_reduce(total)
"""
BAR = Path(__file__).with_name("restart_torchrun.py")
RUN_SECONDS = 240.0
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
ACCELERATE = (
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
    *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
)


@pytest.mark.parametrize(
    ("launcher", "end", "said"),
    [
        (TORCHRUN, "raise ValueError('bad batch 17')", "rank 1: ValueError: bad batch 17"),
        (ACCELERATE, "raise ValueError('bad batch 17')", "rank 1: ValueError: bad batch 17"),
        (TORCHRUN, "os.kill(os.getpid(), 9)", "rank 1 was killed by SIGKILL"),
        (TORCHRUN, "import ctypes; ctypes.string_at(0)", "rank 1 was killed by SIGSEGV"),
        (TORCHRUN, "os._exit(4)", "rank 1 exited with status 4"),
    ],
    ids=["torchrun", "accelerate", "SIGKILL", "SIGSEGV", "a status"],
)
def test_the_rank_that_failed_is_told_and_not_the_one_that_lost_it(
    supervised, tmp_path, launcher, end, said
):
    if launcher is ACCELERATE and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed: .venv/bin/pip install --group e2e_frameworks")
    (tmp_path / "train.py").write_text(TRAIN.format(end=end))
    job = supervised(
        *("--method", "once", "--", sys.executable, *launcher, str(Path("train.py"))),
        environ={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        deadline=RUN_SECONDS,
    )
    assert job.end() == 1
    assert f": {said}" in job.events[-1]["reason"]
    assert "another rank" not in job.events[-1]["reason"]


def test_a_restart_of_torchrun_itself_is_not_taken_for_the_next_epoch(supervised):
    fatal_step, steps = 38, 40
    torchrun = (*TORCHRUN, "--max-restarts=1", str(BAR), str(fatal_step), str(steps))
    job = supervised(
        *("--method", "once", "--progress-interval", "0.2", "--", sys.executable, *torchrun),
        environ={"OMP_NUM_THREADS": "1"},
        deadline=RUN_SECONDS,
    )
    assert job.end() == 0, job.events[-1]
    assert job.all("generation.ended")[-1]["step"] == steps
    told = job.all("training.progress")
    assert {(event["steps"], event["epoch"]) for event in told} == {(steps, None)}
    assert job.events[-1]["account"]["trained_again"] > 1.0
