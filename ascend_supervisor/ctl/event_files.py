"""The event logs of supervisors, as they are read for ``trace`` and ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import orjson

from ascend_supervisor.ctl.state import State, StateUnknown
from ascend_supervisor.ctl.trace import trace
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.job_files import events_beside
from ascend_supervisor.report.last_job import of_last_job
from ascend_supervisor.report.told import ToldEvent
from ascend_supervisor.untrusted_text import plain

_LINE = orjson.OPT_APPEND_NEWLINE


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


def trace_document(files: Sequence[Path], *, last_job: bool = False) -> bytes:
    """The trace of these event logs as JSON; of the ``last_job`` in them only, if so wanted.

    Raises SettingsRefused for a file that cannot be read, and StateUnknown if no event is in them.
    """
    shapes = list(trace(events_of(files, last_job=last_job)))
    if not shapes:
        raise no_event(files)
    return orjson.dumps({"displayTimeUnit": "ms", "traceEvents": shapes}, option=_LINE)


def events_of(files: Sequence[Path], *, last_job: bool = False) -> Iterator[ToldEvent]:
    """All events, file by file, or those of the ``last_job`` in the log of one supervisor.

    Raises SettingsRefused for a file that cannot be read.
    """
    events = chain.from_iterable(map(_events, files))
    return iter(of_last_job(events)) if last_job else events


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
