"""How a generation has ended, seen beside what the cluster says; pure."""

from __future__ import annotations

from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Fault,
    Interrupted,
    NotStarted,
    Remedy,
)
from ascend_supervisor.restart_policy import Stop


def ended_by(incident: Incident) -> Stop:
    """The end that the cluster wants; a graceful one was asked for, and is not to be retried."""
    reason = f"the cluster recovers: {incident.reason}"
    return Stop(UNAVAILABLE, reason, is_retryable=incident.trigger != "graceful_exit")


def what_failed(ended: Ended) -> str:
    outcome = ended.decisive
    if isinstance(outcome, Crashed):
        return f"{outcome.failure.name} {outcome.failure.status}"
    return outcome.reason if isinstance(outcome, Fault) else "the ranks have ended"


def is_failed(ended: Ended) -> bool:
    return isinstance(ended.decisive, (Crashed, Fault)) and not ended.left


def is_settled(ended: Ended) -> bool:
    """Whether nothing that the cluster says changes what follows."""
    match ended.decisive:
        case Completed() | NotStarted() | Interrupted() | Fault(remedy=Remedy.FINAL):
            return True
        case _:
            return bool(ended.left)
