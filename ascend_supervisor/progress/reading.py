"""What one record of an output says about the training; a value; pure."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ascend_supervisor.outcome import Seconds

MOST_STEPS = 10**12
StepNumber = Annotated[int, Meta(ge=0, le=MOST_STEPS)]
Lasting = Annotated[float, Meta(ge=0, le=1e10)]
"""Seconds, up to 300 years."""
FormatName = Annotated[str, Meta(pattern="^[ -~]{1,100}$")]


class Reading(Struct, frozen=True):
    """Read at ``at`` (seconds, of the caller's clock), in the format of this name.

    ``step`` is the number of steps that are done, and ``steps`` how many there are in all; in a
    format that counts within the epoch only (``is_within_epoch``) it is the step of ``epoch``.
    ``epoch`` is as it was printed: some count from 0. ``seconds`` is the time of a step.
    ``checkpoint`` is the step up to which the training is saved, ``resumed`` the one from which
    it goes on. None is not told; without a step, ``seconds`` are of those before. ``doubt`` is how
    doubtful it is that the step is one of the training: 0 if nothing else is written like this.
    ``is_ending``: a launcher ends its workers, of whom some more steps may come.
    """

    at: Seconds
    format: FormatName
    step: StepNumber | None = None
    steps: StepNumber | None = None
    epoch: StepNumber | None = None
    seconds: Lasting | None = None
    checkpoint: StepNumber | None = None
    resumed: StepNumber | None = None
    is_within_epoch: bool = False
    doubt: StepNumber = 0
    is_ending: bool = False
