"""The history of this run, kept as events come; nothing of it is written."""

from __future__ import annotations

from ascend_supervisor.control.history import History, noted
from ascend_supervisor.events import Event
from ascend_supervisor.reporters.state_file import Status, time_of_day
from ascend_supervisor.tasks.clock import Clock


class Chronicle:
    """``report`` adds an event to ``history``; ``status`` is the one before the first event."""

    def __init__(self, status: Status, clock: Clock) -> None:
        self._at = time_of_day()
        self.history = History(status, self._at, clock.elapsed())
        self._clock = clock

    @property
    def status(self) -> Status:
        """What the state file holds, or is about to."""
        return self.history.status

    def report(self, event: Event) -> None:
        self._at = time_of_day()
        self.history = noted(self.history, event, self._clock.elapsed(), self._at)

    def latest(self) -> str:
        """When the latest event came."""
        return self._at
