"""The history of this run, kept as events come; nothing of it is written."""

from __future__ import annotations

from datetime import datetime, timezone

from msgspec.structs import replace

from ascend_supervisor.control.history import History, noted
from ascend_supervisor.events import Event
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.reporters.job_status import SoFar, time_of_day
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.tasks.clock import Clock


class Chronicle:
    """``report`` adds an event to ``history``; ``status`` is the one before the first event.

    ``training`` is what is known of the steps.
    """

    def __init__(self, status: Status, training: TrainingRecord, clock: Clock) -> None:
        self._at = time_of_day()
        self.history = History(status, self._at, clock.elapsed())
        self.training = training
        self._clock = clock

    @property
    def status(self) -> Status:
        """What the state file holds, or is about to."""
        return self.history.status

    @property
    def so_far(self) -> SoFar:
        """What the state file needs besides the events.

        The first one has the account of earlier starts: we may be killed before the next.
        """
        return SoFar(self.now.status, lambda: self._at, self._progress)

    @property
    def now(self) -> History:
        """The history, with the progress of this moment."""
        status = replace(self.history.status, progress=self._progress())
        return replace(self.history, status=status)

    def report(self, event: Event) -> None:
        self._at = time_of_day()
        now, progress = self._clock.elapsed(), self._progress()
        self.history = noted(self.history, event, now, self._at, progress)

    def _progress(self) -> ProgressStatus | None:
        return self.training.status(self._clock.elapsed(), datetime.now(timezone.utc))
