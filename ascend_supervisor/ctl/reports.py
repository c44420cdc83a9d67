"""``report``: the events of a job as a page, or as text; the page needs two packages more."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.ctl.event_files import Which, events_of, no_event
from ascend_supervisor.ctl.seen import Seen
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.report.job import ReportedJob, job
from ascend_supervisor.report.lines import lines
from ascend_supervisor.report.told import Present

_EXTRA = ("drawsvg", "jinja2")


def html(
    files: Sequence[Path],
    language: Language,
    which: Which = "last job",
    present: Present | None = None,
) -> bytes:
    """One page that loads nothing; of a job that goes on, up to the ``present``.

    Raises SettingsRefused for a file that cannot be read and if a package is missing, and
    StateUnknown if no event is in the files, or none of the start that was given.
    """
    try:
        from ascend_supervisor.report.page import page  # noqa: PLC0415  (slow, and an extra)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise SettingsRefused(
            f"the Python package {error.name} is not installed here; install it with: "
            f"{sys.executable} -m pip install 'drawsvg>=2.4' 'jinja2>=3.1.5'; or give --text, "
            "which needs neither"
        ) from error
    return page(_job(files, which, present), language)


def text(
    files: Sequence[Path],
    language: Language,
    which: Which = "last job",
    present: Present | None = None,
) -> bytes:
    """The same as lines; raises as ``html`` does."""
    told = lines(_job(files, which, present), language)
    return "".join(f"{line}\n" for line in told).encode()


def present_of(seen: Seen, now: float) -> Present | None:
    """What a look at a supervisor shows that has not ended, ``now`` (seconds since 1970)."""
    status, known = seen.status, seen.status.progress
    if status.phase == "ended":
        return None
    runs = seen.live is not None or seen.state.supervisor_lives
    at = now if runs else seen.state.written
    if known is None or status.phase != "running":
        return Present(status.pod, at, runs)
    step, steps, time = known.step, known.steps, known.last_step_time
    return Present(status.pod, at, runs, status.generation, step, steps, time)


def _job(files: Sequence[Path], which: Which, present: Present | None) -> ReportedJob:
    found = job(events_of(files, which), present)
    if found is None:
        raise no_event(files)
    return found
