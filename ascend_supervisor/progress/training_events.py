"""What is told of a training as it goes on; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import median

from ascend_supervisor.events import Event
from ascend_supervisor.events.training import (
    TrainingNormal,
    TrainingProgress,
    TrainingSlow,
    TrainingStarted,
)
from ascend_supervisor.progress.generation_steps import GenerationSteps
from ascend_supervisor.progress.pace import RECENT, Slow, StepTimes, slow_rank
from ascend_supervisor.progress.progress import KnownProgress
from ascend_supervisor.progress.reading import Reading


def started(generation: GenerationSteps, reading: Reading) -> TrainingStarted:
    """The first step of ``generation``, which ``reading`` tells."""
    generation.told_at = reading.at
    return TrainingStarted(
        generation=generation.number,
        step=reading.step or 0,
        start_seconds=round(reading.at - generation.began, 3),
        rank=generation.rank,
        format=generation.format,
        resumed_step=generation.resumed,
        steps_lost=generation.steps_lost,
    )


def how_far(generation: int, known: KnownProgress) -> TrainingProgress:
    """How far the training is in this generation."""
    percent, left = known.percent, known.seconds_left
    pace = known.seconds_per_step
    return TrainingProgress(
        generation=generation,
        step=known.step,
        steps=known.steps,
        epoch=known.epoch,
        percent=None if percent is None else round(percent, 1),
        seconds_per_step=None if pace is None else _rounded(pace),
        eta_seconds=None if left is None else round(left, 1),
    )


def paced(generation: int, step: int, before: Slow | None, times: StepTimes) -> Iterator[Event]:
    """That steps are slow since this ``step``, or usual again; they were ``before``."""
    now = times.slow
    if now is not None and before is None:
        yield TrainingSlow(generation, step, _rounded(now.now), _rounded(now.usual))
    if now is None and before is not None:
        pace = times.seconds_per_step or before.usual
        yield TrainingNormal(generation, step, _rounded(pace), _rounded(before.usual))


def pace_of_rank(
    generation: GenerationSteps, reading: Reading, rank: int | None
) -> Iterator[Event]:
    """Which rank is slower than the others, where each tells how long its steps take."""
    if reading.seconds is None or reading.step is None or rank is None:
        return
    generation.paces.setdefault(rank, deque(maxlen=RECENT)).append(reading.seconds)
    full = {one: median(told) for one, told in generation.paces.items() if len(told) == RECENT}
    before, generation.slow = generation.slow, slow_rank(full)
    if generation.slow is not None and before is None:
        now = generation.slow
        told = (_rounded(now.now), _rounded(now.usual), now.rank)
        yield TrainingSlow(generation.number, reading.step, *told)
    if generation.slow is None and before is not None and before.rank is not None:
        told = (_rounded(full[before.rank]), _rounded(before.usual), before.rank)
        yield TrainingNormal(generation.number, reading.step, *told)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
