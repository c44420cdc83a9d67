"""How far the training is; values, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.progress.account import KeptAccount, Position
from ascend_supervisor.progress.reading import FormatName, Lasting, Reading, StepNumber


class KnownProgress(Struct, frozen=True):
    """How far the training is; ``rank`` and ``format`` say who told it, and in which format.

    Moments (``_at``) are seconds of ``Clock.elapsed``. ``epoch`` is that of the step, where the
    ranks count epochs.
    """

    step: int
    step_at: float
    rank: int | None
    format: str
    steps: int | None = None
    epoch: int | None = None
    seconds_per_step: float | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    resumed_step: int | None = None

    @property
    def percent(self) -> float | None:
        """Of all steps; None if it is not known how many there are."""
        return 100 * min(self.step / self.steps, 1.0) if self.steps else None

    @property
    def seconds_left(self) -> float | None:
        """At the current pace."""
        if self.steps is None or self.seconds_per_step is None:
            return None
        return max(self.steps - self.step, 0) * self.seconds_per_step

    @property
    def is_complete(self) -> bool:
        return self.steps is not None and self.step >= self.steps


class Standstill(Struct, frozen=True):
    """No step has come after ``step`` (None: none at all) ``since``, seconds of ``elapsed``.

    ``seen`` is what a look at the ranks has found.
    """

    step: int | None
    since: float
    seen: str


class ProgressStatus(Struct, frozen=True, kw_only=True):
    """What the state file says of the training; times are RFC 3339, UTC.

    Without a step in this run, only what earlier starts have left is there.
    ``account`` has the seconds by category, ``percent_training`` the part of them in which steps
    were trained for the first time. These, ``generations`` and ``hangs`` count all starts in this
    place, and ``best_step`` (of ``best_epoch``, if steps begin anew in each) is the furthest one.
    ``stalled_since`` is null unless the training stands still, as ``training.stalled`` has told.
    """

    step: StepNumber | None = None
    steps: StepNumber | None = None
    epoch: StepNumber | None = None
    seconds_per_step: Lasting | None = None
    last_step_time: str | None = None
    checkpoint_step: StepNumber | None = None
    checkpoint_time: str | None = None
    resumed_step: StepNumber | None = None
    rank: StepNumber | None = None
    format: FormatName | None = None
    account: Mapping[str, Lasting]
    percent_training: Lasting | None
    best_step: StepNumber | None
    best_epoch: StepNumber
    generations: StepNumber
    hangs: StepNumber
    pauses: StepNumber = 0
    longest_pause_seconds: Lasting = 0.0
    stalled_since: str | None = None
    stalled_step: StepNumber | None = None
    stalled_seen: str = ""

    @property
    def kept(self) -> KeptAccount:
        """What a later start in the same place goes on with."""
        return KeptAccount(
            self.account,
            self.percent_training,
            self.best_step,
            self.best_epoch,
            self.generations,
            self.hangs,
            self.pauses,
            self.longest_pause_seconds,
        )


class SharedSteps(Struct, frozen=True):
    """What the ranks of one server have told in a generation, for the other servers.

    ``reading`` came ``age`` seconds before this was written; its own moment means nothing there.
    ``account`` is that of the job when this was ``written`` (seconds since 1970, on that server).
    """

    generation: StepNumber
    rank: StepNumber | None
    age: Lasting
    reading: Reading
    account: KeptAccount | None = None
    written: Lasting = 0.0


def position_of(reading: Reading) -> Position:
    """Where its step is."""
    epoch = reading.epoch or 0 if reading.is_within_epoch else 0
    return Position(epoch, reading.step or 0)


def steps_lost(best: Position | None, saved: int | None) -> int | None:
    """How many steps are not in a checkpoint of ``saved``; None if steps begin anew in epochs."""
    if best is None or saved is None or best.epoch:
        return None
    return max(best.step - saved, 0)


def status_of(
    known: KnownProgress | None,
    account: KeptAccount,
    now: float,
    day: datetime,
    stall: Standstill | None = None,
) -> ProgressStatus:
    """What the state file says at this time of ``day`` (UTC), which is ``now`` on the clock."""

    def at(moment: float) -> str:
        return rfc3339(day - timedelta(seconds=now - moment))

    status = ProgressStatus(
        account=account.account,
        percent_training=account.percent_training,
        best_step=account.best_step,
        best_epoch=account.best_epoch,
        generations=account.generations,
        hangs=account.hangs,
        pauses=account.pauses,
        longest_pause_seconds=account.longest_pause_seconds,
    )
    if stall is not None:
        since, seen = at(stall.since), stall.seen
        status = replace(status, stalled_since=since, stalled_step=stall.step, stalled_seen=seen)
    if known is None:
        return status
    return replace(
        status,
        step=known.step,
        steps=known.steps,
        epoch=known.epoch,
        seconds_per_step=known.seconds_per_step,
        last_step_time=at(known.step_at),
        checkpoint_step=known.checkpoint_step,
        checkpoint_time=None if known.checkpoint_at is None else at(known.checkpoint_at),
        resumed_step=known.resumed_step,
        rank=known.rank,
        format=known.format,
    )


def rfc3339(moment: datetime) -> str:
    """With milliseconds, in UTC."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
