"""The training itself: how far it is, and when it stands still or slows down."""

from __future__ import annotations

from typing import ClassVar

from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted, duration, step_seconds


class TrainingStarted(Event, frozen=True):
    """The first step of a generation, ``start_seconds`` after its first process.

    ``rank`` and ``format`` say who told it, and in which of the known formats. ``resumed_step`` is
    where the ranks say that they went on, and ``steps_lost`` how many steps of earlier generations
    come after that; null if they do not. ``warm``: all ranks of this server had been standbys.
    """

    name: ClassVar[str] = "training.started"
    generation: int
    step: int
    start_seconds: float
    rank: int | None
    format: str
    resumed_step: int | None = None
    steps_lost: int | None = None
    warm: bool = False

    @property
    def sentence(self) -> str:
        resumed = "" if self.resumed_step is None else f", resumed at step {self.resumed_step:,}"
        again = f", {counted(self.steps_lost, 'step')} lost" if self.steps_lost else ""
        return (
            f"generation {self.generation} trains: step {self.step:,} came "
            f"{self.start_seconds:.1f} s after the {'warm ' * self.warm}start{resumed}{again}"
        )


class TrainingProgress(Event, frozen=True):
    """``eta_seconds`` is the time that is left at the current pace; null where it is unknown."""

    name: ClassVar[str] = "training.progress"
    generation: int
    step: int
    steps: int | None
    epoch: int | None
    percent: float | None
    seconds_per_step: float | None
    eta_seconds: float | None

    @property
    def sentence(self) -> str:
        steps = "" if self.steps is None else f" of {self.steps:,} ({self.percent:.0f} %)"
        epoch = "" if self.epoch is None else f", epoch {self.epoch}"
        seconds = self.seconds_per_step
        pace = "" if seconds is None else f", {step_seconds(seconds)} a step"
        left = "" if not self.eta_seconds else f", {duration(self.eta_seconds)} left"
        return f"step {self.step:,}{steps}{epoch}{pace}{left}"


class CheckpointSaved(Event, frozen=True):
    """Everything up to ``step`` is saved, by the ranks' own words."""

    name: ClassVar[str] = "checkpoint.saved"
    generation: int
    step: int

    @property
    def sentence(self) -> str:
        return f"checkpoint of step {self.step:,} saved"


class TrainingStalled(Event, frozen=True):
    """``step`` is the last one; null if none has come. Nothing is ended because of this event.

    ``seen`` is what a look at the ranks has found.
    """

    name: ClassVar[str] = "training.stalled"
    level: ClassVar[Level] = "warning"
    generation: int
    step: int | None
    silent_seconds: float
    limit_seconds: float
    seen: str = ""

    @property
    def sentence(self) -> str:
        since = "no first step" if self.step is None else f"no step after step {self.step:,}"
        seen = f"; {self.seen}" if self.seen else ""
        return (
            f"the training stands still: {since} for {duration(self.silent_seconds)}, expected "
            f"within {duration(self.limit_seconds)}{seen}; the ranks go on "
            "(--hang-timeout auto would end them)"
        )


class TrainingResumed(Event, frozen=True):
    """Steps go on after ``training.stalled``; the pause is no longer unusual."""

    name: ClassVar[str] = "training.resumed"
    generation: int
    step: int
    silent_seconds: float
    limit_seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"the training goes on with step {self.step:,} after {duration(self.silent_seconds)}; "
            f"the next notice comes after {duration(self.limit_seconds)} without one"
        )


class TrainingSlow(Event, frozen=True):
    """``rank`` is the one that is slower than the others; null if all are, or that is unknown."""

    name: ClassVar[str] = "training.slow"
    level: ClassVar[Level] = "warning"
    generation: int
    step: int
    seconds_per_step: float
    usual_seconds_per_step: float
    rank: int | None = None

    @property
    def sentence(self) -> str:
        who = "the training" if self.rank is None else f"rank {self.rank}"
        usual = "before" if self.rank is None else "on the other ranks"
        return (
            f"{who} is slow at step {self.step:,}: {step_seconds(self.seconds_per_step)} a step, "
            f"{step_seconds(self.usual_seconds_per_step)} {usual}"
        )


class TrainingNormal(Event, frozen=True):
    """What ``training.slow`` has told is over."""

    name: ClassVar[str] = "training.normal"
    generation: int
    step: int
    seconds_per_step: float
    usual_seconds_per_step: float
    rank: int | None = None

    @property
    def sentence(self) -> str:
        who = "the training" if self.rank is None else f"rank {self.rank}"
        return (
            f"{who} is as fast as before at step {self.step:,}: "
            f"{step_seconds(self.seconds_per_step)} a step"
        )
