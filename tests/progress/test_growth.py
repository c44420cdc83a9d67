"""What is kept of a job does not grow with its steps, checkpoints, generations and noise."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord

pytestmark = pytest.mark.thorough

MANY = 8192
"""Twice what the largest cache holds; then all is as full as it was."""
MOST_BLOCKS = MANY // 8
"""One object for each of MANY would be more."""


def steps_and_checkpoints() -> Callable[[int], None]:
    job = TrainingRecord(60.0, 0.0)
    job.begin(0, 0.0)

    def go_on(number: int) -> None:
        at = float(number)
        job.take([Reading(at, "megatron", number + 1, seconds=1.0, checkpoint=number)], number % 8)

    return go_on


def generations() -> Callable[[int], None]:
    job = TrainingRecord(60.0, 0.0)

    def go_on(number: int) -> None:
        at = float(10 * number)
        job.wait(at)
        job.begin(number, at + 1)
        job.take([Reading(at + 2 + step, "megatron", number + step) for step in range(3)], 0)
        job.stop(at + 7, hung=number % 2 == 0)
        job.end(at + 8)

    return go_on


def marks_and_labels() -> Callable[[int], None]:
    reader = Reader()
    noise = "x" * 60

    def go_on(number: int) -> None:
        line = f"[rank{number}]: step {number}/{number + 9} | loss 1\n"
        bar = f"{noise} {number} train: 14%|#  | {number}/{number + 9} [00:07<00:47,  7.5it/s]\r"
        reader.read((line + bar).encode(), float(number))

    return go_on


@pytest.mark.parametrize("kind", [steps_and_checkpoints, generations, marks_and_labels])
def test_it_stays_as_large_as_it_is(kind):
    go_on = kind()
    sizes = []
    for start in (0, MANY):
        for number in range(start, start + MANY):
            go_on(number)
        gc.collect()
        sizes.append(sys.getallocatedblocks())
    assert sizes[1] - sizes[0] < MOST_BLOCKS
