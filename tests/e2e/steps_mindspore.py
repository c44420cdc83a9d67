"""A training with MindSpore's own loop and monitors; a callback keeps the truth.

    steps_mindspore.py DIRECTORY FATAL_STEP

The last rank is killed in its first life, before the step after FATAL_STEP. The next life goes on
with the epoch after the last one that was saved.
"""

# mypy: ignore-errors
# (MindSpore belongs to the group e2e_mindspore; elsewhere there is nothing to check against.)

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from diary_of_steps import DiaryOfSteps
from mindspore import Tensor, nn, ops, train
from mindspore.communication import get_group_size, get_rank, init
from mindspore.dataset import GeneratorDataset

EPOCHS, BATCHES = 3, 20


class Sum(nn.Cell):
    """Ranks wait for each other, as they do where they share gradients."""

    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        return self.reduce(x)


class Truth(train.Callback):
    def __init__(self, diary, fatal_step, epochs_done):
        self.diary, self.fatal_step, self.epochs_done = diary, fatal_step, epochs_done
        self.sum = Sum()

    def on_train_step_begin(self, run_context):
        self.sum(Tensor(np.ones(1, np.float32)))
        is_victim = not self.epochs_done and get_rank() == get_group_size() - 1
        # The step that begins is counted already.
        if is_victim and run_context.original_args().cur_step_num > self.fatal_step:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_step_end(self, run_context):
        time.sleep(0.02)
        if self.diary:
            step = run_context.original_args().cur_step_num  # of this life
            self.diary.write("step", self.epochs_done * BATCHES + step)


def samples():
    for _ in range(4 * BATCHES):
        x = np.random.default_rng().standard_normal(4).astype(np.float32)
        yield x, x.sum(keepdims=True)


def main(directory: Path, fatal_step: int) -> None:
    ms.set_device("CPU")
    init()
    is_first = get_rank() == 0
    out = directory / "out"
    saved = sorted(out.glob("*.ckpt"), key=lambda one: one.stat().st_mtime)
    net = nn.Dense(4, 1)
    epochs_done = 0
    if saved:
        ms.load_param_into_net(net, ms.load_checkpoint(str(saved[-1])))
        epochs_done = int(saved[-1].stem.rpartition("-")[2].split("_")[0])
    diary = DiaryOfSteps(str(directory / "diary")) if is_first else None
    if diary:
        diary.write("resumed", epochs_done * BATCHES)
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
    callbacks = [Truth(diary, fatal_step, epochs_done), train.LossMonitor(1), train.TimeMonitor()]
    if is_first:
        config = train.CheckpointConfig(save_checkpoint_steps=BATCHES)
        callbacks.append(train.ModelCheckpoint("line", str(out), config))
    data = GeneratorDataset(samples, ["x", "y"]).batch(4)
    model.train(
        EPOCHS, data, callbacks=callbacks, dataset_sink_mode=False, initial_epoch=epochs_done
    )
    Sum()(Tensor(np.ones(1, np.float32)))  # nobody leaves before all have finished


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
