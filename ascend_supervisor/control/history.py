"""What events have told of the job so far, with their times; a fold, pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ascend_supervisor.control.status_answer import PastRestart
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import (
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
)
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.job_status import after
from ascend_supervisor.reporters.status_document import Status

MOST_RESTARTS = 20
"""How many of the latest restarts are remembered."""


class History(Struct, frozen=True):
    """``status`` is that of the state file; ``started_at`` (RFC 3339) is the supervisor's start.

    The job is in this phase since ``phase_since``, and processes of the latest generation were
    started at ``began`` and ran for ``lasted`` seconds, both by pid. Moments are seconds of
    ``Clock.elapsed``.
    """

    status: Status
    started_at: str
    phase_since: float
    restarts: tuple[PastRestart, ...] = ()
    began: Mapping[int, float] = field(default_factory=dict)
    lasted: Mapping[int, float] = field(default_factory=dict)


def noted(
    history: History,
    event: Event,
    now: float,
    at: str,
    progress: ProgressStatus | None = None,
) -> History:
    """The history after ``event``, which came ``now``, at the time of day ``at`` (RFC 3339)."""
    status = after(history.status, event, at, progress)
    if status.phase != history.status.phase:
        history = replace(history, phase_since=now)
    return _noted(replace(history, status=status), event, now, at)


def _noted(history: History, event: Event, now: float, at: str) -> History:
    match event:
        case GenerationStarted():
            return replace(history, began={}, lasted={})
        case ProcessStarted(child_pid=pid):
            return replace(history, began={**history.began, pid: now})
        case ProcessExited(child_pid=pid, runtime_seconds=seconds):
            return replace(history, lasted={**history.lasted, pid: seconds})
        case RestartScheduled(cause=cause, free=free):
            new = PastRestart(history.status.generation or 0, at, cause, free)
            return replace(history, restarts=(*history.restarts, new)[-MOST_RESTARTS:])
        case _:
            return history
