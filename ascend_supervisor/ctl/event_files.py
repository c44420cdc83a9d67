"""The event logs of supervisors, as they are read for ``trace`` and ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import orjson

from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.trace import trace
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.job_files import events_beside
from ascend_supervisor.report.last_job import WritingStart, of_last_job, of_last_jobs
from ascend_supervisor.report.told import ToldEvent, instant, text
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.untrusted_text import plain

_LINE = orjson.OPT_APPEND_NEWLINE
Which = WritingStart | Literal["last job", "all starts"]
"""Which events of a file are meant: those of the job of this start, of the last job of each host,
or all of them."""


def beside(state: State) -> list[Path]:
    """The event log of this supervisor, the older file first; raises StateUnknown without one."""
    newest = Path(events_beside(state.path))
    found = [path for path in (newest.with_name(f"{newest.name}.1"), newest) if path.is_file()]
    if not found:
        raise StateUnknown(
            f"there is no event log {plain(str(newest))}: this supervisor keeps none, or another "
            "(--event-log); name the file"
        )
    return found


def start_of(status: Status) -> WritingStart:
    """The start that has left this status."""
    first = next((one.started_at for one in status.generations), None)
    return WritingStart(status.job_id, status.pod, status.pid, instant(first))


def trace_document(files: Sequence[Path], which: Which = "last job") -> bytes:
    """The trace of these event logs as JSON.

    Raises SettingsRefused for a file that cannot be read, and StateUnknown without an event.
    """
    shapes = list(trace(events_of(files, which)))
    if not shapes:
        raise no_event(files)
    return orjson.dumps({"displayTimeUnit": "ms", "traceEvents": shapes}, option=_LINE)


def events_of(files: Sequence[Path], which: Which) -> Iterator[ToldEvent]:
    """These events, file by file or host by host.

    Raises SettingsRefused for a file that cannot be read, and StateUnknown if a start was given
    that has written none of them.
    """
    events = chain.from_iterable(map(_events, files))
    if which == "all starts":
        return events
    if which == "last job":
        return chain.from_iterable(of_last_jobs(events).values())
    kept = of_last_job(events)
    if kept and not any(map(which.wrote, reversed(kept))):
        raise _of_another(files, which, kept[-1])
    return iter(kept)


def _of_another(files: Sequence[Path], start: WritingStart, last: ToldEvent) -> StateUnknown:
    whose = f"job {text(last, 'job_id')} (process {last.get('pid')}, {text(last, 'ts')})"
    return StateUnknown(
        f"the last start here, of job {plain(start.job_id)} (process {start.pid}), has left no "
        f"event in {plain(str(files[-1]))}: it keeps none, or another log (--event-log); name the "
        f"file to see what it holds, which ends with {plain(whose)}"
    )


def no_event(files: Sequence[Path]) -> StateUnknown:
    """The refusal of files that hold none."""
    names = ", ".join(plain(str(file)) for file in files)
    return StateUnknown(f"there is no event of a supervisor in {names}")


def _events(path: Path) -> Iterator[ToldEvent]:
    """Lines that are no events are left out, such as half a line at the end."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                with suppress(orjson.JSONDecodeError):
                    event = orjson.loads(line)
                    if isinstance(event, dict):
                        yield event
    except OSError as error:
        reason = error.strerror or error
        raise SettingsRefused(
            f"the event log {plain(str(path))} cannot be read: {reason}"
        ) from error
