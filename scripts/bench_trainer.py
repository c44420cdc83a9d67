"""A GPT-2 of two layers under the Trainer of transformers: a job of scripts/bench steps.

    bench_trainer.py DIARY

Rank 0 writes the time (CLOCK_MONOTONIC) of the first step of each life to DIARY. Rank 1 kills
itself in its first life as soon as DIARY.fatal exists, and writes that time; the second life ends
after its first step.
"""

# mypy: ignore-errors
# (transformers belongs to the group e2e_frameworks.)

from __future__ import annotations

import sys

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

# isort: split
# Last: a standby leaves to the script what is imported behind the first of the script's modules.
from bench_diary import Diary, phase

LENGTH = 64


class Lines(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        line = (torch.arange(LENGTH) + index) % 97
        return {"input_ids": line, "labels": line}


class Ends(TrainerCallback):
    def __init__(self):
        self.diary = Diary(sys.argv[1])

    def on_epoch_begin(self, args, state, control, **_):
        phase("data")

    def on_step_begin(self, args, state, control, **_):
        phase("first step")

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = self.diary.is_over()


def main():
    phase("model")
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=100, n_layer=2, n_head=2, n_embd=64, n_positions=LENGTH)
    )
    phase("process group")
    args = TrainingArguments(
        output_dir=f"{sys.argv[1]}.out",
        max_steps=100_000,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    phase("model")
    Trainer(model=model, args=args, train_dataset=Lines(), callbacks=[Ends()]).train()


if __name__ == "__main__":
    main()
