"""A training with Lightning as its users write it: nothing in it knows who starts the ranks."""

# mypy: ignore-errors
# (Lightning belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import hashlib
import os

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 64


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        features, labels = batch
        return torch.nn.functional.mse_loss(self.layer(features), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main() -> None:
    lightning.seed_everything(7)
    features = torch.randn(SAMPLES, 4)
    data = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=8)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        enable_progress_bar=False,
        log_every_n_steps=1,
    )
    model = Line()
    trainer.fit(model, data)
    state = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    line = (
        f"rank {trainer.global_rank} of {trainer.world_size}: {trainer.global_step} steps, "
        f"parameters {hashlib.sha256(state).hexdigest()}\n"
    )
    os.write(1, line.encode())  # at once: the ranks share a pipe


if __name__ == "__main__":
    main()
