"""Whether the directories of the job have room.

A full disk stops no rank of ours, but what the rank writes is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath

from ascend_supervisor.doctor.check import ThisServer, fit, unknown, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.untrusted_text import plain

LEAST_BYTES = 64 * 1024 * 1024
LEAST_FILES = 200
"""Below these a job of a few ranks fills what is left within hours, if not within seconds."""


def room_on_disks(server: ThisServer) -> Iterator[Result]:
    """A row for each directory; what is short on one file system is told once."""
    told: set[int] = set()
    for subject, directory in _directories(server).items():
        try:
            yield _row(subject, directory, told)
        except OSError as error:
            yield unknown(
                subject, f"{plain(str(directory))} cannot be looked at: {reason_of(error)}"
            )


def _directories(server: ThisServer) -> dict[str, PurePath]:
    return {"log directory": server.log_dir, "work directory": server.work_dir}


def _row(subject: str, directory: PurePath, told: set[int]) -> Result:
    place = _nearest(directory)
    space, device = os.statvfs(place), os.stat(place).st_dev  # noqa: PTH116  (a PurePath)
    name = plain(str(directory))
    free = space.f_bavail * space.f_frsize
    found = f"{_mebibytes(free)} free for {name}"
    if free < LEAST_BYTES and device not in told:
        told.add(device)
        expected = f"at least {_mebibytes(LEAST_BYTES)}"
        return warning(subject, found, expected, "remove old logs, or name another directory")
    if space.f_files and space.f_favail < LEAST_FILES and device not in told:
        told.add(device)
        found = f"room for {space.f_favail} more files (inodes) for {name}"
        return warning(subject, found, f"at least {LEAST_FILES}", "remove files there")
    return fit(subject, found)


def _nearest(directory: PurePath) -> PurePath:
    """It, or what is there of the way to it."""
    above = (place for place in (directory, *directory.parents) if os.path.exists(place))  # noqa: PTH110
    return next(above, directory)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
