"""One rank of a real training with MindSpore on CPU: data parallel, a checkpoint after each step.

    train_mindspore.py CHECKPOINT [VICTIM STEP]

In generation 0 rank VICTIM stops itself in STEP, when the others already wait for its gradients.
"""

# mypy: ignore-errors
# (MindSpore belongs to the group e2e_mindspore; elsewhere there is nothing to check against.)

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

SEED = 20261101
STEPS = 8
BATCH = 16
FEATURES = 32


class Sum(nn.Cell):
    """The sum over all ranks."""

    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        return self.reduce(x)


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    """The samples of a rank in a step: the same in every generation, others for every rank."""
    features = np.random.default_rng((SEED, step, rank)).standard_normal((BATCH, FEATURES))
    features = features.astype(np.float32)
    return Tensor(features), Tensor(np.sin(features.sum(axis=1, keepdims=True)))


def digest(parameters) -> str:
    """SHA-256 of the names and bytes of all parameters."""
    found = hashlib.sha256()
    for parameter in sorted(parameters, key=lambda one: one.name):
        found.update(parameter.name.encode() + parameter.asnumpy().tobytes())
    return found.hexdigest()


def save(optimizer: nn.Cell, step: int, checkpoint: Path) -> None:
    """The parameters and their moments, which an optimizer holds all, and the number of steps."""
    new = checkpoint.with_suffix(".new.ckpt")
    ms.save_checkpoint(optimizer, str(new), append_dict={"step": step})
    new.replace(checkpoint)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main(checkpoint: Path, victim: int = -1, fatal_step: int = -1) -> None:
    ms.set_device("CPU")
    ms.set_seed(SEED)
    init()
    rank, generation = get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    net = nn.SequentialCell(nn.Dense(FEATURES, 64), nn.Tanh(), nn.Dense(64, 1))
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.05, momentum=0.9)
    first = 0
    if checkpoint.exists():
        saved = ms.load_checkpoint(str(checkpoint))
        first = int(saved.pop("step").asnumpy())
        ms.load_param_into_net(optimizer, saved, strict_load=True)
    say(f"generation {generation} of {get_group_size()} ranks begins at step {first}")

    loss_of = nn.MSELoss()
    gradients_of = ms.value_and_grad(lambda x, y: loss_of(net(x), y), None, net.trainable_params())
    total = Sum()
    for step in range(first, STEPS):
        loss, gradients = gradients_of(*batch(step, rank))
        if (generation, rank, step) == (0, victim, fatal_step):
            say(f"stops in step {step}")
            os.kill(os.getpid(), signal.SIGSTOP)
        optimizer(tuple(total(gradient) / get_group_size() for gradient in gradients))
        if rank == 0:
            save(optimizer, step + 1, checkpoint)
            say(f"step {step + 1}: loss {float(loss.asnumpy()):.6f}, checkpoint written")
    say(f"parameters {digest(net.trainable_params())}")
    total(Tensor(np.ones(1, np.float32)))  # nobody leaves before all have finished


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
