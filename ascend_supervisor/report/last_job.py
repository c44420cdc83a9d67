"""The starts of the last job in an event log, by the rule of ``program/earlier_start``; pure.

Later starts go on in the same file, and a later job in the same place does, too, unless it writes
its events elsewhere, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ascend_supervisor.job_files import UNNAMED_JOB
from ascend_supervisor.report.told import ToldEvent, moment

SLACK = 1_000_000
"""In microseconds: a state file and an event log take the time of an event one after the other."""
_ORIGIN = ("job_id", "host", "pid")
_BOUNDS = ("supervisor.started", "supervisor.exited")


class JobChanges(Struct):
    """Tells, event by event, where another job begins.

    A start belongs to the job before it if that has the same name on the same host and did not
    succeed. Jobs without a name of their own are not told apart: each start is one.
    """

    _job: tuple[object, object] | None = None
    _succeeded: bool = False

    def begins_with(self, event: ToldEvent) -> bool:
        """Whether ``event`` is the first of a job other than that of the events before it."""
        name = event.get("event")
        if name == "supervisor.exited":
            self._succeeded = event.get("exit_code") == 0
        if name != "supervisor.started":
            return False
        job = (event.get("job_id"), event.get("host"))
        goes_on = job == self._job and job[0] != UNNAMED_JOB and not self._succeeded
        self._job, self._succeeded = job, False
        return not goes_on


class WritingStart(Struct, frozen=True):
    """A start of a supervisor, by what its state file says.

    ``since`` is the begin of its first known generation, in microseconds since the epoch: in a
    container the next supervisor often has the same pid.
    """

    job_id: str
    host: str
    pid: int
    since: int | None = None

    def wrote(self, event: ToldEvent) -> bool:
        """Whether it has written ``event``."""
        if [event.get(key) for key in _ORIGIN] != [self.job_id, self.host, self.pid]:
            return False
        at = moment(event)
        return self.since is None or (at is not None and at >= self.since - SLACK)


def of_last_job(events: Iterable[ToldEvent]) -> list[ToldEvent]:
    """The events of the last job in an event log, in their order."""
    changes = JobChanges()
    kept: list[ToldEvent] = []
    for event in events:
        if changes.begins_with(event):
            kept.clear()
        kept.append(event)
    return kept


def of_last_jobs(events: Iterable[ToldEvent]) -> dict[str, list[ToldEvent]]:
    """The same of each host, whose logs may follow each other, or be mixed."""
    changes: dict[str, JobChanges] = {}
    kept: dict[str, list[ToldEvent]] = {}
    for event in events:
        host = event.get("host")
        if not isinstance(host, str):
            continue
        is_bound = event.get("event") in _BOUNDS  # hardly any of a long log is
        if is_bound and changes.setdefault(host, JobChanges()).begins_with(event):
            kept.pop(host, None)
        kept.setdefault(host, []).append(event)
    return kept
