"""A plain DistributedDataParallel loop: a job of scripts/bench steps, like bench_trainer.py."""

# mypy: ignore-errors
# (torch belongs to the group e2e.)

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from bench_diary import Diary, phase
from torch.nn.parallel import DistributedDataParallel


def main():
    phase("process group")
    dist.init_process_group("gloo")
    diary = Diary(sys.argv[1])
    phase("model")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    is_over = False
    while not is_over:
        phase("data")
        batch = torch.randn(8, 64)
        phase("first step")
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        is_over = diary.is_over()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
