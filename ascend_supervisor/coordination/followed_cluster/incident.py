"""A fault of the cluster that ends a generation, and how it ends it; pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events.cluster import Trigger
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Fault,
    Interrupted,
    NotStarted,
    Patience,
    Remedy,
)
from ascend_supervisor.restart_policy import Stop

HURRIED_SECONDS = 10.0
"""How long a rank may live whose NPU waits for its reset, in the published mode ``elastic``."""

GRAVITY: Mapping[Trigger, int] = {
    "table_changed": 0,
    "table_withdrawn": 0,
    "retry_time": 0,
    "npu_reset": 1,
    "npu_fault": 2,
    "npu_failed": 3,
    "graceful_exit": 4,
}
"""A graver trigger takes the place of another one, in the same incident."""


class Incident(Struct, frozen=True):
    """A fault of the cluster that ends the generation; ``reason`` is half a sentence.

    ``listed`` are ranks of this server whose NPU waits for its reset. With ``awaits_table``, the
    next generation needs a table that was written after ``since``, or another one than ``before``
    (its placement), unless an operator has accepted the one that is there.
    """

    trigger: Trigger
    reason: str
    began: float
    before: str
    since: float
    listed: frozenset[int] = frozenset()
    awaits_table: bool = False
    has_retry_time: bool = False
    is_table_accepted: bool = False

    @property
    def is_final(self) -> bool:
        """Whether this server is to end: the cluster then starts it anew, or another one."""
        return self.trigger in _FINAL


_FINAL: frozenset[Trigger] = frozenset({"npu_fault", "npu_failed", "graceful_exit"})


def fault(incident: Incident, patience: Patience, reset_grace: float) -> Fault:
    """The reason to end the generation; ``patience`` is the job's.

    Where pods are replaced, the ranks may be writing a last checkpoint, so they have the drain. A
    faulty NPU of this server waits for the end of its ranks.
    """
    reason = f"the cluster recovers: {incident.reason}"
    if incident.is_final:
        return Fault(reason, UNAVAILABLE, Remedy.FINAL, by_cluster=True)
    if incident.listed:
        hurried = min(HURRIED_SECONDS, reset_grace)
        told = Patience(0.0, reset_grace, hurried=incident.listed, hurried_grace=hurried)
        return Fault(reason, UNAVAILABLE, Remedy.FREE, told, by_cluster=True)
    drained = patience if incident.awaits_table else None
    return Fault(reason, UNAVAILABLE, Remedy.FREE, drained, by_cluster=True)


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


class FollowRules(Struct, frozen=True):
    """What the user has chosen; all in seconds.

    ``verdict`` is how long a failure here waits for the cluster, ``patience`` is the job's,
    ``reset_grace`` that of healthy ranks while an NPU waits for its reset. ``table_timeout`` None:
    for ever. ``joins_others``: the ranks need a process in another pod. ``reset_file`` is its path.
    """

    verdict: float
    patience: Patience
    reset_grace: float
    table_timeout: float | None
    joins_others: bool = False
    reset_file: str = ""
