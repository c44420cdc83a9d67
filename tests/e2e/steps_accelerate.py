"""A loop with accelerate and tqdm as the examples of diffusers have it, and the truth in a file.

    steps_accelerate.py DIRECTORY FATAL_STEP

The last rank is killed in its first life, before the step after FATAL_STEP.
"""

# mypy: ignore-errors
# (accelerate belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from diary_of_steps import DiaryOfSteps
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

STEPS, EVERY = 60, 20

logger = get_logger(__name__)


def latest(out: Path) -> Path | None:
    found = sorted(out.glob("checkpoint-*"), key=lambda one: int(one.name.split("-")[1]))
    return found[-1] if found else None


def validate(accelerator: Accelerator) -> None:
    """Nobody has given its bar a name."""
    for _ in tqdm(range(25), disable=not accelerator.is_local_main_process):
        time.sleep(0.015)


def main(directory: Path, fatal_step: int) -> None:
    accelerator = Accelerator(cpu=True)
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        level=logging.INFO,
    )
    features = torch.randn(8 * STEPS * accelerator.num_processes, 4)
    data = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    logger.info("***** Running training *****")
    logger.info("  Total optimization steps = %d", STEPS)
    path, first = latest(directory / "out"), 0
    if path is not None:
        accelerator.print(f"Resuming from checkpoint {path.name}")
        accelerator.load_state(path)
        first = int(path.name.split("-")[1])
    diary = DiaryOfSteps(str(directory / "diary")) if accelerator.is_main_process else None
    if diary:
        diary.write("resumed", first)
    bar = tqdm(
        range(STEPS), initial=first, desc="Steps", disable=not accelerator.is_local_main_process
    )
    last_rank = accelerator.process_index == accelerator.num_processes - 1
    for step, (x, y) in enumerate(data, first + 1):
        time.sleep(0.02)
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if diary:
            diary.write("step", step)
        bar.update(1)
        bar.set_postfix(step_loss=loss.detach().item(), lr=0.01)
        if step % EVERY == 0:
            accelerator.wait_for_everyone()
            if diary:
                out = directory / "out" / f"checkpoint-{step}"
                accelerator.save_state(out)
                diary.write("saved", step)
                logger.info("Saved state to %s", out)
            validate(accelerator)
        accelerator.wait_for_everyone()
        if not first and step == fatal_step and last_rank:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == STEPS:
            break
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
