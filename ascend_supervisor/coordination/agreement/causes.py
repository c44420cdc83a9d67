"""What ended a generation: a consequence is not its cause, whoever was the first to write."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import Act
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.failing import first_here
from ascend_supervisor.coordination.agreement.records import Cause, tellable
from ascend_supervisor.coordination.agreement.writing import new_epoch
from ascend_supervisor.errors import DEFECT, UNAVAILABLE
from ascend_supervisor.evidence.blame import is_caused_elsewhere
from ascend_supervisor.outcome import (
    MOST_STATUS,
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
)


def is_consequence(failure: Failure | None) -> bool:
    """Whether it suffers from another rank, as its own words tell."""
    return failure is not None and is_caused_elsewhere(failure)


def correct_cause(case: Case) -> Act | None:
    """A failure here takes the place of one that is its consequence.

    Who has told a failure before its words were known tells it again, if it is a consequence.
    """
    told, verdict = case.about.cause, case.situation.verdict
    if case.gathering is None or case.member is None or told is None or verdict is None:
        return None
    # What the others have told since has ended our ranks; it is no failure of ours.
    ours, before = cause_of(case, Ended(verdict.outcome, verdict.uptime)), told.failure
    if ours is None or ours.failure is None or before is None:
        return None
    is_ours = told.server == case.index
    if ours.failure.generation != before.generation or is_consequence(before) is is_ours:
        return None
    if is_consequence(ours.failure) is not is_ours:
        return None
    about = replace(case.about, cause=replace(ours, also_lost=told.also_lost))
    return new_epoch(case, ours.reason, case.epoch, about)


def cause_of(case: Case, ended: Ended) -> Cause | None:
    """What ended the generation here; None if that was success, or a signal to stop."""
    index = case.index or 0
    match ended.decisive:
        case Crashed(failure=failure):
            code = min(failure.status.exit_code or DEFECT, MOST_STATUS)
            reason = f"{failure.name} {failure.status}"
            first = first_here(case, ended.decisive, failure.generation, reason)
            return Cause(index, code, reason, tellable(failure), first=first)
        case Fault(reason=reason, exit_code=code, cause=failure):
            return Cause(index, code or UNAVAILABLE, reason, tellable(failure))
        case NotStarted(exit_code=code, reason=reason):
            return Cause(index, code or DEFECT, reason)
        case Completed() | Interrupted():
            return None
