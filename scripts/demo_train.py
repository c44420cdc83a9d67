"""One rank of a small data-parallel training: logistic regression in plain Python.

Every rank computes the gradient over its own samples, gets those of the others through files, and
adds them up in the order of the ranks: all hold the same weights, to the last bit. Rank 0 prints
its steps and checkpoints in the words of Megatron-LM, from which the supervisor knows them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SEED = 20261101
SAMPLES = 4000
FEATURES = 8
STEPS = 60
PRINTED_STEPS = 10
CHECKPOINT_STEPS = 20
LEARNING_RATE = 2.0
PATIENCE_SECONDS = 120.0
"""How long a rank waits for a file of another."""
POLL_SECONDS = 0.001
STANDBYS_ARE_READY = "standbys-are-ready"
"""A file in the shared directory: who dies after a restart waits for it."""

Vector = tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    features: Vector
    label: int


@dataclass(frozen=True)
class State:
    """Where the training stands after ``step`` steps; ``loss`` is that of the step before."""

    step: int
    weights: Vector
    loss: float

    @property
    def digest(self) -> str:
        """Of the weights' exact bits."""
        return hashlib.sha256(" ".join(map(float.hex, self.weights)).encode()).hexdigest()


START = State(0, (0.0,) * FEATURES, math.nan)


def samples() -> list[Sample]:
    """Points of two classes, parted by a plane but for some noise; the same in every process."""
    chance = random.Random(SEED)
    plane = [chance.uniform(-1, 1) for _ in range(FEATURES)]
    made = []
    for _ in range(SAMPLES):
        features = (1.0, *(chance.gauss(0, 1) for _ in range(FEATURES - 1)))
        side = sum(map(float.__mul__, plane, features)) + chance.gauss(0, 0.3)
        made.append(Sample(features, int(side > 0)))
    return made


def share(rank: int, ranks: int) -> list[Sample]:
    """The samples that are this rank's."""
    return samples()[rank::ranks]


def gradient(weights: Vector, own: Sequence[Sample]) -> Vector:
    """The gradient of the cross-entropy, summed over the samples; last, the cross-entropy."""
    total = [0.0] * FEATURES
    loss = 0.0
    for sample in own:
        score = sum(map(float.__mul__, weights, sample.features))
        probability = 1 / (1 + math.exp(-score))
        loss -= math.log(probability if sample.label else 1 - probability)
        error = probability - sample.label
        for index, feature in enumerate(sample.features):
            total[index] += error * feature
    return (*total, loss)


def stepped(state: State, gradients: Sequence[Vector]) -> State:
    """The state after one step with the gradients of all ranks, in the order of the ranks."""
    *slope, loss = (sum(column) / SAMPLES for column in zip(*gradients, strict=True))
    weights = (w - LEARNING_RATE * s for w, s in zip(state.weights, slope, strict=True))
    return State(state.step + 1, tuple(weights), loss)


def undisturbed(ranks: int) -> State:
    """What the training ends with when nothing goes wrong."""
    shares = [share(rank, ranks) for rank in range(ranks)]
    state = START
    while state.step < STEPS:
        state = stepped(state, [gradient(state.weights, own) for own in shares])
    return state


@dataclass(frozen=True)
class Exchange:
    """Hands every rank the vectors of all ranks, through files in a directory that all see."""

    directory: Path
    generation: int
    rank: int
    ranks: int

    def all(self, step: int, own: Vector) -> list[Vector]:
        """The vectors of all ranks for this step, in order; ends the process if one never comes."""
        write_atomically(self._file(step, self.rank), json.dumps(own))
        deadline = time.monotonic() + PATIENCE_SECONDS
        vectors = [self._wait(step, rank, deadline) for rank in range(self.ranks)]
        # Whoever has come to this step has read everything of the step before.
        self._file(step - 1, self.rank).unlink(missing_ok=True)
        return vectors

    def _wait(self, step: int, rank: int, deadline: float) -> Vector:
        file = self._file(step, rank)
        if not appears(file, deadline):
            sys.exit(f"rank {rank} gave no gradient for step {step} in {PATIENCE_SECONDS:g} s")
        return tuple(json.loads(file.read_text()))

    def _file(self, step: int, rank: int) -> Path:
        return self.directory / f"generation-{self.generation}-step-{step}-rank-{rank}.json"


def appears(file: Path, deadline: float) -> bool:
    """Whether it exists before the deadline (time.monotonic)."""
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def write_atomically(path: Path, text: str) -> None:
    """Readers see the file complete, or the one before it, or none."""
    new = path.with_suffix(f".new-{os.getpid()}")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def saved(state: State) -> str:
    return json.dumps({"step": state.step, "weights": state.weights, "loss": state.loss})


def loaded(checkpoint: Path) -> State:
    """The state in the checkpoint; the start where there is none."""
    if not checkpoint.exists():
        return START
    document = json.loads(checkpoint.read_text())
    return State(document["step"], tuple(document["weights"]), document["loss"])


def die(step: int) -> None:
    when = f"after step {step}" if step else "before the first step"
    print(f"kills itself {when} with SIGKILL, as if memory had run out")
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shared", type=Path, help="a directory that all ranks see")
    parser.add_argument("--victim", type=int, help="the rank that kills itself")
    parser.add_argument("--dies-at", type=int, nargs="*", help="after so many steps, each time")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="a step takes longer by so")
    parser.add_argument("--orphan", type=int, help="the rank that kills its parent in generation 1")
    parser.add_argument("--orphaned-at", type=int, help="in this step")
    arguments = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    checkpoint = arguments.shared / "checkpoint.json"
    gradients = arguments.shared / "gradients"
    gradients.mkdir(exist_ok=True)

    exchange = Exchange(gradients, generation, rank, ranks)
    own = share(rank, ranks)
    state = start = loaded(checkpoint)
    if state.step:
        print(f"successfully loaded checkpoint from {checkpoint.name} at iteration {state.step}")
    else:
        print(f"starts with {len(own)} of {SAMPLES} samples; there is no checkpoint yet")
    while state.step < STEPS:
        time.sleep(arguments.step_seconds)
        if rank == arguments.victim and arguments.dies_at[generation:][:1] == [state.step]:
            if generation:
                appears(arguments.shared / STANDBYS_ARE_READY, time.monotonic() + PATIENCE_SECONDS)
            die(state.step)
        if (generation, rank, state.step) == (1, arguments.orphan, arguments.orphaned_at):
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until its guardian ends us
        state = stepped(state, exchange.all(state.step, gradient(state.weights, own)))
        if rank == 0 and (state.step == start.step + 1 or state.step % PRINTED_STEPS == 0):
            print(f"iteration {state.step}/{STEPS} | loss: {state.loss:.6f} |")
        if rank == 0 and state.step % CHECKPOINT_STEPS == 0:
            write_atomically(checkpoint, saved(state))
            print(f"successfully saved checkpoint from iteration {state.step} to {checkpoint.name}")
    print(f"trained {state.step} steps: loss {state.loss:.6f}, weights {state.digest[:16]}")


if __name__ == "__main__":
    main()
