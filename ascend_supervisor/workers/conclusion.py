"""How a generation ended, with what became known while it was being ended; pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    Outcome,
    StopSignal,
)
from ascend_supervisor.signal_meaning import explainable_until, explains


def explainable_seconds(outcome: Outcome, failure: Failure | None, now: float) -> float:
    """For how many more seconds a signal to us could explain the failure."""
    until = explainable_until(failure) if failure and isinstance(outcome, Crashed) else None
    return 0.0 if until is None else until - now


def concluded(
    ended: Ended,
    seen: str,
    failure: Failure | None,
    stop: StopSignal | None,
    told: Sequence[Fault],
) -> Ended:
    """What ``ended`` becomes with what the last look has ``seen``, and all faults that were told.

    ``failure`` is the first failure of a rank, ``stop`` a signal to us that asked for the end.
    """
    looked = _with_look(ended.outcome, seen)
    final = _final(looked, failure, stop)
    later = tuple(fault for fault in told if fault is not ended.outcome)
    if isinstance(looked, Fault) and looked is not final:
        later = (looked, *later)  # we were told to stop while it was being ended
    return replace(ended, outcome=final, faults=later)


def _with_look(outcome: Outcome, seen: str) -> Outcome:
    if seen and isinstance(outcome, Fault):
        return replace(outcome, reason=f"{outcome.reason}; {seen}")
    return outcome


def _final(outcome: Outcome, failure: Failure | None, stop: StopSignal | None) -> Outcome:
    if stop is not None and not isinstance(outcome, Completed):
        is_explained = failure is not None and explains(stop, failure)
        return Interrupted(stop, None if is_explained else failure)
    if isinstance(outcome, Crashed) and failure is not None:
        return Crashed(failure)
    return outcome
