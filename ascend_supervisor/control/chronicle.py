"""The history of this run, kept as events come; nothing of it is written."""

from __future__ import annotations

from datetime import datetime, timezone

from ascend_supervisor.control.history import History, noted
from ascend_supervisor.events import Event
from ascend_supervisor.reporters.state_file import Status
from ascend_supervisor.tasks.clock import Clock


class Chronicle:
    """``report`` adds an event to ``history``; ``status`` is the one before the first event."""

    def __init__(self, status: Status, clock: Clock) -> None:
        self.history = History(status, _time_of_day(), clock.elapsed())
        self._clock = clock

    @property
    def status(self) -> Status:
        """What the state file holds, or is about to."""
        return self.history.status

    def report(self, event: Event) -> None:
        self.history = noted(self.history, event, self._clock.elapsed(), _time_of_day())


def _time_of_day() -> str:
    """RFC 3339, UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
