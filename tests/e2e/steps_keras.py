"""A training with Keras on torch and its own bar; a callback keeps the truth.

    steps_keras.py DIRECTORY FATAL_STEP

It is killed in its first life, before the step after FATAL_STEP. The next life goes on with the
epoch after the last one that was saved.
"""

# mypy: ignore-errors
# (Keras belongs to the group e2e_frameworks; without it there is nothing to check against.)

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from diary_of_steps import DiaryOfSteps

EPOCHS, BATCHES, BATCH = 3, 20, 8


class Truth(keras.callbacks.Callback):
    def __init__(self, diary, fatal_step, epochs_done):
        super().__init__()
        self.diary, self.fatal_step, self.step = diary, fatal_step, epochs_done * BATCHES
        self.is_first_life = not epochs_done

    def on_train_batch_begin(self, batch, logs=None):
        if self.is_first_life and self.step == self.fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
        self.step += 1
        self.diary.write("step", self.step)


class Saved(keras.callbacks.ModelCheckpoint):
    def __init__(self, diary, path):
        super().__init__(path, verbose=1)
        self.diary = diary

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        self.diary.write("saved", (epoch + 1) * BATCHES)


def main(directory: Path, fatal_step: int) -> None:
    out = directory / "out"
    out.mkdir(exist_ok=True)
    saved = sorted(out.glob("*.keras"))
    epochs_done = int(saved[-1].stem) if saved else 0
    diary = DiaryOfSteps(str(directory / "diary"))
    diary.write("resumed", epochs_done * BATCHES)
    if saved:
        model = keras.saving.load_model(saved[-1])
    else:
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
    features = np.random.default_rng().standard_normal((BATCHES * BATCH, 4)).astype(np.float32)
    labels = features.sum(axis=1, keepdims=True)
    model.fit(
        features,
        labels,
        batch_size=BATCH,
        epochs=EPOCHS,
        initial_epoch=epochs_done,
        validation_data=(features, labels),
        callbacks=[
            Truth(diary, fatal_step, epochs_done),
            Saved(diary, str(out / "{epoch:02d}.keras")),
        ],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
