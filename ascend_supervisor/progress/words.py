"""How far a job is and what its time was spent on, in sentences for people; pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from ascend_supervisor.phrases import about, counted, step_seconds
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.untrusted_text import printable

LOSSES: Mapping[str, str] = {
    "trained_again": "trained again",
    "stalled": "standing still",
    "start": "of start",
    "waiting": "of waiting",
    "stopping": "of stopping",
    "restarting": "between generations",
    "unknown": "without a step",
}
SMALL_SHARE = 0.01
"""Of the time that was not training: less is not worth a word."""


def account_sentence(kept: KeptAccount) -> str:
    """How much of the time was training, and what took the rest; empty if no step was seen."""
    if kept.percent_training is None:
        return ""
    total = sum(kept.account.values())
    trained = f"trained {kept.percent_training:.4g} % of {about(total)}"
    rest = total - kept.account.get("training", 0.0)
    losses = [(kept.account.get(one, 0.0), words) for one, words in LOSSES.items()]
    told = [
        f"{about(seconds)} {words}"
        for seconds, words in sorted(losses, key=lambda loss: -loss[0])
        if seconds >= max(SMALL_SHARE * rest, 1.0)
    ]
    return f"{trained}; the rest: {', '.join(told)}{_counts(kept)}" if told else trained


def _counts(kept: KeptAccount) -> str:
    """Not every second of the rest is theirs: there is a first start, and a first wait, too."""
    found = ((kept.generations - 1, "restart"), (kept.hangs, "hang"))
    told = ", ".join(counted(number, one) for number, one in found if number > 0)
    return f" ({told})" if told else ""


def training_line(
    known: ProgressStatus | None, now: datetime | None, *, goes_on: bool = True
) -> str:
    """How far the training is at this time of day; empty if no step is known.

    If it does not go on, or stands still, no time is left.
    """
    if known is None:
        return ""
    stands = known.stalled_since is not None
    words = status_words(
        step=known.step,
        steps=known.steps,
        seconds_per_step=known.seconds_per_step if goes_on and not stands else None,
        checkpoint_step=known.checkpoint_step,
        checkpoint_age=_age(known.checkpoint_time, now),
    )
    percent = known.percent_training
    trained = "" if percent is None else f"{percent:g} % of the time was training"
    stalled = known.account.get("stalled", 0.0)
    if trained and stands and stalled:
        share = 100 * stalled / sum(known.account.values())
        trained = f"{trained}, {share:.1f} % standing still"
    stall = _stall_words(known, now, goes_on=goes_on)
    return "; ".join(filter(None, (stall, words, trained)))


def _stall_words(known: ProgressStatus, now: datetime | None, *, goes_on: bool) -> str:
    """That it stands still, since when, and where the ranks are; empty if it does not.

    If the supervisor is not known to go on, it stood still when that was written.
    """
    if known.stalled_since is None:
        return ""
    step = known.stalled_step
    after = "no first step" if step is None else f"no step after step {step:,}"
    age = _age(known.stalled_since, now) if goes_on else None
    told = f"since {printable(known.stalled_since)}"
    told += "" if age is None else f", {about(age)} ago"
    seen = f"; {printable(known.stalled_seen)}" if known.stalled_seen else ""
    return f"{'stands' if goes_on else 'stood'} still: {after} {told}{seen}"


def _age(time: str | None, now: datetime | None) -> float | None:
    """Seconds since a time of RFC 3339; None if it is none."""
    if time is None or now is None:
        return None
    with suppress(ValueError):
        then = datetime.fromisoformat(time.replace("Z", "+00:00"))
        return max((now - then).total_seconds(), 0.0) if then.tzinfo else None
    return None


def status_words(
    *,
    step: int | None = None,
    steps: int | None = None,
    seconds_per_step: float | None = None,
    checkpoint_step: int | None = None,
    checkpoint_age: float | None = None,
) -> str:
    """How far the job is, as far as it is known; empty if neither step nor checkpoint is known."""
    return "; ".join(
        part
        for part in (
            "" if step is None else _step_words(step, steps, seconds_per_step),
            "" if checkpoint_step is None else _checkpoint_words(checkpoint_step, checkpoint_age),
        )
        if part
    )


def _step_words(step: int, steps: int | None, seconds_per_step: float | None) -> str:
    parts = [f"step {step:,}"]
    if steps:
        parts[0] += f" of {steps:,} ({100 * step // steps} %)"
    if seconds_per_step is not None:
        parts.append(f"{step_seconds(seconds_per_step)} a step")
        if steps and steps > step:
            parts.append(f"{about((steps - step) * seconds_per_step)} left")
    return ", ".join(parts)


def _checkpoint_words(step: int, age: float | None) -> str:
    return f"checkpoint of step {step:,}" + ("" if age is None else f", {about(age)} ago")
