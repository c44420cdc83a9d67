"""One rank of a real training: PyTorch's DistributedDataParallel with gloo, on CPU.

    train_ddp.py CHECKPOINT [VICTIM STEP [SIGNAL]]

In generation 0 rank VICTIM sends itself SIGNAL (SIGKILL) in STEP, in the middle of the backward
pass, when the gradients of the last layers are on their way through the collective already.
In generations 1 and 2 rank ORPHAN (a variable) kills its parent, the supervisor, in step
ORPHANED_AT.
CHECKPOINT_STEPS (4) is how many steps lie between two checkpoints.
"""

# mypy: ignore-errors
# (PyTorch belongs to the group e2e; where that is not installed there is nothing to check against.)
# ruff: noqa: T201

from __future__ import annotations

import hashlib
import os
import signal
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SEED = 20261101
STEPS = 12
CHECKPOINT_STEPS = int(os.environ.get("CHECKPOINT_STEPS", "4"))
ORPHAN, ORPHANED_AT = (os.environ.get(name) for name in ("ORPHAN", "ORPHANED_AT"))
BATCH = 16
FEATURES = 32
PATIENCE = timedelta(seconds=120)

BUCKET_MEGABYTES = 1e-6
"""A bucket for every parameter: some are through the collective while others are not computed."""


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of a rank in a step: the same in every generation, others for every rank."""
    chance = torch.Generator().manual_seed(SEED + 1000 * step + rank)
    features = torch.randn(BATCH, FEATURES, generator=chance)
    return features, torch.sin(features.sum(dim=1, keepdim=True))


def digest(model: nn.Module) -> str:
    """SHA-256 of the names and bytes of all parameters and buffers."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def save(checkpoint: Path, document: dict[str, object]) -> None:
    new = checkpoint.with_suffix(".new")
    torch.save(document, new)
    new.replace(checkpoint)


def main(
    checkpoint: Path,
    victim: int | None = None,
    fatal_step: int | None = None,
    fatal_signal: int = signal.SIGKILL,
) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    torch.manual_seed(SEED)
    dist.init_process_group("gloo", init_method="env://", timeout=PATIENCE)
    rank = dist.get_rank()
    generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    model = nn.Sequential(
        nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    # Without find_unused_parameters the first step after a start has other buckets than those that
    # follow, and where a number stands in its bucket decides in which order gloo adds it up: what
    # was resumed would not be the same to the last bit.
    ddp = DistributedDataParallel(
        model, bucket_cap_mb=BUCKET_MEGABYTES, find_unused_parameters=True
    )
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    print(f"generation {generation} of {dist.get_world_size()} ranks begins at step {first}")

    for step in range(first, STEPS):
        if (generation, rank, step) == (0, victim, fatal_step):
            print(f"{signal.Signals(fatal_signal).name} in step {step}")
            # The first layer's gradient is the last to be computed.
            model[0].weight.register_hook(lambda _: os.kill(os.getpid(), fatal_signal))
        if (str(rank), str(step)) == (ORPHAN, ORPHANED_AT) and generation in (1, 2):
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until the supervisor's guardian ends this rank, too
        features, labels = batch(step, rank)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(features), labels)
        loss.backward()
        optimizer.step()
        done = step + 1
        if rank == 0 and done % CHECKPOINT_STEPS == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": done}
            save(checkpoint, state)
            print(f"step {done}: loss {loss.item():.6f}, checkpoint written")
    print(f"parameters {digest(model)}")
    dist.barrier()


def end(status: int) -> NoReturn:
    """Take nothing down in good order.

    With torch 2.13 the process group's destructor may wait, holding the GIL, for a thread that
    needs the GIL to let go of the last collective; or for a collective that will never end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        end(1)
    end(0)
