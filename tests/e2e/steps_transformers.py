"""A training with the Trainer of transformers as its users write it; a callback keeps the truth.

    steps_transformers.py DIRECTORY FATAL_STEP [quiet]

It is killed in its first life, before the step after FATAL_STEP. ``quiet``: nothing below warnings
is told, which is the default of transformers; otherwise as its own examples do.
"""

# mypy: ignore-errors
# (transformers belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
from diary_of_steps import DiaryOfSteps
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

STEPS = 60


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        time.sleep(0.02 if self.training else 0.012)
        found = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": found}


class Samples(Dataset):
    def __init__(self, number):
        self.number = number

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        x = torch.randn(4)
        return {"x": x, "labels": x.sum(0, keepdim=True)}


class Truth(TrainerCallback):
    def __init__(self, diary, fatal_step):
        self.diary, self.fatal_step, self.resumed = diary, fatal_step, 0

    def on_train_begin(self, args, state, control, **_):
        self.resumed = state.global_step
        self.diary.write("resumed", state.global_step)

    def on_step_begin(self, args, state, control, **_):
        if not self.resumed and state.global_step == self.fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_step_end(self, args, state, control, **_):
        self.diary.write("step", state.global_step)

    def on_save(self, args, state, control, **_):
        self.diary.write("saved", state.global_step)


def main(directory: Path, fatal_step: int, quiet: bool) -> None:
    if not quiet:
        logging.set_verbosity_info()
    out = directory / "out"
    args = TrainingArguments(
        str(out),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        logging_steps=7,
        eval_strategy="steps",
        eval_steps=15,
        eval_on_start=True,
        save_steps=20,
        report_to=[],
        use_cpu=True,
    )
    truth = Truth(DiaryOfSteps(str(directory / "diary")), fatal_step)
    trainer = Trainer(
        Line(), args, train_dataset=Samples(600), eval_dataset=Samples(120), callbacks=[truth]
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(out) if out.exists() else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "quiet" in sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # torch may abort while the interpreter ends
