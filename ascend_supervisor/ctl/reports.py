"""``report``: the events of a job as a page, or as text; the page needs two packages more."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ascend_supervisor.causes.language import Language
from ascend_supervisor.ctl.event_files import events_of, no_event
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.report.job import ReportedJob, job
from ascend_supervisor.report.last_job import WritingStart
from ascend_supervisor.report.lines import lines

_EXTRA = ("drawsvg", "jinja2")


def html(files: Sequence[Path], language: Language, start: WritingStart | None = None) -> bytes:
    """One page that loads nothing; with a ``start``, of its job only.

    Raises SettingsRefused for a file that cannot be read and if a package is missing, and
    StateUnknown if no event is in the files, or none of the ``start``.
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
    return page(_job(files, start), language)


def text(files: Sequence[Path], language: Language, start: WritingStart | None = None) -> bytes:
    """The same as lines; raises as ``html`` does."""
    told = lines(_job(files, start), language)
    return "".join(f"{line}\n" for line in told).encode()


def _job(files: Sequence[Path], start: WritingStart | None) -> ReportedJob:
    found = job(events_of(files, start))
    if found is None:
        raise no_event(files)
    return found
