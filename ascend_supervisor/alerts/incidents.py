"""Which events somebody outside wants to be told; pure."""

from __future__ import annotations

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import RestartScheduled
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.events.training import TrainingStalled
from ascend_supervisor.settings.alert_options import AlertKind


def kind_of(event: Event) -> AlertKind | None:
    """The word of --notify-on for it; None if there is none."""
    match event:
        case SupervisorExited(exit_code=0):
            return "ended"
        case SupervisorExited():
            return "failed"
        case RestartScheduled():
            return "restarted"
        case HangNoticed() | TrainingStalled():
            return "hang"
        case _:
            return None
