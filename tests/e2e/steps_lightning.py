"""A training with Lightning and its tqdm bar as its users write it; a callback keeps the truth.

    steps_lightning.py DIRECTORY FATAL_STEP

It is killed in its first life, before the step after FATAL_STEP.
"""

# mypy: ignore-errors
# (Lightning belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import lightning
import torch
from diary_of_steps import DiaryOfSteps
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES = 3, 20


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        time.sleep(0.02)
        loss = self.loss(batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        time.sleep(0.02)
        self.log("val_loss", self.loss(batch), prog_bar=True)

    def loss(self, batch):
        features, labels = batch
        return torch.nn.functional.mse_loss(self.layer(features), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Truth(lightning.Callback):
    def __init__(self, diary, fatal_step):
        self.diary, self.fatal_step, self.resumed = diary, fatal_step, 0

    def on_train_start(self, trainer, module):
        self.resumed = trainer.global_step
        self.diary.write("resumed", trainer.global_step)

    def on_train_batch_start(self, trainer, module, batch, index):
        if not self.resumed and trainer.global_step == self.fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.diary.write("step", trainer.global_step)

    def on_save_checkpoint(self, trainer, module, checkpoint):
        self.diary.write("saved", trainer.global_step)


def main(directory: Path, fatal_step: int) -> None:
    features = torch.randn(8 * BATCHES, 4)
    data = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=8)
    checkpoints = ModelCheckpoint(
        directory / "out", monitor="val_loss", save_top_k=-1, verbose=True
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        callbacks=[
            Truth(DiaryOfSteps(str(directory / "diary")), fatal_step),
            TQDMProgressBar(),
            checkpoints,
        ],
        logger=False,
        default_root_dir=directory,
    )
    saved = sorted((directory / "out").glob("*.ckpt"), key=lambda one: one.stat().st_mtime)
    trainer.fit(Line(), data, data, ckpt_path=saved[-1] if saved else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
