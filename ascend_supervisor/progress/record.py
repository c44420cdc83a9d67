"""What is known of the training, over all generations of a run; times are parameters; pure.

Steps that ranks tell become events, the pace of the training and the account of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.training import CheckpointSaved, TrainingResumed
from ascend_supervisor.outcome import Reached
from ascend_supervisor.progress.account import Account, KeptAccount, Position, beginning
from ascend_supervisor.progress.generation_steps import LATE_STEPS, GenerationSteps
from ascend_supervisor.progress.pace import FIRST_STEP_SECONDS, StepTimes, learnt
from ascend_supervisor.progress.progress import (
    KnownProgress,
    ProgressStatus,
    SharedSteps,
    Standstill,
    position_of,
    status_of,
    steps_lost,
)
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.training_events import how_far, pace_of_rank, paced, started


class TrainingRecord:
    """``take`` what ranks tell, and return what is to be reported.

    The rest of its methods say what the job does: ``wait``, ``begin``, ``stop`` and ``end`` of a
    generation. Moments are seconds of ``Clock.elapsed``; ``interval`` is that of
    ``training.progress``. ``earlier`` is the account of earlier starts in this place.
    """

    def __init__(self, interval: float, now: float, earlier: KeptAccount | None = None) -> None:
        self._interval = interval
        self._account: Account = beginning(now, earlier)
        self._times = learnt(earlier)
        self._progress: KnownProgress | None = None
        self._generation: GenerationSteps | None = None
        self._best: Position | None = self._account.best
        self.steps_told = 0
        """Goes up with every new step."""
        self._steps_timed = 0
        self._stepless: tuple[Account, StepTimes, KnownProgress | None]
        self._stepless = self._account, self._times, None
        """As they were before the first step of this generation."""

    @property
    def step(self) -> int | None:
        """The last one of this generation."""
        reached = None if self._generation is None else self._generation.reached
        return None if reached is None else reached.step

    @property
    def teller(self) -> int | None:
        """The rank that tells the steps; None if it is unknown."""
        return None if self._generation is None else self._generation.rank

    @property
    def longest_pause(self) -> float | None:
        """The longest time between two steps so far, in seconds; None before the second one."""
        return self._times.longest if self._times.pauses else None

    def go_on(self, account: KeptAccount, now: float) -> None:
        """Go on with the account of the job, if it has more generations than are known here."""
        if account.generations > self._account.generations:
            self._account, self._times = beginning(now, account), learnt(account)
            self._best = self._account.best

    def wait(self, now: float) -> None:
        """A generation is being prepared."""
        self._account = self._account.waits(now)

    def begin(self, generation: int, now: float) -> None:
        """The first process of a generation is about to start."""
        last = self._generation
        if last is None:
            self._generation = GenerationSteps(generation, now, self._best)
        else:  # only now: other servers may tell more after its end
            self._best = self._furthest(last)
            self._generation = last.following(generation, now, self._best)
        self._account, self._times = self._account.starts(now), self._times.starts()
        self._stepless = self._account, self._times, self._progress

    def stop(self, now: float, *, hung: bool, completed: bool = False) -> None:
        """The first reason to end: from now on ranks are being stopped."""
        is_silent = (self._times.is_silent(now) or self._stall is not None) and not completed
        self._account = self._account.stops(now, is_hang=hung, is_silent=is_silent)
        if self._generation is not None:
            self._generation.stall = None
        if hung and self._progress is not None:
            self._times = self._times.gave_up(now - self._progress.step_at)

    def end(self, now: float) -> Reached:
        """No process is left: how far the generation came."""
        self._account = self._account.stopped(now)
        if self._generation is not None:
            self._generation.has_ended = True
        return self.reached

    @property
    def reached(self) -> Reached:
        """How far the generation has come."""
        generation = self._generation
        if generation is None:
            return Reached()
        at, furthest, best = generation.reached, generation.furthest, generation.best
        is_further = furthest is not None and (
            best is None or furthest > best or not generation.is_comparable
        )
        return Reached(
            step=None if at is None else at.step,
            best=None if best is None else best.step,
            lost=self._lost(generation),
            is_stuck=best is not None and not is_further,
            short=generation.short,
        )

    def _lost(self, generation: GenerationSteps) -> int | None:
        """How many steps are in no checkpoint that the ranks have saved, or have gone on with."""
        saved = None if self._progress is None else self._progress.checkpoint_step
        if generation.checkpoint is not None:
            saved = generation.checkpoint
        elif generation.resumed is not None:
            saved = generation.resumed
        return steps_lost(self._furthest(generation), saved) if generation.is_comparable else None

    def _furthest(self, generation: GenerationSteps) -> Position | None:
        known = [at for at in (generation.best, generation.furthest) if at is not None]
        return max(known, default=None)

    def limit(self, *, told_here: bool) -> float | None:
        """Seconds without a step after which the training stands still; None if none is known.

        ``told_here``: steps are to be expected on this server. After the last step none is.
        """
        if self._generation is None:
            return None
        if self.step is None:
            return FIRST_STEP_SECONDS if told_here or self._best is not None else None
        is_complete = self._progress is not None and self._progress.is_complete
        return None if is_complete else self._times.stall_limit

    def stalled(self, since: float, seen: str) -> None:
        """It is told that no step has come ``since``, and what was ``seen`` of the ranks."""
        if self._generation is not None:
            self._generation.stall = Standstill(self.step, since, seen)

    @property
    def _stall(self) -> Standstill | None:
        return None if self._generation is None else self._generation.stall

    def take(self, readings: Sequence[Reading], rank: int | None) -> list[Event]:
        """What follows from ``readings`` of one look at the output of ``rank`` (None: of several).

        How long their steps took is known of the last one of each moment only.
        """
        generation = self._generation
        if generation is None:
            return []
        events: list[Event] = []
        last: Reading | None = None
        for reading in readings:
            if not generation.believes(reading):
                continue
            if generation.is_overtaken(reading):
                self._forget(generation)
                last = None
            if reading.step is None:
                self._hear_apart(generation, reading)
            if reading.resumed is not None:
                generation.resumed, generation.has_resumed = reading.resumed, True
                self._account = self._account.resumes(reading.resumed)
            is_first = generation.reached is None
            if (placed := generation.placed(reading, rank)) is not None:
                if last is not None and last.at != placed.at:
                    events += self._timed(generation, last)
                self.steps_told += 1
                events += [started(generation, placed)] if is_first else []
                last = placed
            events += pace_of_rank(generation, reading, rank)
        events += [] if last is None else self._timed(generation, last)
        if not generation.is_comparable:
            self._account = self._account.compares_no_more()
        return events + [event for one in readings for event in self._saved(generation, one)]

    def told(self, now: float) -> SharedSteps | None:
        """What the ranks of this server have told in this generation."""
        generation, known = self._generation, self._progress
        if generation is None or generation.reached is None or known is None or generation.is_heard:
            return None
        epoch = generation.reached.epoch
        reading = Reading(
            0.0,
            known.format,
            step=known.step,
            steps=known.steps,
            epoch=epoch or known.epoch,
            seconds=known.seconds_per_step,
            checkpoint=generation.checkpoint,
            resumed=generation.resumed,
            is_within_epoch=epoch > 0,
            doubt=generation.doubt,
        )
        age = now - known.step_at
        return SharedSteps(generation.number, generation.rank, age, reading, self.account(now))

    def hear(self, told: SharedSteps, now: float) -> list[Event]:
        """What follows from the steps of another server; nothing if ranks here tell theirs.

        Of a generation that has ended here only its best step counts.
        """
        generation = self._generation
        if generation is None or told.generation != generation.number:
            return []
        is_surer = generation.is_less_sure(told.reading)
        if generation.reached is not None and not generation.is_heard and not is_surer:
            return []
        at = max(now - max(told.age, 0.0), generation.began, self._told_at)
        events = self.take([replace(told.reading, at=at)], told.rank)
        generation.is_heard = True
        return [] if generation.has_ended else events

    def _hear_apart(self, generation: GenerationSteps, reading: Reading) -> None:
        """What is told without a step: how many there are in all, how long one takes.

        Or that workers are being ended.
        """
        if reading.is_ending:
            generation.late = LATE_STEPS
        generation.steps = generation.steps or reading.steps
        generation.seconds = reading.seconds or generation.seconds
        if self._progress is not None:
            seconds = self._seconds_per_step(self._progress.seconds_per_step, generation)
            self._progress = replace(self._progress, seconds_per_step=seconds)

    def _seconds_per_step(self, told: float | None, generation: GenerationSteps) -> float | None:
        """As it was told with the step; else as it was measured, or told apart."""
        return told or self._times.seconds_per_step or generation.seconds

    def _forget(self, generation: GenerationSteps) -> None:
        """The steps of this generation so far: they were those of something else."""
        generation.forget()
        self._account, self._times, self._progress = self._stepless
        self._account = self._account.resumes(generation.resumed or 0)
        self._steps_timed = self.steps_told

    def _timed(self, generation: GenerationSteps, reading: Reading) -> Iterator[Event]:
        """What follows from the time of a step."""
        position, pause = position_of(reading), reading.at - self._told_at
        told, self._steps_timed = self.steps_told - self._steps_timed, self.steps_told
        self._account = self._account.steps(position.step, reading.at, position.epoch, told)
        slow = self._times.slow
        self._times = self._times.steps(position.ordinal, reading.at)
        self._progress = known = self._after(generation, reading)
        if generation.stall is not None:
            generation.stall = None
            limit = round(self._times.stall_limit, 3)
            yield TrainingResumed(generation.number, known.step, round(pause, 3), limit)
        yield from paced(generation.number, known.step, slow, self._times)
        if reading.at - generation.told_at >= self._interval or known.is_complete:
            generation.told_at = reading.at
            yield how_far(generation.number, known)

    @property
    def _told_at(self) -> float:
        return 0.0 if self._progress is None else self._progress.step_at

    def _after(self, generation: GenerationSteps, reading: Reading) -> KnownProgress:
        before, step = self._progress, reading.step or 0
        if before is None or generation.checkpoint is not None:
            checkpoint, checkpoint_at = generation.checkpoint, generation.checkpoint_at
        else:
            checkpoint, checkpoint_at = before.checkpoint_step, before.checkpoint_at
        return KnownProgress(
            step=step,
            step_at=reading.at,
            rank=generation.rank,
            format=generation.format,
            steps=generation.steps,
            epoch=reading.epoch,
            seconds_per_step=self._seconds_per_step(reading.seconds, generation),
            checkpoint_step=checkpoint,
            checkpoint_at=checkpoint_at,
            resumed_step=generation.resumed,
        )

    def _saved(self, generation: GenerationSteps, reading: Reading) -> Iterator[Event]:
        saved = reading.checkpoint
        if saved is None or saved == generation.checkpoint:
            return
        generation.checkpoint, generation.checkpoint_at = saved, reading.at
        if self._progress is not None:
            known = self._progress
            self._progress = replace(known, checkpoint_step=saved, checkpoint_at=reading.at)
        yield CheckpointSaved(generation.number, saved)

    def account(self, now: float) -> KeptAccount:
        """The account of the time up to ``now``."""
        is_stalled = self._stall is not None
        return self._times.kept_in(self._account.kept(now, is_stalled=is_stalled))

    def status(self, now: float, day: datetime) -> ProgressStatus | None:
        """What is known ``now``, at this time of ``day`` (UTC); None before any step."""
        known, account, stall = self._progress, self.account(now), self._stall
        if known is None and account.percent_training is None and stall is None:
            return None
        return status_of(known, account, now, day, stall)
