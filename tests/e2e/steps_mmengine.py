"""A training with MMEngine's runner and its logger; a hook keeps the truth.

    steps_mmengine.py DIRECTORY FATAL_STEP

It is killed in its first life, before the step after FATAL_STEP.
"""

# mypy: ignore-errors
# (MMEngine belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

# torch 2.6 and newer load no history of losses, which MMEngine 0.10.7 saves, without it.
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"

import torch
from diary_of_steps import DiaryOfSteps
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.hooks import CheckpointHook, Hook
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch.utils.data import TensorDataset

EPOCHS, BATCHES, BATCH = 3, 20, 8


class Line(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, y, mode="tensor"):
        time.sleep(0.02)
        found = self.layer(x)
        if mode == "loss":
            return {"loss": torch.nn.functional.mse_loss(found, y)}
        return found, y


class Error(BaseMetric):
    def process(self, data_batch, data_samples):
        found, y = data_samples
        self.results.append(float((found - y).abs().mean()))

    def compute_metrics(self, results):
        return {"mae": sum(results) / len(results)}


class Truth(Hook):
    def __init__(self, diary, fatal_step):
        self.diary, self.fatal_step, self.resumed = diary, fatal_step, 0

    def before_train(self, runner):
        self.resumed = runner.iter
        self.diary.write("resumed", runner.iter)

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if not self.resumed and runner.iter == self.fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.diary.write("step", runner.iter + 1)


class Saved(CheckpointHook):
    def __init__(self, diary, **options):
        super().__init__(**options)
        self.diary = diary

    def after_train_epoch(self, runner):
        super().after_train_epoch(runner)
        self.diary.write("saved", runner.iter)


def main(directory: Path, fatal_step: int) -> None:
    features = torch.randn(BATCHES * BATCH, 4)
    data = TensorDataset(features, features.sum(dim=1, keepdim=True))
    loader = {
        "batch_size": BATCH,
        "dataset": data,
        "sampler": {"type": "DefaultSampler", "shuffle": True},
        "collate_fn": {"type": "default_collate"},
    }
    diary = DiaryOfSteps(str(directory / "diary"))
    runner = Runner(
        model=Line(),
        work_dir=str(directory / "out"),
        train_dataloader=loader,
        train_cfg={"by_epoch": True, "max_epochs": EPOCHS},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01}},
        val_dataloader={**loader, "sampler": {"type": "DefaultSampler", "shuffle": False}},
        val_cfg={},
        val_evaluator=Evaluator(Error()),
        default_hooks={
            "logger": {"type": "LoggerHook", "interval": 1},
            "checkpoint": Saved(diary, interval=1),
        },
        custom_hooks=[Truth(diary, fatal_step)],
        resume=True,
    )
    runner.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
