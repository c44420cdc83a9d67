"""How long the steps of a job take: what is usual, what is slow, and what is a stall; pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.progress.account import EPOCH, KeptAccount

SHOWN = 20
"""The seconds per step that people see are the median of so many samples."""
RECENT, BEFORE = 5, 100
"""These are compared: the latest samples, and those before them."""
MORE_RECENT = 25
"""Where the times vary much, so many tell what RECENT ones cannot."""
WARM_UP = 10
"""The first samples of a generation are never called slow: caches are cold, graphs compiled."""
SAMPLE_SECONDS = 0.5
"""A sample covers at least this much: outputs are looked at every 50 ms, so times are as coarse."""

SLOW = 1.25
"""Between the noise of a steady job and 30 % over the usual, which is to be noticed."""
SLOW_RANK = 1.3
NORMAL = 1.1
RARE = 5
"""So many of the samples before may be pauses (evaluations, checkpoints) and tell no spread."""
CLEAR = 1.5
"""All of a few samples have to be so much further from the usual than those before, in logs."""

PAUSES = 10
"""A limit is learnt from this many pauses on."""
STALL = 5.0
"""A stall is so many times the longest pause."""
LEAST_LIMIT = 60.0
FIRST_STEP_SECONDS = 1800.0
"""How long a first step may take, and any until a limit is learnt: a graph may compile so long."""


class Slow(Struct, frozen=True):
    """``now`` seconds per step, where ``usual`` ones were usual; ``rank`` is None for the job."""

    usual: float
    now: float
    rank: int | None = None


class SeenStep(Struct, frozen=True):
    step: int
    at: float


class StepTimes(Struct, frozen=True):
    """What the steps of a job have taken so far, over all its generations.

    ``samples`` are seconds per step, the latest last: steps that came within SAMPLE_SECONDS, or
    in one reading, are one sample. ``pauses`` counts the times from one step that was seen to the
    next, ``longest`` is the longest. ``slow`` is there from the moment when steps are slow until
    they are normal again; ``now`` in it is of that moment.
    """

    samples: tuple[float, ...] = ()
    pauses: int = 0
    longest: float = 0.0
    slow: Slow | None = None
    in_generation: int = 0
    sample_from: SeenStep | None = None
    last: SeenStep | None = None
    patience: float = 0.0
    patient_until: int = 0

    @property
    def seconds_per_step(self) -> float | None:
        return median(self.samples[-SHOWN:]) if self.samples else None

    @property
    def stall_limit(self) -> float:
        """Seconds without a step after which a job does not go on.

        The longest pause counts as it was, however many steps were seen at its end.
        """
        least = LEAST_LIMIT if self.pauses >= PAUSES else FIRST_STEP_SECONDS
        return max(STALL * self.longest, least, self.patience)

    def is_silent(self, at: float) -> bool:
        """Whether the last step is more than twice as long ago as any pause between two took.

        A step that only took a little longer than all others is no silence.
        """
        return self.last is not None and self.pauses > 0 and at - self.last.at > 2 * self.longest

    def steps(self, step: int, at: float) -> StepTimes:
        """``step`` was seen at ``at`` seconds; a step that was seen before says nothing new."""
        seen = SeenStep(step, at)
        last = self.last
        if last is None:
            return replace(self, last=seen, sample_from=seen)
        if step == last.step:
            return self
        pause = at - last.at
        times = replace(
            self,
            last=seen,
            pauses=self.pauses + 1,
            longest=max(self.longest, pause),
            patience=0.0 if step > self.patient_until else self.patience,
        )
        return _with_sample(times, seen)

    def starts(self) -> StepTimes:
        """A generation begins: the time until its first step is no pause."""
        return replace(self, last=None, sample_from=None, in_generation=0)

    def kept_in(self, account: KeptAccount) -> KeptAccount:
        """``account`` with what a later start needs to judge stalls as this one does."""
        longest = round(self.longest, 3)
        return replace(account, pauses=self.pauses, longest_pause_seconds=longest)

    def gave_up(self, silent: float) -> StepTimes:
        """The generation is ended because it was silent for so many seconds.

        This may have been an evaluation that takes longer than any pause before. Until a later
        step is seen, the limit is at least twice as long, so that the job can get past this place.
        """
        if self.last is None:
            return self
        return replace(self, patience=2 * silent, patient_until=self.last.step)


def learnt(earlier: KeptAccount | None) -> StepTimes:
    """What earlier starts have learnt; how long a step takes is measured anew."""
    if earlier is None:
        return StepTimes()
    return StepTimes(pauses=earlier.pauses, longest=earlier.longest_pause_seconds)


def slow_rank(seconds_per_step: Mapping[int, float]) -> Slow | None:
    """The slowest rank, if it takes 30 % more than the median of the others."""
    rank = max(seconds_per_step, key=lambda one: seconds_per_step[one], default=None)
    others = [seconds for other, seconds in seconds_per_step.items() if other != rank]
    if rank is None or not others:
        return None
    now, usual = seconds_per_step[rank], median(others)
    return Slow(usual, now, rank) if now >= SLOW_RANK * usual > 0 else None


def _with_sample(times: StepTimes, seen: SeenStep) -> StepTimes:
    """A step number that goes back says nothing of how long a step takes.

    Nor does one of another epoch, if steps begin anew in each: how many an epoch has is not known.
    """
    begin = times.sample_from
    if begin is None or not 0 < seen.step - begin.step < EPOCH // 2:
        return replace(times, sample_from=seen)
    seconds = seen.at - begin.at
    if seconds < SAMPLE_SECONDS:
        return times
    sample = seconds / (seen.step - begin.step)
    times = replace(
        times,
        samples=(*times.samples[-(BEFORE + MORE_RECENT - 1) :], sample),
        in_generation=times.in_generation + 1,
        sample_from=seen,
    )
    return replace(times, slow=_slow(times))


def _slow(times: StepTimes) -> Slow | None:
    """Slow steps stay slow until they are nearly as fast again as was usual before them."""
    recent = times.samples[-RECENT:]
    if times.in_generation < WARM_UP + RECENT:
        return times.slow
    if times.slow is not None:
        now = max(median(recent), median(times.samples[-MORE_RECENT:]))
        return times.slow if now > NORMAL * times.slow.usual else None
    return _slower(times.samples, RECENT) or _slower(times.samples, MORE_RECENT)


def _slower(samples: tuple[float, ...], count: int) -> Slow | None:
    """Whether the last ``count`` samples are slow; noise alone makes it so once in 10,000,000.

    Of a few samples, all have to be clearly beyond the noise; of many, half of them.
    """
    recent, before = samples[-count:], sorted(samples[-count - BEFORE : -count])
    if len(before) < BEFORE:
        return None
    now, usual, high = median(recent), median(before), before[-RARE - 1]
    few = count == RECENT
    is_noise = min(recent) <= usual * (high / usual) ** CLEAR if few else now <= high
    return Slow(usual, now) if now >= SLOW * usual and not is_noise else None
